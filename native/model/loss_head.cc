#include "native/model/loss_head.h"

#include <algorithm>

#include "native/kernels/hybrid_loss.h"
#include "native/kernels/logit_grad.h"
#include "native/kernels/logit_stats.h"

namespace openclaw {
namespace {

HybridRows one_row(const LossSequence& s, int64_t i, const float* gathered) {
  const SequenceLoss& loss = *s.loss;
  HybridRows row;
  row.rows = 1;
  row.k = loss.k;
  row.l_cur = gathered;
  const double per_token = 1 / (double)s.unmasked;
  if (loss.advantage) {
    row.advantage = loss.advantage + i;
    row.l_old = loss.old_logprob + i;
    row.scale_rl = loss.w_rl * per_token;
  }
  if (loss.top_ids) {
    row.ids = loss.top_ids + i * loss.k;
    row.top_cur = gathered + 1;
    row.top_old = loss.top_old + i * loss.k;
    row.top_teacher = loss.top_teacher + i * loss.k;
    row.scale_opd = loss.w_opd * per_token;
  }
  if (loss.ref_logprob) {
    row.l_ref = loss.ref_logprob + i;
    row.scale_k3 = loss.beta * per_token;
  }
  return row;
}

void add_counts(const HybridSums& from, LossSums& to) {
  LossReport& r = to.report;
  r.rl += from.rl;
  r.opd += from.opd;
  r.k3 += from.k3;
  r.ratio_clipped_low += from.rl_clip.low + from.opd_clip.low;
  r.ratio_clipped_high += from.rl_clip.high + from.opd_clip.high;
  r.exponent_clamped += from.rl_clip.exponent_clamped + from.opd_clip.exponent_clamped;
  r.delta_clipped += from.delta_clipped;
  r.top_entries += from.top_entries;
  to.ratio += from.ratio_sum;
  to.ratios += from.ratio_count;
}

// scale KL(p_base || p_cur) of one row. base_gradient is scale ([j = y] - p_base,j), see the header.
double anchor_row(const float* base, double base_lse, const float* current, double current_lse,
                  const float* base_gradient, int64_t V, int32_t y, float scale) {
  double sum = 0;
  for (int64_t j = 0; j < V; j++)
    sum -= (double)base_gradient[j] * (((double)base[j] - base_lse) - ((double)current[j] - current_lse));
  return sum + (double)scale * (((double)base[y] - base_lse) - ((double)current[y] - current_lse));
}

}  // namespace

bool LossSequence::learns() const {
  const SequenceLoss& l = *loss;
  if (unmasked == 0) return false;
  return (l.cross_entropy && l.weight != 0) || (l.advantage && l.w_rl != 0) || (l.top_ids && l.w_opd != 0) ||
         (l.ref_logprob && l.beta != 0) || l.w_anchor != 0;
}

LossReport LossSums::finish() const {
  LossReport out = report;
  out.loss = out.ce + out.rl + out.opd + out.k3 + out.anchor;
  out.mean_ratio = ratios ? ratio / (double)ratios : 0;
  out.entropy = out.tokens ? entropy / (double)out.tokens : 0;
  return out;
}

// Up to kRows positions and what is known of them so far. Column 0 of the g columns is the token itself, then
// come the top ids of its sequence, then padding.
struct LossHead::Chunk {
  int64_t begin = 0, rows = 0, V = 0, D = 0, g = 1;
  const LossPosition* positions = nullptr;
  float *logits = nullptr, *base = nullptr, *base_gradient = nullptr;  // [rows, V]
  std::vector<int32_t> ids;                                            // [rows, g]
  std::vector<float> gathered, gradients;                              // [rows, g]
  std::vector<float> max, log_sum, entropy, base_max, base_log_sum;    // [rows]
  std::vector<float> anchor_scale, base_gradients;                     // [rows]
  std::vector<int32_t> tokens;                                         // [rows]
  bool anchored = false;
};

void LossHead::run(const LossHeadInput& in, const LossHeadOut& out, LossSums& sums) {
  const int64_t N = (int64_t)in.positions->size();
  Chunk c;
  c.V = in.head->rows;
  c.D = in.head->cols;
  for (const LossSequence& s : *in.sequences) c.g = std::max(c.g, 1 + (s.loss->top_ids ? s.loss->k : 0));
  ws_.reset();
  const int64_t most = std::min(N, kRows);
  c.logits = ws_.take(most * c.V);
  if (in.base_hidden) c.base = ws_.take(most * c.V), c.base_gradient = ws_.take(most * c.V);
  for (c.begin = 0; c.begin < N; c.begin += kRows) {
    c.rows = std::min(kRows, N - c.begin);
    c.positions = in.positions->data() + c.begin;
    logits(in, c);
    statistics(in, c);
    terms(in, c, sums);
    if (in.base_hidden) anchor(in, c, sums);
    if (out.d_hidden) gradient(in, out, c);
  }
}

void LossHead::logits(const LossHeadInput& in, Chunk& c) {
  linear(in.hidden + c.begin * c.D, c.D, c.rows, *in.head, c.logits, c.V, false, lane_);
  c.anchored = false;
  c.anchor_scale.assign((size_t)c.rows, 0.f);
  for (int64_t r = 0; r < c.rows && in.base_hidden; r++) {
    const LossSequence& s = (*in.sequences)[(size_t)c.positions[r].sequence];
    if (s.loss->w_anchor == 0 || !s.counts(c.positions[r].index)) continue;
    c.anchor_scale[(size_t)r] = s.loss->w_anchor / (float)s.unmasked;
    c.anchored = true;
  }
  if (c.anchored)
    linear(in.base_hidden + c.begin * c.D, c.D, c.rows, *in.base_head, c.base, c.V, false, lane_);
}

void LossHead::statistics(const LossHeadInput& in, Chunk& c) {
  c.ids.assign((size_t)(c.rows * c.g), -1);
  c.tokens.resize((size_t)c.rows);
  for (int64_t r = 0; r < c.rows; r++) {
    const LossSequence& s = (*in.sequences)[(size_t)c.positions[r].sequence];
    const int64_t i = c.positions[r].index;
    int32_t* ids = c.ids.data() + r * c.g;
    ids[0] = c.tokens[(size_t)r] = s.targets[i];
    if (s.loss->top_ids) std::copy_n(s.loss->top_ids + i * s.loss->k, s.loss->k, ids + 1);
  }
  for (auto* v : {&c.max, &c.log_sum, &c.entropy, &c.base_max, &c.base_log_sum}) v->resize((size_t)c.rows);
  c.gathered.resize((size_t)(c.rows * c.g));
  LogitStatsRequest request;
  request.logits = {c.logits, DType::F32, c.rows, c.V, c.V};
  request.g = c.g;
  request.gather_ids = c.ids.data();
  LogitStatsOut out;
  out.max = c.max.data();
  out.log_sum = c.log_sum.data();
  out.entropy = c.entropy.data();
  out.gathered = c.gathered.data();
  logit_stats(request, out, lane_);
  if (!c.anchored) return;
  request = {};
  request.logits = {c.base, DType::F32, c.rows, c.V, c.V};
  out = {};
  out.max = c.base_max.data();
  out.log_sum = c.base_log_sum.data();
  logit_stats(request, out, lane_);
}

void LossHead::terms(const LossHeadInput& in, Chunk& c, LossSums& sums) {
  c.gradients.assign((size_t)(c.rows * c.g), 0.f);
  for (int64_t r = 0; r < c.rows; r++) {
    const LossSequence& s = (*in.sequences)[(size_t)c.positions[r].sequence];
    const int64_t i = c.positions[r].index;
    const float* gathered = c.gathered.data() + r * c.g;
    if (s.cur_logprobs) s.cur_logprobs[i] = gathered[0];
    if (!s.counts(i)) continue;
    float* g = c.gradients.data() + r * c.g;
    const HybridParams params{{s.loss->eps_low, s.loss->eps_high}, s.loss->delta_clip};
    HybridRowsOut out;
    out.g_y = g;
    out.g_v = s.loss->top_ids ? g + 1 : nullptr;
    add_counts(hybrid_rows(one_row(s, i, gathered), params, out), sums);
    if (s.loss->cross_entropy) {
      const double scale = s.loss->weight / (double)s.unmasked;
      sums.report.ce -= scale * (double)gathered[0];
      g[0] -= (float)scale;
    }
    sums.report.tokens++;
    sums.entropy += (double)c.entropy[(size_t)r];
  }
}

// Adds the anchor's loss, its gradient on the current rows (as -scale on the token's log-prob) and leaves the
// base rows' share in base_gradient.
void LossHead::anchor(const LossHeadInput&, Chunk& c, LossSums& sums) {
  if (!c.anchored) return;
  LogitGradRequest request;
  request.logits = c.base;
  request.ldl = request.vocab = c.V;
  request.rows = c.rows;
  request.max = c.base_max.data();
  request.log_sum = c.base_log_sum.data();
  request.g = 1;
  request.ids = c.tokens.data();
  request.grads = c.anchor_scale.data();
  logit_grad(request, c.base_gradient, c.V, lane_);
  std::vector<double> losses((size_t)c.rows);
  lane_.parallel_for(c.rows, 1, [&](int64_t r, int64_t, int) {
    const size_t n = (size_t)r;
    if (c.anchor_scale[n] == 0) return;
    losses[n] = anchor_row(c.base + r * c.V, (double)c.base_max[n] + (double)c.base_log_sum[n],
                           c.logits + r * c.V, (double)c.max[n] + (double)c.log_sum[n],
                           c.base_gradient + r * c.V, c.V, c.tokens[n], c.anchor_scale[n]);
  });
  for (int64_t r = 0; r < c.rows; r++) {
    sums.report.anchor += losses[(size_t)r];
    c.gradients[(size_t)(r * c.g)] -= c.anchor_scale[(size_t)r];
  }
}

void LossHead::gradient(const LossHeadInput& in, const LossHeadOut& out, Chunk& c) {
  LogitGradRequest request;
  request.logits = c.logits;
  request.ldl = request.vocab = c.V;
  request.rows = c.rows;
  request.max = c.max.data();
  request.log_sum = c.log_sum.data();
  request.g = c.g;
  request.ids = c.ids.data();
  request.grads = c.gradients.data();
  logit_grad(request, c.logits, c.V, lane_);
  if (c.anchored)
    lane_.parallel_for(c.rows, 1, [&](int64_t r, int64_t, int) {
      for (int64_t j = 0; j < c.V; j++) c.logits[r * c.V + j] += c.base_gradient[r * c.V + j];
    });
  linear_dx(c.logits, c.V, c.rows, *in.head, out.d_hidden + c.begin * c.D, c.D, false, lane_);
  if (out.d_head)
    linear_dw(c.logits, c.V, in.hidden + c.begin * c.D, c.D, c.rows, c.V, c.D, out.d_head, lane_);
}

}  // namespace openclaw
