// The inner loops of attention between its products, for one instruction set. Contracts: nn_simd.h.
#include "native/kernels/nn_simd.h"
#include "native/kernels/simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {
namespace {

inline int64_t clamp(int64_t x, int64_t most) { return x < 0 ? 0 : x > most ? most : x; }
inline int64_t round_up(int64_t n) { return (n + OC_VL - 1) / OC_VL * OC_VL; }

inline void fill(float* row, int64_t from, int64_t to, float value) {
  for (int64_t k = from; k < to; k++) row[k] = value;
}

inline float row_max(const float* row, int64_t padded) {
  vf most = vload(row);
  for (int64_t k = OC_VL; k < padded; k += OC_VL) most = vmax(most, vload(row + k));
  return vmax_all(most);
}

// row = exp(row - m); returns the sum.
inline float exp_row(float* row, int64_t padded, float m) {
  const vf shift = vset(m);
  vf sum = {};
  for (int64_t k = 0; k < padded; k += OC_VL) {
    vf e = vexp(vload(row + k) - shift);
    vstore(row + k, e);
    sum += e;
  }
  return vsum(sum);
}

inline void scale_row(float* row, int64_t E, float c) {
  int64_t e = 0;
  for (; e + OC_VL <= E; e += OC_VL) vstore(row + e, vload(row + e) * c);
  for (; e < E; e++) row[e] *= c;
}

void softmax(float* S, int64_t lds, int64_t R, int64_t width, int64_t valid0, float* m, float* l, float* O,
             int64_t ldo, int64_t E) {
  const int64_t padded = round_up(width);
  for (int64_t r = 0; r < R; r++) {
    float* row = S + r * lds;
    const int64_t seen = clamp(valid0 + r, width);
    if (seen == 0) {
      fill(row, 0, padded, 0.f);
      continue;
    }
    fill(row, seen, padded, -__builtin_inff());  // its weight is exactly zero
    const float top = row_max(row, padded), most = top > m[r] ? top : m[r];
    float kept = 0;
    if (m[r] == most) {
      kept = l[r];
    } else if (m[r] > -__builtin_inff()) {
      const float c = vexp(vset(m[r] - most))[0];
      kept = l[r] * c;
      scale_row(O + r * ldo, E, c);
    }
    m[r] = most;
    l[r] = kept + exp_row(row, padded, most);
  }
}

void backward(float* S, float* dP, int64_t lds, int64_t R, int64_t width, int64_t valid0, const float* lse,
              int64_t ldl, const float* delta, float scale) {
  const int64_t padded = round_up(width);
  for (int64_t r = 0; r < R; r++) {
    float *s = S + r * lds, *d = dP + r * lds;
    const int64_t seen = clamp(valid0 + r, width), worked = round_up(seen);
    fill(s, seen, worked, -__builtin_inff());
    fill(d, seen, worked, 0.f);  // may be uninitialised memory, and 0 * NaN is NaN
    const vf shift = vset(lse[r * ldl]), centre = vset(delta[r]);
    for (int64_t k = 0; k < worked; k += OC_VL) {
      vf p = vexp(vload(s + k) - shift);
      vstore(s + k, p);
      vstore(d + k, p * (vload(d + k) - centre) * scale);
    }
    fill(s, worked, padded, 0.f);
    fill(d, worked, padded, 0.f);
  }
}

void normalise(const float* O, int64_t ldo, const float* l, int64_t R, int64_t E, float* out, int64_t ldout) {
  for (int64_t r = 0; r < R; r++) {
    const float c = 1.f / l[r];
    int64_t e = 0;
    for (; e + OC_VL <= E; e += OC_VL) vstore(out + r * ldout + e, vload(O + r * ldo + e) * c);
    for (; e < E; e++) out[r * ldout + e] = O[r * ldo + e] * c;
  }
}

void row_dots(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t R, int64_t E, float* out) {
  for (int64_t r = 0; r < R; r++, a += lda, b += ldb) {
    vf sum = {};
    int64_t e = 0;
    for (; e + OC_VL <= E; e += OC_VL) sum += vload(a + e) * vload(b + e);
    float total = vsum(sum);
    for (; e < E; e++) total += a[e] * b[e];
    out[r] = total;
  }
}

}  // namespace

extern const AttentionTable attention_table;
const AttentionTable attention_table = {softmax, backward, normalise, row_dots};

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
