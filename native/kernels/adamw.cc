// AdamW.
#include "native/kernels/nn.h"

#include <cmath>
#include <vector>

#include "native/base/error.h"

namespace openclaw {
void adamw_step(float* p, const float* g, float* m, float* v, int64_t n, const AdamW& h, Lane&) {
  double c1 = 1 - std::pow((double)h.beta1, (double)h.step),
         c2 = 1 - std::pow((double)h.beta2, (double)h.step);
  for (int64_t i = 0; i < n; i++) {
    double d = (double)g[i] * h.grad_scale;
    double mi = h.beta1 * (double)m[i] + (1 - (double)h.beta1) * d;
    double vi = h.beta2 * (double)v[i] + (1 - (double)h.beta2) * d * d;
    p[i] = (float)(p[i] - h.lr * (mi / c1 / (std::sqrt(vi / c2) + h.eps) + h.weight_decay * (double)p[i]));
    m[i] = (float)mi, v[i] = (float)vi;
  }
}

double sum_squares(const float* g, int64_t n, Lane&) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)g[i] * g[i];
  return sum;
}

}  // namespace openclaw
