// What the decoder's operations (nn.h) ask of each instruction set: a table of inner loops, one table per
// level. The
// *_simd.cc files define the loops inside openclaw::<level>, nn_simd.cc collects them, nn_table() picks the
// level that runs here. Inner loops check nothing, allocate nothing and know nothing of lanes: the drivers in
// gemm.cc, attention.cc, rows.cc and adamw.cc do.
#pragma once
#include <cstdint>

#include "native/kernels/nn.h"

namespace openclaw {

// --- products (gemm_simd.cc)
// ---------------------------------------------------------------------------------------- A product is cut
// into tiles of `rows` x `cols`. The rows' operand A is read as it lies, one broadcast number at a time; the
// columns' operand B is packed into panels [K][cols], zero-filled on the right.
struct GemmTable {
  int rows, cols;
  int depth;  // the longest piece of K worth taking at once: a panel of it stays in the first-level cache

  // C[R,V] = alpha * A[R,K] B[K,V] (+ C). A(r,k) = A[r * lda + k]. panels: ceil(V / cols) of them.
  void (*block)(int64_t R, int64_t V, int64_t K, float alpha, const float* A, int64_t lda,
                const float* panels, float* C, int64_t ldc, bool accumulate);
  // One panel, width <= cols, of B(k,v) = B[k * ldb + v].
  void (*pack_columns)(const float* B, int64_t ldb, int64_t K, int64_t width, float* panel);
  // One panel of B(k,v) = B[v * ldb + k]: a transposition.
  void (*pack_rows)(const float* B, int64_t ldb, int64_t K, int64_t width, float* panel);
  // dst[c * ldd + r] = src[r * lds + c] (+ dst) for r < R, c < C.
  void (*transpose)(const float* src, int64_t lds, int64_t R, int64_t C, float* dst, int64_t ldd,
                    bool accumulate);
  void (*widen_bf16)(const uint16_t* src, int64_t n, float* dst);

  // Y[m, n] = sum_k X[m,k] W[n,k] (+ Y) for n in [n0, n1) and M in 1..8: W is read once, as it lies.
  void (*dots_f32)(const float* X, int64_t ldx, int64_t M, const float* W, int64_t K, int64_t n0, int64_t n1,
                   float* Y, int64_t ldy, bool accumulate);
  void (*dots_bf16)(const float* X, int64_t ldx, int64_t M, const uint16_t* W, int64_t K, int64_t n0,
                    int64_t n1, float* Y, int64_t ldy, bool accumulate);
};

struct NnTable {
  const GemmTable* gemm;
};

const NnTable& nn_table();

}  // namespace openclaw
