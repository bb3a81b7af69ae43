#include "native/kernels/opd_loss.h"

namespace openclaw {
namespace {

bool counts_here(const int32_t* ids, int64_t v) { return !ids || ids[v] >= 0; }

// max and Σ exp(l_old - max) over the entries: w_v = exp(l_old(v) - max) / sum.
struct Weights {
  double max = -INFINITY, sum = 0;
  double of(double l_old) const { return sum > 0 ? std::exp(l_old - max) / sum : 0; }
};

Weights weights(const int32_t* ids, const float* l_old, int64_t k) {
  Weights w;
  for (int64_t v = 0; v < k; v++)
    if (counts_here(ids, v) && l_old[v] > w.max) w.max = l_old[v];
  if (w.max == -INFINITY) return w;  // nothing but padding
  for (int64_t v = 0; v < k; v++)
    if (counts_here(ids, v)) w.sum += std::exp(l_old[v] - w.max);
  return w;
}

double clip_delta(double delta, double C, OpdCounts& counts) {
  if (delta > C || delta < -C) {
    counts.delta_clipped++;
    return delta > 0 ? C : -C;
  }
  return delta;
}

}  // namespace

double opd_row(const int32_t* ids, const float* l_cur, const float* l_old, const float* l_teacher, int64_t k,
               const OpdParams& params, double scale, float* g_v, OpdCounts& counts) {
  const Weights w = weights(ids, l_old, k);
  double loss = 0;
  for (int64_t v = 0; v < k; v++) {
    double grad = 0;
    if (counts_here(ids, v)) {
      const double delta = clip_delta((double)l_teacher[v] - l_old[v], params.delta_clip, counts);
      const PpoTerm term = ppo_term(l_cur[v], l_old[v], delta * w.of(l_old[v]), params.clip, counts.clip);
      counts.entries++;
      loss += term.loss;
      grad = term.grad;
    }
    if (g_v) g_v[v] = (float)(scale * grad);
  }
  return scale * loss;
}

OpdReport opd_loss(const OpdBatch& in, const OpdParams& params, const OpdOut& out) {
  OpdReport report;
  const int64_t k = in.k;
  for (int64_t t = 0; t < in.rows; t++) {
    float* grad = out.grad ? out.grad + t * k : nullptr;
    double loss = 0;
    if (in.mask && in.mask[t] == 0) {
      for (int64_t v = 0; grad && v < k; v++) grad[v] = 0;
    } else {
      loss = opd_row(in.ids ? in.ids + t * k : nullptr, in.l_cur + t * k, in.l_old + t * k,
                     in.l_teacher + t * k, k, params, 1, grad, report.counts);
      report.tokens++;
      report.loss += loss;
    }
    if (out.loss) out.loss[t] = (float)loss;
  }
  if (report.tokens) report.loss /= (double)report.tokens;
  return report;
}

}  // namespace openclaw
