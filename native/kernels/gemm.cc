// The products of nn.h: how each is cut into units that fit the caches and may run on different threads. The
// inner loops are in gemm_simd.cc.
//
// All of them are C[R,V] = A[R,K] B[K,V] with A read as it lies and B packed into panels:
//   linear      C = Y^T   A = W  (rows = outputs)   B = X^T  (columns = tokens), for more than a few tokens
//   linear_dx   C = dX    A = dY (rows = tokens)    B = W
//   linear_dw   C = dW    A = dY^T                  B = X
// so that W, the big one, is read once from memory and never copied whole. A unit is a stripe of R times a
// few panels of V, over all of K. K is cut at multiples of a depth that depends on K alone, and each output
// is one chain over k inside a piece, so the bits do not depend on units or threads.
#include <algorithm>

#include "native/kernels/nn_simd.h"
#include "native/kernels/scratch.h"
#include "native/kernels/units.h"

namespace openclaw {
namespace {

// Up to this many tokens `linear` takes dot products along K instead of packing X.
constexpr int64_t kFewTokens = 8;
// Panels of X kept at once (floats): 4 MiB. Longer batches go in slabs.
constexpr int64_t kSlabFloats = 1 << 20;

// [0, size) in equal pieces of at most `most`, each a multiple of `step`.
struct Cut {
  int64_t size, piece, count;
  Cut(int64_t size, int64_t most, int64_t step) : size(size) {
    const int64_t pieces = std::max<int64_t>(1, ceil_div(size, most));
    piece = std::max(step, round_up(ceil_div(size, pieces), step));
    count = std::max<int64_t>(1, ceil_div(size, piece));
  }
  int64_t begin(int64_t i) const { return i * piece; }
  int64_t length(int64_t i) const { return std::min(piece, size - i * piece); }
};

Cut cut_depth(int64_t K, const GemmTable& t) { return Cut(K, t.depth, 8); }

// Space between the rows of a copied piece: not a multiple of the 4 KiB at which cache sets repeat.
int64_t padded(int64_t depth) { return depth + 16; }

const float* f32(const Matrix& W, int64_t r, int64_t c) { return (const float*)W.data + r * W.cols + c; }
const uint16_t* bf16(const Matrix& W, int64_t r, int64_t c) {
  return (const uint16_t*)W.data + r * W.cols + c;
}

void check_weights(const Matrix& W) {
  OC_CHECK(W.data || W.rows * W.cols == 0, Code::E_ARGUMENT, "W: expected data, got null");
  OC_CHECK(W.dtype == DType::F32 || W.dtype == DType::BF16, Code::E_DTYPE,
           "W: expected f32 or bf16, got dtype %d", (int)W.dtype);
}

void check_strides(const char* name, int64_t M, int64_t stride, int64_t width) {
  OC_CHECK(M >= 0, Code::E_ARGUMENT, "M: expected >= 0, got %lld", (long long)M);
  OC_CHECK(M <= 1 || stride >= width, Code::E_SHAPE, "%s: expected a row stride >= %lld, got %lld", name,
           (long long)width, (long long)stride);
}

void clear_rows(float* C, int64_t ldc, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) std::fill_n(C + r * ldc, width, 0.f);
}

// --- linear, few tokens ------------------------------------------------------------------------------------

void linear_few(const float* X, int64_t ldx, int64_t M, const Matrix& W, float* Y, int64_t ldy,
                bool accumulate, Lane& lane) {
  const GemmTable& t = *nn_table().gemm;
  const int64_t N = W.rows, K = W.cols;
  const int64_t rows = std::max<int64_t>(1, ceil_div(kSerialWork / 4, 12 * K * M)) * 12;
  const Cut cut(N, rows, 12);
  for_units(lane, cut.count, 2 * M * N * K, [&](int64_t i) {
    const int64_t n0 = cut.begin(i), n1 = n0 + cut.length(i);
    if (W.dtype == DType::F32)
      t.dots_f32(X, ldx, M, f32(W, 0, 0), K, n0, n1, Y, ldy, accumulate);
    else
      t.dots_bf16(X, ldx, M, bf16(W, 0, 0), K, n0, n1, Y, ldy, accumulate);
  });
}

// --- linear, many tokens -----------------------------------------------------------------------------------

// X as panels: piece by piece of K, and in a piece panel by panel, [depth][cols].
struct TokenPanels {
  const float* data;
  int64_t panels, cols;
  const float* at(int64_t k0, int64_t depth, int64_t panel) const {
    return data + k0 * panels * cols + panel * depth * cols;
  }
};

TokenPanels pack_tokens(const float* X, int64_t ldx, int64_t M, int64_t K, const GemmTable& t, Lane& lane) {
  static thread_local Scratch scratch;
  TokenPanels packed{nullptr, ceil_div(M, t.cols), t.cols};
  float* data = scratch.floats(packed.panels * t.cols * K);
  packed.data = data;
  const Cut depth = cut_depth(K, t);
  // a copied number costs about as much as eight multiply-adds
  for_units(lane, depth.count * packed.panels, 8 * M * K, [&](int64_t i) {
    const int64_t piece = i % depth.count, panel = i / depth.count;
    const int64_t k0 = depth.begin(piece), k = depth.length(piece), m0 = panel * t.cols;
    t.pack_rows(X + m0 * ldx + k0, ldx, k, std::min<int64_t>(t.cols, M - m0),
                data + (packed.at(k0, k, panel) - packed.data));
  });
  return packed;
}

// Rows [n0, n0 + rows) of W, inputs [k0, k0 + depth), as f32: as they lie, or copied where they are bf16 or
// their stride would put all rows of a tile into the same cache sets.
const float* weight_rows(const Matrix& W, int64_t n0, int64_t rows, int64_t k0, int64_t depth,
                         const GemmTable& t, int64_t* stride) {
  if (W.dtype == DType::F32 && W.cols % 1024 != 0) {
    *stride = W.cols;
    return f32(W, n0, k0);
  }
  static thread_local Scratch scratch;
  *stride = padded(depth);
  float* copy = scratch.floats(rows * *stride);
  for (int64_t r = 0; r < rows; r++) {
    if (W.dtype == DType::F32)
      std::copy_n(f32(W, n0 + r, k0), depth, copy + r * *stride);
    else
      t.widen_bf16(bf16(W, n0 + r, k0), depth, copy + r * *stride);
  }
  return copy;
}

void linear_many(const float* X, int64_t ldx, int64_t M, const Matrix& W, float* Y, int64_t ldy,
                 bool accumulate, Lane& lane) {
  const GemmTable& t = *nn_table().gemm;
  const int64_t N = W.rows, K = W.cols, tokens_most = 128;
  const TokenPanels packed = pack_tokens(X, ldx, M, K, t, lane);
  const Cut rows(N, 8 * t.rows, t.rows), tokens(M, tokens_most, t.cols), depth = cut_depth(K, t);
  for_units(lane, rows.count * tokens.count, M * N * K, [&](int64_t i) {
    static thread_local Scratch scratch;
    const int64_t n0 = rows.begin(i / tokens.count), n = rows.length(i / tokens.count);
    const int64_t m0 = tokens.begin(i % tokens.count), m = tokens.length(i % tokens.count);
    float* sums = scratch.floats(rows.piece * tokens.piece);  // [n][m], the transpose of Y's tile
    for (int64_t piece = 0; piece < depth.count; piece++) {
      const int64_t k0 = depth.begin(piece), k = depth.length(piece);
      int64_t stride;
      const float* w = weight_rows(W, n0, n, k0, k, t, &stride);
      t.block(n, m, k, 1.f, w, stride, packed.at(k0, k, m0 / t.cols), t.cols, k * t.cols, sums, tokens.piece,
              piece > 0);
    }
    t.transpose(sums, tokens.piece, n, m, Y + m0 * ldy + n0, ldy, accumulate);
  });
}

// --- the others --------------------------------------------------------------------------------------------

// One operand of a product: element (i, j) at data[i * row + j * col], one of the steps being 1.
struct Operand {
  const void* data;
  DType dtype;
  int64_t row, col;
  const float* f32(int64_t i, int64_t j) const { return (const float*)data + i * row + j * col; }
  const uint16_t* bf16(int64_t i, int64_t j) const { return (const uint16_t*)data + i * row + j * col; }
};

// Rows [r0, r0 + R) of A (f32), k in [k0, k0 + depth): as they lie, or turned so that k runs along a row.
const float* rows_of(const Operand& A, int64_t r0, int64_t R, int64_t k0, int64_t depth, const GemmTable& t,
                     int64_t* stride) {
  if (A.col == 1) {
    *stride = A.row;
    return A.f32(r0, k0);
  }
  static thread_local Scratch scratch;
  *stride = padded(depth);
  float* turned = scratch.floats(R * *stride);
  t.transpose(A.f32(r0, k0), A.col, depth, R, turned, *stride, false);
  return turned;
}

// Columns [v0, v0 + V) of B, k in [k0, k0 + depth), as panels.
const float* panels_of(const Operand& B, int64_t k0, int64_t depth, int64_t v0, int64_t V,
                       const GemmTable& t) {
  static thread_local Scratch scratch, wide;
  float* panels = scratch.floats(ceil_div(V, t.cols) * t.cols * depth);
  Operand from{B.data, B.dtype, B.row, B.col};
  if (B.dtype == DType::BF16) {  // only where rows run along V
    float* rows = wide.floats(depth * V);
    for (int64_t k = 0; k < depth; k++) t.widen_bf16(B.bf16(k0 + k, v0), V, rows + k * V);
    from = {rows, DType::F32, V, 1};
    k0 = v0 = 0;
  }
  for (int64_t v = 0; v < V; v += t.cols) {
    const int64_t width = std::min<int64_t>(t.cols, V - v);
    if (from.col == 1)
      t.pack_columns(from.f32(k0, v0 + v), from.row, depth, width, panels + v * depth);
    else
      t.pack_rows(from.f32(k0, v0 + v), from.col, depth, width, panels + v * depth);
  }
  return panels;
}

// C[R,V] (+)= alpha A[R,K] B[K,V].
void product(int64_t R, int64_t V, int64_t K, float alpha, const Operand& A, const Operand& B, float* C,
             int64_t ldc, bool accumulate, Lane& lane) {
  if (R == 0 || V == 0) return;
  if (K == 0) {
    if (!accumulate) clear_rows(C, ldc, R, V);
    return;
  }
  const GemmTable& t = *nn_table().gemm;
  const int64_t work = R * V * K;
  const Cut depth = cut_depth(K, t), rows(R, 16 * t.rows, t.rows);
  // few panels a unit when there would be too few units to share
  const int64_t panels = work >= kSerialWork && rows.count * ceil_div(V, 8 * t.cols) < 8 ? 4 : 8;
  const Cut columns(V, panels * t.cols, t.cols);
  for_units(lane, rows.count * columns.count, work, [&](int64_t i) {
    const int64_t r0 = rows.begin(i % rows.count), r = rows.length(i % rows.count);
    const int64_t v0 = columns.begin(i / rows.count), v = columns.length(i / rows.count);
    for (int64_t piece = 0; piece < depth.count; piece++) {
      const int64_t k0 = depth.begin(piece), k = depth.length(piece);
      int64_t stride;
      const float* a = rows_of(A, r0, r, k0, k, t, &stride);
      t.block(r, v, k, alpha, a, stride, panels_of(B, k0, k, v0, v, t), t.cols, k * t.cols, C + r0 * ldc + v0,
              ldc, accumulate || piece > 0);
    }
  });
}

}  // namespace

void linear(const float* X, int64_t ldx, int64_t M, const Matrix& W, float* Y, int64_t ldy, bool accumulate,
            Lane& lane) {
  check_weights(W);
  check_strides("X", M, ldx, W.cols);
  check_strides("Y", M, ldy, W.rows);
  if (M == 0 || W.rows == 0) return;
  if (W.cols == 0) {
    if (!accumulate) clear_rows(Y, ldy, M, W.rows);
    return;
  }
  if (M <= kFewTokens) return linear_few(X, ldx, M, W, Y, ldy, accumulate, lane);
  const int64_t slab = std::max<int64_t>(128, kSlabFloats / W.cols / 128 * 128);
  for (int64_t m = 0; m < M; m += slab)
    linear_many(X + m * ldx, ldx, std::min(slab, M - m), W, Y + m * ldy, ldy, accumulate, lane);
}

void linear_dx(const float* dY, int64_t lddy, int64_t M, const Matrix& W, float* dX, int64_t lddx,
               bool accumulate, Lane& lane) {
  check_weights(W);
  check_strides("dY", M, lddy, W.rows);
  check_strides("dX", M, lddx, W.cols);
  product(M, W.cols, W.rows, 1.f, {dY, DType::F32, lddy, 1}, {W.data, W.dtype, W.cols, 1}, dX, lddx,
          accumulate, lane);
}

void linear_dw(const float* dY, int64_t lddy, const float* X, int64_t ldx, int64_t M, int64_t N, int64_t K,
               float* dW, Lane& lane) {
  check_strides("dY", M, lddy, N);
  check_strides("X", M, ldx, K);
  product(N, K, M, 1.f, {dY, DType::F32, 1, lddy}, {X, DType::F32, ldx, 1}, dW, K, true, lane);
}

void gemm(bool transA, bool transB, int64_t M, int64_t N, int64_t K, float alpha, const float* A, int64_t lda,
          const float* B, int64_t ldb, float* C, int64_t ldc, bool accumulate, Lane& lane) {
  check_strides("A", transA ? K : M, lda, transA ? M : K);
  check_strides("B", transB ? N : K, ldb, transB ? K : N);
  check_strides("C", M, ldc, N);
  const Operand a = transA ? Operand{A, DType::F32, 1, lda} : Operand{A, DType::F32, lda, 1};
  const Operand b = transB ? Operand{B, DType::F32, 1, ldb} : Operand{B, DType::F32, ldb, 1};
  product(M, N, K, alpha, a, b, C, ldc, accumulate, lane);
}

}  // namespace openclaw
