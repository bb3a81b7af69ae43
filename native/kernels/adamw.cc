// AdamW and the norm of a gradient (nn.h): pieces of fixed size over the lane's threads. Inner loops:
// adamw_simd.cc.
#include <cmath>
#include <vector>

#include "native/base/error.h"
#include "native/kernels/nn_simd.h"

namespace openclaw {
namespace {

constexpr int64_t kPiece = 16384;  // numbers; fixed, so that the order of a sum does not depend on threads

template <typename Body>
void for_pieces(Lane& lane, int64_t n, const Body& body) {
  lane.parallel_for(n, kPiece, [&body](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i += kPiece) body(i, end - i < kPiece ? end - i : kPiece);
  });
}

}  // namespace

double sum_squares(const float* g, int64_t n, Lane& lane) {
  OC_CHECK(n >= 0, Code::E_SHAPE, "n: expected >= 0, got %lld", (long long)n);
  std::vector<double> sums((size_t)((n + kPiece - 1) / kPiece));
  for_pieces(lane, n, [&](int64_t i, int64_t count) {
    sums[(size_t)(i / kPiece)] = nn_table().adamw->sum_squares(g + i, count);
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, m_hat = m / (1 - beta1^step), v_hat = v / (1 -
// beta2^step), p -= lr (m_hat / (sqrt(v_hat) + eps) + weight_decay p). The corrections are one factor each:
// lr m_hat = step_size m, sqrt(v_hat) = sqrt(v) inv_sqrt_c2.
void adamw_step(float* p, const float* g, float* m, float* v, int64_t n, const AdamW& h, Lane& lane) {
  OC_CHECK(n >= 0, Code::E_SHAPE, "n: expected >= 0, got %lld", (long long)n);
  OC_CHECK(h.step >= 1, Code::E_ARGUMENT, "step: expected >= 1, got %lld", (long long)h.step);
  const double c1 = 1 - std::pow((double)h.beta1, (double)h.step),
               c2 = 1 - std::pow((double)h.beta2, (double)h.step);
  const AdamWFactors factors{h.grad_scale,
                             h.beta1,
                             (float)(1 - (double)h.beta1),
                             h.beta2,
                             (float)(1 - (double)h.beta2),
                             (float)(h.lr / c1),
                             (float)(1 / std::sqrt(c2)),
                             h.eps,
                             (float)((double)h.lr * h.weight_decay)};
  for_pieces(lane, n, [&](int64_t i, int64_t count) {
    nn_table().adamw->step(p + i, g + i, m + i, v + i, count, factors);
  });
}

}  // namespace openclaw
