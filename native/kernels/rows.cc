// The row-wise and elementwise operations of nn.h: checks, and pieces over the lane's threads. Inner loops:
// rows_simd.cc.
#include <algorithm>

#include "native/base/error.h"
#include "native/kernels/nn_simd.h"

namespace openclaw {
namespace {

constexpr int64_t kPiece = 32768;  // numbers in a piece: some ten microseconds of work

int64_t rows_per_piece(int64_t width) { return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, width)); }

// body(first, count) over pieces of n rows of `width` numbers.
template <typename Body>
void for_rows(Lane& lane, int64_t n, int64_t width, const Body& body) {
  lane.parallel_for(n, rows_per_piece(width),
                    [&body](int64_t begin, int64_t end, int) { body(begin, end - begin); });
}

void check_size(const char* name, int64_t n) {
  OC_CHECK(n >= 0, Code::E_SHAPE, "%s: expected >= 0, got %lld", name, (long long)n);
}

}  // namespace

void rms_norm(const float* x, const float* w, float eps, int64_t M, int64_t D, float* y, float* inv_rms,
              Lane& lane) {
  check_size("M", M), check_size("D", D);
  for_rows(lane, M, D, [&](int64_t m, int64_t count) {
    nn_table().rows->rms_norm(x + m * D, w, eps, count, D, y + m * D, inv_rms ? inv_rms + m : nullptr);
  });
}

void rms_norm_backward(const float* dy, const float* x, const float* w, const float* inv_rms, int64_t M,
                       int64_t D, float* dx, bool accumulate, float* dw, Lane& lane) {
  check_size("M", M), check_size("D", D);
  // dw first: dx may be dy's own memory
  if (dw)
    for_rows(lane, D, M, [&](int64_t d, int64_t count) {
      nn_table().rows->rms_norm_dw(dy, x, inv_rms, M, D, d, d + count, dw);
    });
  for_rows(lane, M, D, [&](int64_t m, int64_t count) {
    nn_table().rows->rms_norm_dx(dy + m * D, x + m * D, w, inv_rms + m, count, D, dx + m * D, accumulate);
  });
}

void rope(float* x, int64_t ldx, int64_t M, int64_t heads, int64_t E, const float* cos_sin,
          const int32_t* positions, bool inverse, Lane& lane) {
  check_size("M", M), check_size("heads", heads);
  OC_CHECK(E >= 0 && E % 2 == 0, Code::E_SHAPE, "E: expected an even number, got %lld", (long long)E);
  for_rows(lane, M, heads * E, [&](int64_t m0, int64_t count) {
    for (int64_t m = m0; m < m0 + count; m++)
      nn_table().rows->rope(x + m * ldx, heads, E, cos_sin + positions[m] * E, inverse);
  });
}

void swiglu(const float* gate, const float* up, int64_t n, float* h, Lane& lane) {
  check_size("n", n);
  for_rows(lane, n, 1,
           [&](int64_t i, int64_t count) { nn_table().rows->swiglu(gate + i, up + i, count, h + i); });
}

void swiglu_backward(const float* dh, const float* gate, const float* up, int64_t n, float* dgate, float* dup,
                     Lane& lane) {
  check_size("n", n);
  for_rows(lane, n, 1, [&](int64_t i, int64_t count) {
    nn_table().rows->swiglu_backward(dh + i, gate + i, up + i, count, dgate + i, dup + i);
  });
}

void add_rows(float* x, int64_t ldx, const float* bias, int64_t M, int64_t N) {
  for (int64_t m = 0; m < M; m++) nn_table().rows->add(x + m * ldx, bias, N);
}

void sum_rows(const float* x, int64_t ldx, int64_t M, int64_t N, float* out) {
  for (int64_t m = 0; m < M; m++) nn_table().rows->add(out, x + m * ldx, N);
}

void embed_rows(const Matrix& table, const int32_t* ids, int64_t M, float* out, int64_t ldo) {
  OC_CHECK(table.dtype == DType::F32 || table.dtype == DType::BF16, Code::E_DTYPE,
           "table: expected f32 or bf16, got dtype %d", (int)table.dtype);
  for (int64_t m = 0; m < M; m++) {
    OC_CHECK(ids[m] >= 0 && ids[m] < table.rows, Code::E_TOKEN_ID, "ids[%lld]: expected 0..%lld, got %d",
             (long long)m, (long long)table.rows - 1, ids[m]);
    const int64_t at = ids[m] * table.cols;
    if (table.dtype == DType::F32)
      std::copy_n((const float*)table.data + at, table.cols, out + m * ldo);
    else
      nn_table().gemm->widen_bf16((const uint16_t*)table.data + at, table.cols, out + m * ldo);
  }
}

}  // namespace openclaw
