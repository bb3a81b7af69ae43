// What the decoder's operations (nn.h) ask of each instruction set: tables of inner loops, one of each per
// level. The
// *_simd.cc files define the loops inside openclaw::<level>, nn_simd.cc collects them, nn_table() picks the
// level that runs here. Inner loops check nothing, allocate nothing and know nothing of lanes: the drivers in
// gemm.cc, attention.cc, rows.cc and adamw.cc do.
#pragma once
#include <cstdint>

#include "native/base/cpu.h"
#include "native/kernels/nn.h"

namespace openclaw {

// --- products (gemm_simd.cc)
// --------------------------------------------------------------------------------- A product is cut into
// tiles of `rows` x `cols`. The rows' operand A is read as it lies, one broadcast number at a time; the
// columns' operand B is packed into panels [K][cols], zero-filled on the right, or read as it lies.
struct GemmTable {
  int lanes;  // numbers in a vector
  int rows, cols;
  int depth;  // the longest piece of K worth taking at once: a panel of it stays in the first-level cache

  // C[R,V] = alpha * A[R,K] B[K,V] (+ C). A(r,k) = A[r * lda + k]; row k of panel p is at B + p * step + k *
  // ldb. Packed panels: ldb = cols, step = K * cols. B as it lies: ldb its row stride, step = cols; its rows
  // must be readable up to the next multiple of `lanes` after V.
  void (*block)(int64_t R, int64_t V, int64_t K, float alpha, const float* A, int64_t lda, const float* B,
                int64_t ldb, int64_t step, float* C, int64_t ldc, bool accumulate);
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

// --- attention (attention_simd.cc)
// --------------------------------------------------------------------------- A tile of scores S: R queries
// (rows, stride lds) by `width` keys. Row i may see its first valid0 + i keys (clamped to 0..width). Rows are
// worked on up to the next multiple of `lanes`: lds must leave room for it.
struct AttentionTable {
  // Scores to weights exp(S - m), zero where a key is not seen, with m the running maximum and l the running
  // sum of the weights of each row. When m grows, l and the row of O [R,E] shrink by exp(m_old - m). m starts
  // at -infinity: l and O are not read then.
  void (*softmax)(float* S, int64_t lds, int64_t R, int64_t width, int64_t valid0, float* m, float* l,
                  float* O, int64_t ldo, int64_t E);
  // S: scores to P = exp(S - lse), zero where a key is not seen. dP: to dS = P * (dP - delta) * scale.
  // lse: stride ldl; delta: stride 1.
  void (*backward)(float* S, float* dP, int64_t lds, int64_t R, int64_t width, int64_t valid0,
                   const float* lse, int64_t ldl, const float* delta, float scale);
  // out[r,:] = O[r,:] / l[r]
  void (*normalise)(const float* O, int64_t ldo, const float* l, int64_t R, int64_t E, float* out,
                    int64_t ldout);
  // out[r] = sum over e of a[r,e] * b[r,e]
  void (*row_dots)(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t R, int64_t E,
                   float* out);
};

// --- rows (rows_simd.cc)
// ------------------------------------------------------------------------------------- Arguments as in nn.h,
// without lanes.
struct RowsTable {
  void (*rms_norm)(const float* x, const float* w, float eps, int64_t M, int64_t D, float* y, float* inv_rms);
  void (*rms_norm_dx)(const float* dy, const float* x, const float* w, const float* inv_rms, int64_t M,
                      int64_t D, float* dx, bool accumulate);
  // dw[d] += sum over rows of dy * x * inv_rms, for d in [d0, d1), rows in order.
  void (*rms_norm_dw)(const float* dy, const float* x, const float* inv_rms, int64_t M, int64_t D, int64_t d0,
                      int64_t d1, float* dw);
  // One row of heads. cos_sin: the row's own [E/2][2].
  void (*rope)(float* x, int64_t heads, int64_t E, const float* cos_sin, bool inverse);
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* h);
  void (*swiglu_backward)(const float* dh, const float* gate, const float* up, int64_t n, float* dgate,
                          float* dup);
  // y += x
  void (*add)(float* y, const float* x, int64_t n);
};

// --- optimiser (adamw_simd.cc)
// ------------------------------------------------------------------------------- Factors of one step: the
// bias corrections are folded in (adamw.cc).
struct AdamWFactors {
  float grad_scale, beta1, one_less_beta1, beta2, one_less_beta2;
  float step_size;    // lr / (1 - beta1^step)
  float inv_sqrt_c2;  // 1 / sqrt(1 - beta2^step)
  float eps, decay;   // decay = lr * weight_decay
};
struct AdamWTable {
  void (*step)(float* p, const float* g, float* m, float* v, int64_t n, const AdamWFactors& f);
  double (*sum_squares)(const float* g, int64_t n);
};

struct NnTable {
  const GemmTable* gemm;
  const AttentionTable* attention;
  const RowsTable* rows;
  const AdamWTable* adamw;
};

const NnTable& nn_table();
// For tests: another level than cpu_isa()'s, from now on. Throws E_ARGUMENT when this CPU does not have it.
void set_nn_isa(Isa isa);

}  // namespace openclaw
