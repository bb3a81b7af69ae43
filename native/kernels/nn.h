// The operations a decoder is made of, forward and backward, over row-major f32 activations.
//
// Letters: M rows (tokens) · D model width · F feed-forward width · H query heads · G key/value heads · E
// head width · K, N inner and outer sizes of a product · T tokens of one sequence · B tokens of a KV block.
// Every function borrows its arguments, allocates nothing per element (scratch is a bounded thread-local or
// is passed), splits work only by independent outputs (same bits for any number of threads) and sums in an
// order fixed by the shapes. Preconditions are the model's to keep; functions check them with OC_CHECK once
// per call.
#pragma once
#include <cstdint>

#include "native/base/dtype.h"
#include "native/base/lanes.h"

namespace openclaw {

// A weight matrix as it lies: row-major [rows = outputs, cols = inputs], f32 or bf16.
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::F32;
  int64_t rows = 0, cols = 0;
  bool empty() const { return data == nullptr; }
};

// --- products
// -------------------------------------------------------------------------------------------------------
// Y[M,N] (+)= X[M,K] W[N,K]^T. ldx, ldy: elements between rows. accumulate: add to Y. M = 1 is the decode
// case: W is read once as it lies.
void linear(const float* X, int64_t ldx, int64_t M, const Matrix& W, float* Y, int64_t ldy, bool accumulate,
            Lane& lane);
// dX[M,K] (+)= dY[M,N] W[N,K].
void linear_dx(const float* dY, int64_t lddy, int64_t M, const Matrix& W, float* dX, int64_t lddx,
               bool accumulate, Lane& lane);
// dW[N,K] += dY[M,N]^T X[M,K]   (f32 gradient).
void linear_dw(const float* dY, int64_t lddy, const float* X, int64_t ldx, int64_t M, int64_t N, int64_t K,
               float* dW, Lane& lane);
// C[M,N] (+)= alpha * op(A) op(B), all f32 row-major; transA: A is stored [K,M]; transB: B is stored [N,K].
// For attention backward and tests.
void gemm(bool transA, bool transB, int64_t M, int64_t N, int64_t K, float alpha, const float* A, int64_t lda,
          const float* B, int64_t ldb, float* C, int64_t ldc, bool accumulate, Lane& lane);

// --- rows
// -----------------------------------------------------------------------------------------------------------
// y = x / sqrt(mean(x^2) + eps) * w, per row of D. inv_rms [M] out, may be null. In place allowed (y == x).
void rms_norm(const float* x, const float* w, float eps, int64_t M, int64_t D, float* y, float* inv_rms,
              Lane& lane);
// dx (+)= gradient; dw [D] += when not null (summed in row order, deterministic).
void rms_norm_backward(const float* dy, const float* x, const float* w, const float* inv_rms, int64_t M,
                       int64_t D, float* dx, bool accumulate, float* dw, Lane& lane);
// Rotary embedding in the Hugging Face layout (halves i, i + E/2), in place on x [M, heads, E] with row
// stride ldx. cos_sin [max_pos][E/2][2]. positions [M]. inverse: rotate back (the backward pass).
void rope(float* x, int64_t ldx, int64_t M, int64_t heads, int64_t E, const float* cos_sin,
          const int32_t* positions, bool inverse, Lane& lane);
// h = silu(gate) * up, elementwise over n.
void swiglu(const float* gate, const float* up, int64_t n, float* h, Lane& lane);
// dgate, dup may alias gate, up.
void swiglu_backward(const float* dh, const float* gate, const float* up, int64_t n, float* dgate, float* dup,
                     Lane& lane);
void add_rows(float* x, int64_t ldx, const float* bias, int64_t M, int64_t N);  // x[m,:] += bias
void sum_rows(const float* x, int64_t ldx, int64_t M, int64_t N, float* out);   // out[n] += sum_m x[m,n]
// Row m of out = row ids[m] of the table, as f32.
void embed_rows(const Matrix& table, const int32_t* ids, int64_t M, float* out, int64_t ldo);

// --- attention
// ------------------------------------------------------------------------------------------------------ Keys
// and values of one sequence in blocks of B tokens: token t of kv head g of block b lies at k[b] + (g * B + t
// % B) * E. A block array of one big block (B >= T) is the contiguous case.
struct KvView {
  float* const* k = nullptr;  // [ceil(length / B)]
  float* const* v = nullptr;
  int64_t block = 0;  // B
};
// Causal grouped-query attention for `count` new queries of one sequence at positions start..start+count-1;
// keys and values 0..start+count-1 are already in kv. q [count, H*E] with row stride ldq, out likewise. scale
// is usually 1/sqrt(E). lse [count, H] out (natural log-sum-exp of the scaled scores), may be null. Any
// length up to 32k and beyond, online softmax, scratch bounded. Parallel over (query block, head).
void attention(const float* q, int64_t ldq, const KvView& kv, int64_t start, int64_t count, int64_t H,
               int64_t G, int64_t E, float scale, float* out, int64_t ldo, float* lse, Lane& lane);
// Many sequences, each with ONE new query (decode); one parallel loop over all of them.
struct DecodeQuery {
  const float* q;  // [H*E]
  float* out;      // [H*E]
  KvView kv;
  int64_t length;  // keys and values 0..length-1, the query's own included
};
void attention_decode(const DecodeQuery* queries, int64_t n, int64_t H, int64_t G, int64_t E, float scale,
                      Lane& lane);
// Backward of `attention` over a whole sequence from position 0: q [T,H*E], k, v [T,G*E] (row strides given),
// out, dout, lse. Writes dq, dk, dv (not accumulated). Probabilities are recomputed from lse, in tiles:
// memory O(T*E + tile), not O(T^2).
void attention_backward(const float* q, int64_t ldq, const float* k, int64_t ldk, const float* v, int64_t ldv,
                        const float* out, int64_t ldo, const float* dout, int64_t lddo, const float* lse,
                        int64_t T, int64_t H, int64_t G, int64_t E, float scale, float* dq, int64_t lddq,
                        float* dk, int64_t lddk, float* dv, int64_t lddv, Lane& lane);

// --- optimiser
// ------------------------------------------------------------------------------------------------------ sum
// of squares in double, in index order per fixed-size piece (deterministic).
double sum_squares(const float* g, int64_t n, Lane& lane);
struct AdamW {
  float lr, beta1, beta2, eps, weight_decay;
  int64_t step;      // 1 for the first step: bias correction
  float grad_scale;  // gradients are multiplied by this first (clipping)
};
// Decoupled weight decay (Loshchilov & Hutter): p -= lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * p).
void adamw_step(float* p, const float* g, float* m, float* v, int64_t n, const AdamW& h, Lane& lane);

// --- quantised blocks
// ----------------------------------------------------------------------------------------------- GGML
// storage types this project reads (numbers as in GGUF). dequantize writes n values, n a multiple of the
// block size, as llama.cpp does.
enum class Ggml : int {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q4_K = 12,
  Q6_K = 14,
  BF16 = 30
};
int64_t ggml_block_values(Ggml type);  // values in a block (1, 32 or 256)
int64_t ggml_block_bytes(Ggml type);
void dequantize(Ggml type, const void* blocks, int64_t n, float* out);

}  // namespace openclaw
