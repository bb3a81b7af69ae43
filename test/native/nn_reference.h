// The operations of native/kernels/nn.h again, as plain loops in double: what the tests hold the kernels
// against. Same arguments as there, without the lane. Nothing here is fast, and nothing here shares code with
// the kernels.
#pragma once
#include <cmath>
#include <vector>

#include "native/kernels/nn.h"

namespace openclaw {
namespace reference {

inline double weight(const Matrix& W, int64_t r, int64_t c) {
  int64_t at = r * W.cols + c;
  return W.dtype == DType::F32 ? ((const float*)W.data)[at] : bf16_to_f32(((const uint16_t*)W.data)[at]);
}

inline void put(float& y, double value, bool accumulate) { y = (float)(accumulate ? y + value : value); }

inline void linear(const float* X, int64_t ldx, int64_t M, const Matrix& W, float* Y, int64_t ldy,
                   bool accumulate) {
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < W.rows; n++) {
      double sum = 0;
      for (int64_t k = 0; k < W.cols; k++) sum += X[m * ldx + k] * weight(W, n, k);
      put(Y[m * ldy + n], sum, accumulate);
    }
}

inline void linear_dx(const float* dY, int64_t lddy, int64_t M, const Matrix& W, float* dX, int64_t lddx,
                      bool accumulate) {
  for (int64_t m = 0; m < M; m++)
    for (int64_t k = 0; k < W.cols; k++) {
      double sum = 0;
      for (int64_t n = 0; n < W.rows; n++) sum += dY[m * lddy + n] * weight(W, n, k);
      put(dX[m * lddx + k], sum, accumulate);
    }
}

inline void linear_dw(const float* dY, int64_t lddy, const float* X, int64_t ldx, int64_t M, int64_t N,
                      int64_t K, float* dW) {
  for (int64_t n = 0; n < N; n++)
    for (int64_t k = 0; k < K; k++) {
      double sum = 0;
      for (int64_t m = 0; m < M; m++) sum += (double)dY[m * lddy + n] * X[m * ldx + k];
      put(dW[n * K + k], sum, true);
    }
}

inline void gemm(bool transA, bool transB, int64_t M, int64_t N, int64_t K, float alpha, const float* A,
                 int64_t lda, const float* B, int64_t ldb, float* C, int64_t ldc, bool accumulate) {
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++) {
      double sum = 0;
      for (int64_t k = 0; k < K; k++)
        sum +=
            (double)(transA ? A[k * lda + m] : A[m * lda + k]) * (transB ? B[n * ldb + k] : B[k * ldb + n]);
      put(C[m * ldc + n], alpha * sum, accumulate);
    }
}

inline void rms_norm(const float* x, const float* w, float eps, int64_t M, int64_t D, float* y,
                     float* inv_rms) {
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
inline void rms_norm_backward(const float* dy, const float* x, const float* w, const float* inv_rms,
                              int64_t M, int64_t D, float* dx, bool accumulate, float* dw) {
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

inline void rope(float* x, int64_t ldx, int64_t M, int64_t heads, int64_t E, const float* cos_sin,
                 const int32_t* positions, bool inverse) {
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

inline void swiglu(const float* gate, const float* up, int64_t n, float* h) {
  for (int64_t i = 0; i < n; i++) h[i] = (float)(gate[i] / (1 + std::exp(-(double)gate[i])) * up[i]);
}

inline void swiglu_backward(const float* dh, const float* gate, const float* up, int64_t n, float* dgate,
                            float* dup) {
  for (int64_t i = 0; i < n; i++) {
    double g = gate[i], u = up[i], sigmoid = 1 / (1 + std::exp(-g));
    dgate[i] = (float)(dh[i] * u * sigmoid * (1 + g * (1 - sigmoid)));
    dup[i] = (float)(dh[i] * g * sigmoid);
  }
}

// One query against `length` keys and values; kv head g.
inline void attend(const float* q, const KvView& kv, int64_t length, int64_t g, int64_t E, float scale,
                   float* out, float* lse) {
  std::vector<double> p((size_t)length), sum((size_t)E);
  double most = -INFINITY, total = 0;
  auto row = [&](float* const* side, int64_t t) {
    return side[t / kv.block] + (g * kv.block + t % kv.block) * E;
  };
  for (int64_t t = 0; t < length; t++) {
    double s = 0;
    for (int64_t e = 0; e < E; e++) s += (double)q[e] * row(kv.k, t)[e];
    p[(size_t)t] = s * scale;
    most = std::fmax(most, p[(size_t)t]);
  }
  for (int64_t t = 0; t < length; t++) {
    double weight = std::exp(p[(size_t)t] - most);
    total += weight;
    for (int64_t e = 0; e < E; e++) sum[(size_t)e] += weight * row(kv.v, t)[e];
  }
  for (int64_t e = 0; e < E; e++) out[e] = (float)(sum[(size_t)e] / total);
  if (lse) *lse = (float)(most + std::log(total));
}

inline void attention(const float* q, int64_t ldq, const KvView& kv, int64_t start, int64_t count, int64_t H,
                      int64_t G, int64_t E, float scale, float* out, int64_t ldo, float* lse) {
  for (int64_t i = 0; i < count; i++)
    for (int64_t h = 0; h < H; h++)
      attend(q + i * ldq + h * E, kv, start + i + 1, h / (H / G), E, scale, out + i * ldo + h * E,
             lse ? lse + i * H + h : nullptr);
}

// P = exp(S - lse), dV = P^T dO, dP = dO V^T, dS = P * (dP - rowsum(dO * O)), dQ = scale dS K, dK = scale
// dS^T Q.
inline void attention_backward(const float* q, int64_t ldq, const float* k, int64_t ldk, const float* v,
                               int64_t ldv, const float* out, int64_t ldo, const float* dout, int64_t lddo,
                               const float* lse, int64_t T, int64_t H, int64_t G, int64_t E, float scale,
                               float* dq, int64_t lddq, float* dk, int64_t lddk, float* dv, int64_t lddv) {
  std::vector<double> gk((size_t)(T * G * E)), gv((size_t)(T * G * E)), gq((size_t)E);
  for (int64_t i = 0; i < T; i++)
    for (int64_t h = 0; h < H; h++) {
      int64_t g = h / (H / G);
      const float *qi = q + i * ldq + h * E, *oi = out + i * ldo + h * E, *doi = dout + i * lddo + h * E;
      double delta = 0;
      for (int64_t e = 0; e < E; e++) delta += (double)doi[e] * oi[e], gq[(size_t)e] = 0;
      for (int64_t t = 0; t <= i; t++) {
        const float *kt = k + t * ldk + g * E, *vt = v + t * ldv + g * E;
        double s = 0, dp = 0;
        for (int64_t e = 0; e < E; e++) s += (double)qi[e] * kt[e], dp += (double)doi[e] * vt[e];
        double p = std::exp(s * scale - lse[i * H + h]), ds = p * (dp - delta) * scale;
        for (int64_t e = 0; e < E; e++) {
          gq[(size_t)e] += ds * kt[e];
          gk[(size_t)((t * G + g) * E + e)] += ds * qi[e];
          gv[(size_t)((t * G + g) * E + e)] += p * doi[e];
        }
      }
      for (int64_t e = 0; e < E; e++) dq[i * lddq + h * E + e] = (float)gq[(size_t)e];
    }
  for (int64_t t = 0; t < T; t++)
    for (int64_t e = 0; e < G * E; e++) {
      dk[t * lddk + e] = (float)gk[(size_t)(t * G * E + e)];
      dv[t * lddv + e] = (float)gv[(size_t)(t * G * E + e)];
    }
}

inline void adamw_step(float* p, const float* g, float* m, float* v, int64_t n, const AdamW& h) {
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

}  // namespace reference
}  // namespace openclaw
