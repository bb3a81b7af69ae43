#include "native/kernels/hybrid_loss.h"

#include <algorithm>

#include "native/base/error.h"

namespace openclaw {
namespace {

struct Terms {
  bool rl, opd, k3;
};

Terms terms_of(const HybridRows& in) {
  OC_CHECK(!in.advantage == !in.l_old, Code::E_ARGUMENT,
           "advantage: expected together with l_old, or neither");
  const int parts = !!in.ids + !!in.top_cur + !!in.top_old + !!in.top_teacher;
  OC_CHECK(parts == 0 || (parts == 4 && in.k > 0), Code::E_ARGUMENT,
           "top_teacher: expected ids, top_cur, top_old and top_teacher with k > 0, or none of them");
  OC_CHECK(in.l_cur || (!in.advantage && !in.l_ref), Code::E_ARGUMENT,
           "l_cur: expected with advantage or l_ref, got nothing");
  return {in.advantage != nullptr, parts == 4, in.l_ref != nullptr};
}

// What one position adds; g_v is written in place.
struct Position {
  double loss = 0, g_y = 0;
};

Position position(const HybridRows& in, const Terms& terms, const HybridParams& params, int64_t i, float* g_v,
                  HybridSums& sums, OpdCounts& opd_counts) {
  Position at;
  if (terms.rl) {
    const PpoTerm term = ppo_term(in.l_cur[i], in.l_old[i], in.advantage[i], params.clip, sums.rl_clip);
    sums.ratio_sum += term.ratio;
    sums.ratio_count++;
    sums.rl += in.scale_rl * term.loss;
    at.loss += in.scale_rl * term.loss;
    at.g_y += in.scale_rl * term.grad;
  }
  if (terms.k3) {
    const K3Term term = k3_term(in.l_cur[i], in.l_ref[i]);
    sums.k3 += in.scale_k3 * term.loss;
    at.loss += in.scale_k3 * term.loss;
    at.g_y += in.scale_k3 * term.grad;
  }
  if (terms.opd) {
    const int64_t row = i * in.k;
    const double loss = opd_row(in.ids + row, in.top_cur + row, in.top_old + row, in.top_teacher + row, in.k,
                                {params.clip, params.delta_clip}, in.scale_opd, g_v, opd_counts);
    sums.opd += loss;
    at.loss += loss;
  }
  return at;
}

}  // namespace

void HybridSums::add(const HybridSums& o) {
  rl += o.rl, opd += o.opd, k3 += o.k3;
  tokens += o.tokens;
  rl_clip.add(o.rl_clip);
  opd_clip.add(o.opd_clip);
  delta_clipped += o.delta_clipped, top_entries += o.top_entries;
  ratio_sum += o.ratio_sum, ratio_count += o.ratio_count;
}

HybridSums hybrid_rows(const HybridRows& in, const HybridParams& params, const HybridRowsOut& out) {
  const Terms terms = terms_of(in);
  HybridSums sums;
  OpdCounts opd_counts;
  for (int64_t i = 0; i < in.rows; i++) {
    const bool counts = !in.mask || in.mask[i] != 0;
    float* g_v = out.g_v ? out.g_v + i * in.k : nullptr;
    if (g_v && !(counts && terms.opd)) std::fill_n(g_v, in.k, 0.f);
    Position at;
    if (counts) {
      sums.tokens++;
      at = position(in, terms, params, i, g_v, sums, opd_counts);
    }
    if (out.loss) out.loss[i] = (float)at.loss;
    if (out.g_y) out.g_y[i] = (float)at.g_y;
  }
  sums.opd_clip = opd_counts.clip;
  sums.delta_clipped = opd_counts.delta_clipped;
  sums.top_entries = opd_counts.entries;
  return sums;
}

namespace {

struct Turn {
  int64_t begin, rows, tokens;  // tokens: unmasked positions
  bool rl, opd;
};

Turn turn_of(const HybridBatch& in, int64_t n) {
  Turn turn{in.offsets[n], in.offsets[n + 1] - in.offsets[n], 0, in.positions.advantage != nullptr,
            in.positions.ids != nullptr};
  OC_CHECK(turn.begin >= 0 && turn.rows >= 0 && turn.begin + turn.rows <= in.positions.rows, Code::E_SHAPE,
           "offsets: expected ascending from 0 to %lld, got %lld after %lld", (long long)in.positions.rows,
           (long long)in.offsets[n + 1], (long long)turn.begin);
  if (in.has_reward) turn.rl = turn.rl && in.has_reward[n];
  if (in.has_hint) turn.opd = turn.opd && in.has_hint[n];
  for (int64_t i = 0; i < turn.rows; i++)
    turn.tokens += !in.positions.mask || in.positions.mask[turn.begin + i] != 0;
  return turn;
}

// How many turns and tokens a term has: what it is divided by.
struct Normaliser {
  int64_t turns = 0, tokens = 0;
  void add(const Turn& turn, bool has_term) {
    if (!has_term || turn.tokens == 0) return;
    turns++;
    tokens += turn.tokens;
  }
  double scale(double weight, const Turn& turn, Aggregate how, double divisor) const {
    if (turn.tokens == 0) return 0;
    switch (how) {
      case Aggregate::TurnMean:
        return weight / ((double)turns * (double)turn.tokens);
      case Aggregate::TokenMean:
        return weight / (double)tokens;
      case Aggregate::Fixed:
        return weight / divisor;
    }
    return 0;
  }
};

const float* from(const float* array, int64_t at) { return array ? array + at : nullptr; }
float* from(float* array, int64_t at) { return array ? array + at : nullptr; }

// The positions of one turn, without the terms it does not have.
HybridRows rows_of(const HybridRows& all, const Turn& turn) {
  HybridRows rows;
  const int64_t b = turn.begin, k = all.k;
  rows.rows = turn.rows, rows.k = k;
  rows.mask = from(all.mask, b);
  rows.l_cur = from(all.l_cur, b);
  rows.l_ref = from(all.l_ref, b);
  if (turn.rl) rows.l_old = all.l_old + b, rows.advantage = all.advantage + b;
  if (turn.opd) {
    rows.ids = all.ids + b * k, rows.top_cur = all.top_cur + b * k;
    rows.top_old = all.top_old + b * k, rows.top_teacher = all.top_teacher + b * k;
  }
  return rows;
}

}  // namespace

HybridReport hybrid_loss(const HybridBatch& in, const HybridParams& params, const HybridRowsOut& out) {
  terms_of(in.positions);
  OC_CHECK(in.turns > 0 && in.offsets[0] == 0 && in.offsets[in.turns] == in.positions.rows, Code::E_SHAPE,
           "offsets: expected from 0 to %lld", (long long)in.positions.rows);
  OC_CHECK(in.divisor > 0, Code::E_ARGUMENT, "divisor: expected above 0, got %g", in.divisor);
  Normaliser rl, opd, k3;
  for (int64_t n = 0; n < in.turns; n++) {
    const Turn turn = turn_of(in, n);
    rl.add(turn, turn.rl);
    opd.add(turn, turn.opd);
    k3.add(turn, true);
  }
  HybridReport report;
  for (int64_t n = 0; n < in.turns; n++) {
    const Turn turn = turn_of(in, n);
    HybridRows rows = rows_of(in.positions, turn);
    rows.scale_rl = rl.scale(in.w_rl, turn, in.aggregate, in.divisor);
    rows.scale_opd = opd.scale(in.w_opd, turn, in.aggregate, in.divisor);
    rows.scale_k3 = k3.scale(in.beta, turn, in.aggregate, in.divisor);
    report.sums.add(hybrid_rows(
        rows, params,
        {from(out.loss, turn.begin), from(out.g_y, turn.begin), from(out.g_v, turn.begin * rows.k)}));
  }
  report.turns_with_reward = rl.turns;
  report.turns_with_hint = opd.turns;
  report.turns_with_tokens = k3.turns;
  return report;
}

}  // namespace openclaw
