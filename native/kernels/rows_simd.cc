// The row operations of the decoder for one instruction set. Contracts: nn.h, nn_simd.h.
#include "native/kernels/nn_simd.h"
#include "native/kernels/simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {
namespace {

// body(i) on whole vectors, last(i) on the numbers that are left.
template <typename Body, typename Last>
inline void each(int64_t n, Body body, Last last) {
  int64_t i = 0;
  for (; i + OC_VL <= n; i += OC_VL) body(i);
  for (; i < n; i++) last(i);
}

// --- RMS norm ----------------------------------------------------------------------------------------------

inline float sum_squares_row(const float* x, int64_t D) {
  vf sums[2] = {};
  float rest = 0;
  int64_t d = 0;
  for (; d + 2 * OC_VL <= D; d += 2 * OC_VL) {
    vf a = vload(x + d), b = vload(x + d + OC_VL);
    sums[0] += a * a, sums[1] += b * b;
  }
  for (; d < D; d++) rest += x[d] * x[d];
  return vsum(sums[0] + sums[1]) + rest;
}

void rms_norm(const float* x, const float* w, float eps, int64_t M, int64_t D, float* y, float* inv_rms) {
  for (int64_t m = 0; m < M; m++, x += D, y += D) {
    const float r = 1.f / __builtin_sqrtf(sum_squares_row(x, D) / (float)D + eps);
    if (inv_rms) inv_rms[m] = r;
    each(
        D, [&](int64_t d) { vstore(y + d, vload(x + d) * r * vload(w + d)); },
        [&](int64_t d) { y[d] = x[d] * r * w[d]; });
  }
}

// With g = dy * w and x_hat = x * r: dx = r * (g - x_hat * mean(g * x_hat)) = r * g - x * (r^3 * mean(g *
// x)).
void rms_norm_dx(const float* dy, const float* x, const float* w, const float* inv_rms, int64_t M, int64_t D,
                 float* dx, bool accumulate) {
  for (int64_t m = 0; m < M; m++, dy += D, x += D, dx += D) {
    vf sums = {};
    float rest = 0;
    each(
        D, [&](int64_t d) { sums += vload(dy + d) * vload(w + d) * vload(x + d); },
        [&](int64_t d) { rest += dy[d] * w[d] * x[d]; });
    const float r = inv_rms[m], c = r * r * r * ((vsum(sums) + rest) / (float)D);
    each(
        D,
        [&](int64_t d) {
          vf grad = vload(dy + d) * vload(w + d) * r - vload(x + d) * c;
          vstore(dx + d, accumulate ? vload(dx + d) + grad : grad);
        },
        [&](int64_t d) {
          float grad = dy[d] * w[d] * r - x[d] * c;
          dx[d] = accumulate ? dx[d] + grad : grad;
        });
  }
}

void rms_norm_dw(const float* dy, const float* x, const float* inv_rms, int64_t M, int64_t D, int64_t d0,
                 int64_t d1, float* dw) {
  for (int64_t m = 0; m < M; m++) {
    const float *dym = dy + m * D + d0, *xm = x + m * D + d0, r = inv_rms[m];
    each(
        d1 - d0,
        [&](int64_t d) { vstore(dw + d0 + d, vload(dw + d0 + d) + vload(dym + d) * vload(xm + d) * r); },
        [&](int64_t d) { dw[d0 + d] += dym[d] * xm[d] * r; });
  }
}

// --- rotary embedding --------------------------------------------------------------------------------------

// (a, b) turned by the angle of (c, s): a' = a c - b s, b' = b c + a s.
void rope_head(float* a, float* b, const float* c, const float* s, int64_t half) {
  each(
      half,
      [&](int64_t i) {
        vf a0 = vload(a + i), b0 = vload(b + i), ci = vload(c + i), si = vload(s + i);
        vstore(a + i, a0 * ci - b0 * si);
        vstore(b + i, b0 * ci + a0 * si);
      },
      [&](int64_t i) {
        const float a0 = a[i], b0 = b[i];
        a[i] = a0 * c[i] - b0 * s[i];
        b[i] = b0 * c[i] + a0 * s[i];
      });
}

// cos and sin lie in pairs: they are parted once a row (a piece of kPairs at a time) and serve every head.
void rope(float* x, int64_t heads, int64_t E, const float* cos_sin, bool inverse) {
  constexpr int64_t kPairs = 128;
  const int64_t half = E / 2;
  float c[kPairs], s[kPairs];
  for (int64_t i0 = 0; i0 < half; i0 += kPairs) {
    const int64_t n = half - i0 < kPairs ? half - i0 : kPairs;
    for (int64_t i = 0; i < n; i++) {
      c[i] = cos_sin[2 * (i0 + i)];
      s[i] = inverse ? -cos_sin[2 * (i0 + i) + 1] : cos_sin[2 * (i0 + i) + 1];
    }
    for (int64_t h = 0; h < heads; h++) rope_head(x + h * E + i0, x + h * E + half + i0, c, s, n);
  }
}

// --- SwiGLU ------------------------------------------------------------------------------------------------

// 1 / (1 + e^-x), from the side where the exponential is at most 1. NaN in, NaN out.
inline vf sigmoid(vf x) {
  vf e = vexp(vmin(x, -x));
  return vselect(x < (vf){}, e, vset(1.f)) / (1.f + e);
}

inline vf load_some(const float* p, int64_t n) {
  vf v = {};
  memcpy(&v, p, (size_t)n * sizeof(float));
  return v;
}
inline void store_some(float* p, vf v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof(float)); }

inline vf swiglu_of(vf gate, vf up) { return gate * sigmoid(gate) * up; }

void swiglu(const float* gate, const float* up, int64_t n, float* h) {
  int64_t i = 0;
  for (; i + OC_VL <= n; i += OC_VL) vstore(h + i, swiglu_of(vload(gate + i), vload(up + i)));
  if (i < n) store_some(h + i, swiglu_of(load_some(gate + i, n - i), load_some(up + i, n - i)), n - i);
}

// silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g).
inline void swiglu_gradients(vf dh, vf gate, vf up, vf& dgate, vf& dup) {
  vf s = sigmoid(gate);
  dgate = dh * up * s * (1.f + gate * (1.f - s));
  dup = dh * gate * s;
}

void swiglu_backward(const float* dh, const float* gate, const float* up, int64_t n, float* dgate,
                     float* dup) {
  vf dg, du;
  int64_t i = 0;
  for (; i + OC_VL <= n; i += OC_VL) {
    swiglu_gradients(vload(dh + i), vload(gate + i), vload(up + i), dg, du);
    vstore(dgate + i, dg), vstore(dup + i, du);
  }
  if (i == n) return;
  swiglu_gradients(load_some(dh + i, n - i), load_some(gate + i, n - i), load_some(up + i, n - i), dg, du);
  store_some(dgate + i, dg, n - i), store_some(dup + i, du, n - i);
}

void add(float* y, const float* x, int64_t n) {
  each(
      n, [&](int64_t i) { vstore(y + i, vload(y + i) + vload(x + i)); }, [&](int64_t i) { y[i] += x[i]; });
}

}  // namespace

extern const RowsTable rows_table;
const RowsTable rows_table = {rms_norm, rms_norm_dx, rms_norm_dw, rope, swiglu, swiglu_backward, add};

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
