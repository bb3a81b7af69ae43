// Products of activations and weights.
#include "native/kernels/nn.h"

#include <cmath>
#include <vector>

#include "native/base/error.h"

namespace openclaw {
namespace {

double weight(const Matrix& W, int64_t r, int64_t c) {
  int64_t at = r * W.cols + c;
  return W.dtype == DType::F32 ? ((const float*)W.data)[at] : bf16_to_f32(((const uint16_t*)W.data)[at]);
}

void put(float& y, double value, bool accumulate) { y = (float)(accumulate ? y + value : value); }

}  // namespace

void linear(const float* X, int64_t ldx, int64_t M, const Matrix& W, float* Y, int64_t ldy, bool accumulate,
            Lane&) {
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < W.rows; n++) {
      double sum = 0;
      for (int64_t k = 0; k < W.cols; k++) sum += X[m * ldx + k] * weight(W, n, k);
      put(Y[m * ldy + n], sum, accumulate);
    }
}

void linear_dx(const float* dY, int64_t lddy, int64_t M, const Matrix& W, float* dX, int64_t lddx,
               bool accumulate, Lane&) {
  for (int64_t m = 0; m < M; m++)
    for (int64_t k = 0; k < W.cols; k++) {
      double sum = 0;
      for (int64_t n = 0; n < W.rows; n++) sum += dY[m * lddy + n] * weight(W, n, k);
      put(dX[m * lddx + k], sum, accumulate);
    }
}

void linear_dw(const float* dY, int64_t lddy, const float* X, int64_t ldx, int64_t M, int64_t N, int64_t K,
               float* dW, Lane&) {
  for (int64_t n = 0; n < N; n++)
    for (int64_t k = 0; k < K; k++) {
      double sum = 0;
      for (int64_t m = 0; m < M; m++) sum += (double)dY[m * lddy + n] * X[m * ldx + k];
      put(dW[n * K + k], sum, true);
    }
}

void gemm(bool transA, bool transB, int64_t M, int64_t N, int64_t K, float alpha, const float* A, int64_t lda,
          const float* B, int64_t ldb, float* C, int64_t ldc, bool accumulate, Lane&) {
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++) {
      double sum = 0;
      for (int64_t k = 0; k < K; k++)
        sum +=
            (double)(transA ? A[k * lda + m] : A[m * lda + k]) * (transB ? B[n * ldb + k] : B[k * ldb + n]);
      put(C[m * ldc + n], alpha * sum, accumulate);
    }
}

}  // namespace openclaw
