// Operations on rows.
#include "native/kernels/nn.h"

#include <cmath>
#include <vector>

#include "native/base/error.h"

namespace openclaw {
namespace {

void put(float& y, double value, bool accumulate) { y = (float)(accumulate ? y + value : value); }

}  // namespace

void rms_norm(const float* x, const float* w, float eps, int64_t M, int64_t D, float* y, float* inv_rms,
              Lane&) {
  for (int64_t m = 0; m < M; m++) {
    double squares = 0;
    for (int64_t d = 0; d < D; d++) squares += (double)x[m * D + d] * x[m * D + d];
    double r = 1 / std::sqrt(squares / D + eps);
    if (inv_rms) inv_rms[m] = (float)r;
    for (int64_t d = 0; d < D; d++) y[m * D + d] = (float)(x[m * D + d] * r * w[d]);
  }
}

// With g = dy * w and x_hat = x * r: dx = r * (g - x_hat * mean(g * x_hat)), dw = sum over rows of dy *
// x_hat.
void rms_norm_backward(const float* dy, const float* x, const float* w, const float* inv_rms, int64_t M,
                       int64_t D, float* dx, bool accumulate, float* dw, Lane&) {
  for (int64_t m = 0; m < M; m++) {
    const float *dym = dy + m * D, *xm = x + m * D;
    double r = inv_rms[m], mean = 0;
    for (int64_t d = 0; d < D; d++) mean += (double)dym[d] * w[d] * xm[d] * r / D;
    for (int64_t d = 0; d < D; d++) {
      double x_hat = xm[d] * r;
      if (dw) dw[d] += (float)(dym[d] * x_hat);
      put(dx[m * D + d], r * ((double)dym[d] * w[d] - x_hat * mean), accumulate);
    }
  }
}

void rope(float* x, int64_t ldx, int64_t M, int64_t heads, int64_t E, const float* cos_sin,
          const int32_t* positions, bool inverse, Lane&) {
  for (int64_t m = 0; m < M; m++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < E / 2; i++) {
        const float* cs = cos_sin + ((int64_t)positions[m] * (E / 2) + i) * 2;
        double c = cs[0], s = inverse ? -cs[1] : cs[1];
        float *a = x + m * ldx + h * E + i, *b = a + E / 2;
        double a0 = *a, b0 = *b;
        *a = (float)(a0 * c - b0 * s);
        *b = (float)(b0 * c + a0 * s);
      }
}

void swiglu(const float* gate, const float* up, int64_t n, float* h, Lane&) {
  for (int64_t i = 0; i < n; i++) h[i] = (float)(gate[i] / (1 + std::exp(-(double)gate[i])) * up[i]);
}

void swiglu_backward(const float* dh, const float* gate, const float* up, int64_t n, float* dgate, float* dup,
                     Lane&) {
  for (int64_t i = 0; i < n; i++) {
    double g = gate[i], u = up[i], sigmoid = 1 / (1 + std::exp(-g));
    dgate[i] = (float)(dh[i] * u * sigmoid * (1 + g * (1 - sigmoid)));
    dup[i] = (float)(dh[i] * g * sigmoid);
  }
}

void add_rows(float* x, int64_t ldx, const float* bias, int64_t M, int64_t N) {
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++) x[m * ldx + n] += bias[n];
}

void sum_rows(const float* x, int64_t ldx, int64_t M, int64_t N, float* out) {
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++) out[n] += x[m * ldx + n];
}

void embed_rows(const Matrix& table, const int32_t* ids, int64_t M, float* out, int64_t ldo) {
  for (int64_t m = 0; m < M; m++) {
    OC_CHECK(ids[m] >= 0 && ids[m] < table.rows, Code::E_TOKEN_ID, "ids[%lld]: expected 0..%lld, got %d",
             (long long)m, (long long)table.rows - 1, ids[m]);
    for (int64_t d = 0; d < table.cols; d++) {
      int64_t at = ids[m] * table.cols + d;
      out[m * ldo + d] = table.dtype == DType::F32 ? ((const float*)table.data)[at]
                                                   : bf16_to_f32(((const uint16_t*)table.data)[at]);
    }
  }
}

}  // namespace openclaw
