// The inner loops of the optimiser for one instruction set. Contracts: nn_simd.h.
#include "native/kernels/nn_simd.h"
#include "native/kernels/simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {
namespace {

typedef double vd __attribute__((vector_size(8 * OC_VL)));

inline vf vsqrt(vf x) {
#if OC_VL == 16
  return (vf)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#elif defined(__AVX__)
  return (vf)_mm256_sqrt_ps((__m256)x);
#else
  vf y;
  for (int i = 0; i < OC_VL; i++) y[i] = __builtin_sqrtf(x[i]);
  return y;
#endif
}

// p, m and v after one step, of OC_VL parameters.
inline void update(vf& p, vf g, vf& m, vf& v, const AdamWFactors& f) {
  g = g * f.grad_scale;
  m = m * f.beta1 + g * f.one_less_beta1;
  v = v * f.beta2 + g * g * f.one_less_beta2;
  p = p - (m * f.step_size / (vsqrt(v) * f.inv_sqrt_c2 + f.eps) + p * f.decay);
}

void step(float* p, const float* g, float* m, float* v, int64_t n, const AdamWFactors& f) {
  int64_t i = 0;
  for (; i + OC_VL <= n; i += OC_VL) {
    vf pi = vload(p + i), mi = vload(m + i), vi_ = vload(v + i);
    update(pi, vload(g + i), mi, vi_, f);
    vstore(p + i, pi), vstore(m + i, mi), vstore(v + i, vi_);
  }
  for (; i < n; i++) {  // the same arithmetic, on a vector of one
    vf pi = vset(p[i]), mi = vset(m[i]), vi_ = vset(v[i]);
    update(pi, vset(g[i]), mi, vi_, f);
    p[i] = pi[0], m[i] = mi[0], v[i] = vi_[0];
  }
}

double sum_squares(const float* g, int64_t n) {
  vd sums = {};
  int64_t i = 0;
  for (; i + OC_VL <= n; i += OC_VL) {
    vd x = __builtin_convertvector(vload(g + i), vd);
    sums += x * x;
  }
  double total = 0;
  for (int j = 0; j < OC_VL; j++) total += sums[j];
  for (; i < n; i++) total += (double)g[i] * g[i];
  return total;
}

}  // namespace

extern const AdamWTable adamw_table;
const AdamWTable adamw_table = {step, sum_squares};

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
