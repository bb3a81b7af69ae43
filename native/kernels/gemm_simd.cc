// The inner loops of every product of the decoder, for one instruction set. Contracts: nn_simd.h.
//
// The tile keeps rows x 2 vectors of sums in registers; each step loads one row of the panel (2 vectors),
// broadcasts one number of every row of A and does rows x 2 multiply-adds: for AVX2 12 of them for 8 loads,
// so the multipliers are the limit. Every output is one chain of multiply-adds over k in rising order,
// whatever tile it falls in: results do not depend on how a product is cut.
#include "native/kernels/nn_simd.h"
#include "native/kernels/simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {
namespace {

#if OC_VL == 16
constexpr int kTileRows = 14;  // 28 sums + 2 of the panel + 1 broadcast of 32 registers
constexpr int kDepth = 256;    // 32 KiB panels for first-level caches of 48 KiB
#elif defined(__aarch64__)
constexpr int kTileRows = 8;
constexpr int kDepth = 512;
#else
constexpr int kTileRows = 6;  // 12 sums + 2 of the panel + 1 broadcast of 16 registers
constexpr int kDepth = OC_VL == 8 ? 384 : 512;
#endif
constexpr int kVectors = 2;
constexpr int kCols = kVectors * OC_VL;

// --- the tile ----------------------------------------------------------------------------------------------

// The right edge of C: fewer columns than the tile has.
__attribute__((noinline)) void store_edge(const float* sums, int64_t R, int64_t stride, float* C, int64_t ldc,
                                          int64_t cols, bool accumulate) {
  for (int64_t r = 0; r < R; r++)
    for (int64_t c = 0; c < cols; c++)
      C[r * ldc + c] = accumulate ? C[r * ldc + c] + sums[r * stride + c] : sums[r * stride + c];
}

template <int R, int NV>
inline void store_tile(const vf (&sum)[R][NV], float alpha, float* C, int64_t ldc, int64_t cols,
                       bool accumulate) {
  constexpr int kWidth = NV * OC_VL;
  float edge[R * kWidth];
  const bool whole = cols >= kWidth;
  float* to = whole ? C : edge;
  const int64_t stride = whole ? ldc : kWidth;
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int v = 0; v < NV; v++) {
      float* at = to + r * stride + v * OC_VL;
      vf y = sum[r][v] * alpha;
      vstore(at, accumulate && whole ? vload(at) + y : y);
    }
  if (!whole) store_edge(edge, R, kWidth, C, ldc, cols, accumulate);
}

template <int R, int NV>
void tile(int64_t K, float alpha, const float* A, int64_t lda, const float* B, int64_t ldb, float* C,
          int64_t ldc, int64_t cols, bool accumulate) {
  vf sum[R][NV] = {};
  const float* a[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    a[r] = A + r * lda;
    // the sums meet C only after the loop: by then it should be near
    __builtin_prefetch(C + r * ldc, 1);
    __builtin_prefetch(C + r * ldc + cols - 1, 1);
  }
  auto step = [&](int64_t k) __attribute__((always_inline)) {
    vf b[NV];
#pragma GCC unroll 2
    for (int v = 0; v < NV; v++) {
      b[v] = vload(B + v * OC_VL);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      vf x = vset(a[r][k]);
#pragma GCC unroll 2
      for (int v = 0; v < NV; v++) {
        sum[r][v] += x * b[v];
      }
    }
    B += ldb;
  };
  constexpr int kLine = 16;  // numbers in a cache line
  int64_t k = 0;
  for (; k + kLine <= K; k += kLine) {
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      __builtin_prefetch(a[r] + R * lda + k);  // the rows of the tile below
    }
#pragma GCC unroll 1
    for (int i = 0; i < kLine; i++) step(k + i);
  }
  for (; k < K; k++) step(k);
  store_tile<R, NV>(sum, alpha, C, ldc, cols, accumulate);
}

using Tile = decltype(&tile<1, 1>);

// The tile of `rows` rows, 1..R, found by recursion over the template's argument.
template <int R, int NV>
inline Tile pick_tile(int64_t rows) {
  if constexpr (R == 1)
    return tile<1, NV>;
  else
    return rows == R ? tile<R, NV> : pick_tile<R - 1, NV>(rows);
}

void block(int64_t R, int64_t V, int64_t K, float alpha, const float* A, int64_t lda, const float* B,
           int64_t ldb, int64_t step, float* C, int64_t ldc, bool accumulate) {
  const int64_t whole = R / kTileRows * kTileRows;
  for (int64_t v = 0; v < V; v += kCols, B += step) {
    const int64_t cols = V - v < kCols ? V - v : kCols;
    const bool half = cols <= OC_VL;
    const Tile full = half ? (Tile)tile<kTileRows, 1> : (Tile)tile<kTileRows, kVectors>;
    for (int64_t r = 0; r < whole; r += kTileRows)
      full(K, alpha, A + r * lda, lda, B, ldb, C + r * ldc + v, ldc, cols, accumulate);
    if (whole == R) continue;
    const Tile last = half ? pick_tile<kTileRows, 1>(R - whole) : pick_tile<kTileRows, kVectors>(R - whole);
    last(K, alpha, A + whole * lda, lda, B, ldb, C + whole * ldc + v, ldc, cols, accumulate);
  }
}

// --- packing and transposing -------------------------------------------------------------------------------

template <int... J>
struct Indices {};
#if OC_VL == 16
using Lanes = Indices<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
#elif OC_VL == 8
using Lanes = Indices<0, 1, 2, 3, 4, 5, 6, 7>;
#else
using Lanes = Indices<0, 1, 2, 3>;
#endif

// One step of a transposition by halving: blocks of W lanes off the diagonal change places between the rows a
// and b.
template <int W, int... J>
inline void exchange(vf& a, vf& b, Indices<J...>) {
  vf low = __builtin_shufflevector(a, b, (J & W ? J - W + OC_VL : J)...);
  vf high = __builtin_shufflevector(a, b, (J & W ? J + OC_VL : J + W)...);
  a = low, b = high;
}

template <int W>
inline void exchange_all(vf (&rows)[OC_VL]) {
#pragma GCC unroll 16
  for (int i = 0; i < OC_VL; i++)
    if (!(i & W)) exchange<W>(rows[i], rows[i + W], Lanes());
  if constexpr (W > 1) exchange_all<W / 2>(rows);
}

inline void transpose_square(vf (&rows)[OC_VL]) { exchange_all<OC_VL / 2>(rows); }

void transpose_edge(const float* src, int64_t lds, int64_t R, int64_t C, float* dst, int64_t ldd,
                    bool accumulate) {
  for (int64_t c = 0; c < C; c++)
    for (int64_t r = 0; r < R; r++)
      dst[c * ldd + r] = accumulate ? dst[c * ldd + r] + src[r * lds + c] : src[r * lds + c];
}

void transpose(const float* src, int64_t lds, int64_t R, int64_t C, float* dst, int64_t ldd,
               bool accumulate) {
  const int64_t rows = R / OC_VL * OC_VL, cols = C / OC_VL * OC_VL;
  for (int64_t c = 0; c < cols; c += OC_VL)
    for (int64_t r = 0; r < rows; r += OC_VL) {
      vf square[OC_VL];
#pragma GCC unroll 16
      for (int i = 0; i < OC_VL; i++) square[i] = vload(src + (r + i) * lds + c);
      transpose_square(square);
#pragma GCC unroll 16
      for (int i = 0; i < OC_VL; i++) {
        float* at = dst + (c + i) * ldd + r;
        vstore(at, accumulate ? vload(at) + square[i] : square[i]);
      }
    }
  if (rows < R) transpose_edge(src + rows * lds, lds, R - rows, cols, dst + rows, ldd, accumulate);
  if (cols < C) transpose_edge(src + cols, lds, R, C - cols, dst + cols * ldd, ldd, accumulate);
}

void pack_rows(const float* B, int64_t ldb, int64_t K, int64_t width, float* panel) {
  transpose(B, ldb, width, K, panel, kCols, false);
  if (width == kCols) return;
  for (int64_t k = 0; k < K; k++)
    for (int64_t v = width; v < kCols; v++) panel[k * kCols + v] = 0;
}

// Rows fetched ahead: each starts a page or so after the last, a pattern the hardware does not see.
constexpr int kRowsAhead = 12;

void pack_columns(const float* B, int64_t ldb, int64_t K, int64_t width, float* panel) {
  if (width < kCols) {
    for (int64_t k = 0; k < K; k++)
      for (int64_t v = 0; v < kCols; v++) panel[k * kCols + v] = v < width ? B[k * ldb + v] : 0;
    return;
  }
  for (int64_t k = 0; k < K; k++, B += ldb, panel += kCols) {
    __builtin_prefetch(B + kRowsAhead * ldb);
    __builtin_prefetch(B + kRowsAhead * ldb + kCols - 1);
    for (int v = 0; v < kVectors; v++) vstore(panel + v * OC_VL, vload(B + v * OC_VL));
  }
}

void widen_bf16(const uint16_t* src, int64_t n, float* dst) {
  int64_t i = 0;
  for (; i + OC_VL <= n; i += OC_VL) vstore(dst + i, vload_bf16(src + i));
  for (; i < n; i++) dst[i] = bf16_to_f32(src[i]);
}

// --- few rows of X: dot products along K -------------------------------------------------------------------
// N rows of W against M rows of X: N x M vectors of sums, each the sum over its lanes at the end; the last K
// % OC_VL terms are added as numbers. The order of the sum does not depend on N or M, so a token's result is
// the same alone and in any small batch.

inline vf load_weights(const float* p) { return vload(p); }
inline vf load_weights(const uint16_t* p) { return vload_bf16(p); }
inline float one_weight(const float* p) { return *p; }
inline float one_weight(const uint16_t* p) { return bf16_to_f32(*p); }

// Adds the lanes of OC_VL vectors at once: vectors are exchanged as in a transposition and added, until one
// is left whose lane i is the sum over the lanes of vector i.
template <int W>
inline vf fold(vf (&v)[OC_VL]) {
#pragma GCC unroll 16
  for (int i = 0; i < W; i++) {
    exchange<W>(v[i], v[i + W], Lanes());
    v[i] += v[i + W];
  }
  if constexpr (W > 1)
    return fold<W / 2>(v);
  else
    return v[0];
}

// out[i] = the sum over the lanes of sums[i].
template <int Count>
inline void sum_lanes(const vf (&sums)[Count], float* out) {
#pragma GCC unroll 4
  for (int first = 0; first < Count; first += OC_VL) {
    vf v[OC_VL];
#pragma GCC unroll 16
    for (int i = 0; i < OC_VL; i++) {
      v[i] = first + i < Count ? sums[first + i < Count ? first + i : 0] : (vf){};
    }
    vstore(out + first, fold<OC_VL / 2>(v));
  }
}

// `ahead` (elements): how far after the numbers just read the rows of the next tiles lie; they are fetched
// meanwhile, because with N short streams the hardware's own prefetcher falls behind.
template <int N, int M, typename T>
void dot_tile(const float* X, int64_t ldx, const T* W, int64_t K, int64_t ahead, float* Y, int64_t ldy,
              bool accumulate) {
  constexpr int kLine = 64 / sizeof(T), kSteps = kLine / OC_VL, kSums = (N * M + OC_VL - 1) / OC_VL * OC_VL;
  vf sums[N * M] = {};
  // The shorter side stays in registers, the longer one passes by.
  auto step = [&](int64_t k) __attribute__((always_inline)) {
    constexpr int kHeld = N < M ? N : M, kPassing = N < M ? M : N;
    vf held[kHeld];
#pragma GCC unroll 8
    for (int i = 0; i < kHeld; i++) {
      held[i] = N < M ? load_weights(W + i * K + k) : vload(X + i * ldx + k);
    }
#pragma GCC unroll 8
    for (int j = 0; j < kPassing; j++) {
      vf passing = N < M ? vload(X + j * ldx + k) : load_weights(W + j * K + k);
#pragma GCC unroll 8
      for (int i = 0; i < kHeld; i++) {
        sums[N < M ? j * N + i : i * N + j] += held[i] * passing;
      }
    }
  };
  int64_t k = 0;
  for (; k + kLine <= K; k += kLine) {
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) {
      __builtin_prefetch(W + n * K + k + ahead);
    }
    for (int i = 0; i < kSteps; i++) step(k + i * OC_VL);
  }
  for (; k + OC_VL <= K; k += OC_VL) step(k);
  float totals[kSums];
  sum_lanes(sums, totals);
  if (k == K && !accumulate) {
    for (int m = 0; m < M; m++) memcpy(Y + m * ldy, totals + m * N, N * sizeof(float));
    return;
  }
  for (int m = 0; m < M; m++) {
    for (int n = 0; n < N; n++) {
      float total = totals[m * N + n];
      for (int64_t i = k; i < K; i++) total += one_weight(W + n * K + i) * X[m * ldx + i];
      float* at = Y + m * ldy + n;
      *at = accumulate ? *at + total : total;
    }
  }
}

// Rows of W taken at once: as many sums as hide the latency of a multiply-add, and fit the registers.
constexpr int dot_rows(int M) {
  constexpr int few[] = {8, 4, 4, 2, 2, 2, 1, 1}, many[] = {8, 8, 5, 4, 3, 2, 2, 2};
  return OC_VL == 16 ? many[M - 1] : few[M - 1];
}

constexpr int64_t kAheadBytes = 8192;

template <int M, typename T>
void dot_stripe(const float* X, int64_t ldx, const T* W, int64_t K, int64_t rows, float* Y, int64_t ldy,
                bool accumulate) {
  constexpr int N = dot_rows(M);
  const int64_t tile_bytes = N * K * (int64_t)sizeof(T);
  const int64_t ahead = N * K * (tile_bytes < kAheadBytes ? kAheadBytes / tile_bytes : 1);
  int64_t n = 0;
  for (; n + N <= rows; n += N) dot_tile<N, M>(X, ldx, W + n * K, K, ahead, Y + n, ldy, accumulate);
  for (; n < rows; n++) dot_tile<1, M>(X, ldx, W + n * K, K, ahead, Y + n, ldy, accumulate);
}

template <typename T>
void dots(const float* X, int64_t ldx, int64_t M, const T* W, int64_t K, int64_t n0, int64_t n1, float* Y,
          int64_t ldy, bool accumulate) {
  constexpr decltype(&dot_stripe<1, T>) stripes[] = {dot_stripe<1, T>, dot_stripe<2, T>, dot_stripe<3, T>,
                                                     dot_stripe<4, T>, dot_stripe<5, T>, dot_stripe<6, T>,
                                                     dot_stripe<7, T>, dot_stripe<8, T>};
  stripes[M - 1](X, ldx, W + n0 * K, K, n1 - n0, Y + n0, ldy, accumulate);
}

}  // namespace

extern const GemmTable gemm_table;
const GemmTable gemm_table = {OC_VL,     kTileRows, kCols,      kDepth,      block,         pack_columns,
                              pack_rows, transpose, widen_bf16, dots<float>, dots<uint16_t>};

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
