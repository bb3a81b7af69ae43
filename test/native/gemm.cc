// Products against the double reference: odd sizes, strides, both weight types, every level, one thread and
// two.
#include "test/native/nn_reference.h"
#include "test/native/nn_support.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

// Sums of K products of normal numbers are of size sqrt(K); f32 sums are off by a few roundings of that.
double tolerance(int64_t terms) { return 2e-6 * std::sqrt((double)terms + 10); }

struct Weights {
  Floats wide;
  std::vector<uint16_t> half;
  Matrix matrix;
};

Weights weights(DType dtype, int64_t N, int64_t K) {
  Weights w;
  w.wide = normals(N * K);
  w.half = to_bf16(w.wide);
  w.matrix = {dtype == DType::F32 ? (const void*)w.wide.data() : w.half.data(), dtype, N, K};
  return w;
}

void check_linear(int64_t M, int64_t N, int64_t K, DType dtype, bool accumulate) {
  const int64_t ldx = K + 3, ldy = N + 2;
  const Weights w = weights(dtype, N, K);
  const Floats x = normals(M * ldx), start = normals(M * ldy);
  Floats expected = start;
  reference::linear(x.data(), ldx, M, w.matrix, expected.data(), ldy, accumulate);
  const Floats y = same_bits(start, [&](Floats& out, Lane& lane) {
    linear(x.data(), ldx, M, w.matrix, out.data(), ldy, accumulate, lane);
  });
  CHECK_NEAR(worst(y, expected), 0, tolerance(K));  // the gaps between rows are compared too: untouched
}

void check_gradients(int64_t M, int64_t N, int64_t K, DType dtype, bool accumulate) {
  const int64_t ldx = K + 3, ldy = N + 2;
  const Weights w = weights(dtype, N, K);
  const Floats x = normals(M * ldx), dy = normals(M * ldy), dw = normals(N * K);
  Floats expected = x;
  reference::linear_dx(dy.data(), ldy, M, w.matrix, expected.data(), ldx, accumulate);
  CHECK_NEAR(worst(same_bits(x,
                             [&](Floats& out, Lane& lane) {
                               linear_dx(dy.data(), ldy, M, w.matrix, out.data(), ldx, accumulate, lane);
                             }),
                   expected),
             0, tolerance(N));
  expected = dw;
  reference::linear_dw(dy.data(), ldy, x.data(), ldx, M, N, K, expected.data());
  CHECK_NEAR(worst(same_bits(dw,
                             [&](Floats& out, Lane& lane) {
                               linear_dw(dy.data(), ldy, x.data(), ldx, M, N, K, out.data(), lane);
                             }),
                   expected),
             0, tolerance(M));
}

void check_gemm(bool transA, bool transB, int64_t M, int64_t N, int64_t K) {
  const int64_t lda = (transA ? M : K) + 1, ldb = (transB ? K : N) + 2, ldc = N + 1;
  const Floats a = normals((transA ? K : M) * lda), b = normals((transB ? N : K) * ldb), c = normals(M * ldc);
  for (bool accumulate : {false, true}) {
    Floats expected = c;
    reference::gemm(transA, transB, M, N, K, 0.7f, a.data(), lda, b.data(), ldb, expected.data(), ldc,
                    accumulate);
    const Floats actual = same_bits(c, [&](Floats& out, Lane& lane) {
      gemm(transA, transB, M, N, K, 0.7f, a.data(), lda, b.data(), ldb, out.data(), ldc, accumulate, lane);
    });
    CHECK_NEAR(worst(actual, expected), 0, tolerance(K));
  }
}

void test_linear() {
  test_levels("linear: every batch up to 40", [] {
    for (int64_t M = 1; M <= 40; M++)
      for (DType dtype : {DType::F32, DType::BF16}) check_linear(M, 13 + M, 29 + 3 * M, dtype, M % 2 == 0);
  });
  test_levels("linear: odd inner and outer sizes", [] {
    for (int64_t K : {1, 7, 8, 16, 31, 129})
      for (int64_t N : {1, 2, 6, 7, 50})
        for (int64_t M : {1, 3, 8, 9, 33})
          check_linear(M, N, K, K % 2 ? DType::F32 : DType::BF16, N % 2 == 0);
  });
  test_levels("linear: pieces of K, stripes of N, slabs of M, rows a power of two apart", [] {
    check_linear(140, 130, 1025, DType::F32, true);
    check_linear(17, 100, 1024, DType::F32, false);
    check_linear(600, 9, 2000, DType::BF16, false);
    check_linear(2, 3000, 200, DType::BF16, true);
  });
  test_levels("linear: a token's result is the same in every small batch", [] {
    const Weights w = weights(DType::BF16, 21, 77);
    const Floats x = normals(8 * 77);
    Floats all(8 * 21), one(21);
    linear(x.data(), 77, 8, w.matrix, all.data(), 21, false, one_thread());
    for (int64_t m = 0; m < 8; m++) {
      linear(x.data() + m * 77, 77, 1, w.matrix, one.data(), 21, false, one_thread());
      CHECK(memcmp(one.data(), all.data() + m * 21, sizeof(float) * 21) == 0);
    }
  });
  test_levels("linear: and the same in every large one", [] {
    const Weights w = weights(DType::F32, 21, 500);
    const Floats x = normals(150 * 500);
    Floats all(150 * 21), few(9 * 21);
    linear(x.data(), 500, 150, w.matrix, all.data(), 21, false, two_threads());
    for (int64_t m = 0; m + 9 <= 150; m += 47) {
      linear(x.data() + m * 500, 500, 9, w.matrix, few.data(), 21, false, one_thread());
      CHECK(memcmp(few.data(), all.data() + m * 21, sizeof(float) * 9 * 21) == 0);
    }
  });
}

void test_gradients() {
  test_levels("linear_dx, linear_dw: odd sizes", [] {
    for (int64_t M : {1, 5, 8, 17, 40})
      for (int64_t N : {1, 7, 50})
        for (int64_t K : {1, 16, 33, 130})
          check_gradients(M, N, K, M % 2 ? DType::F32 : DType::BF16, N % 2 == 0);
  });
  test_levels("linear_dx, linear_dw: many units", [] {
    check_gradients(300, 500, 70, DType::F32, true);
    check_gradients(40, 90, 700, DType::BF16, false);
  });
  test("linear_dx and linear_dw are the slopes of linear", [] {
    const int64_t M = 11, N = 9, K = 10;
    Floats x = normals(M * K), w = normals(N * K), y(M * N), dx(M * K), dw(N * K);
    const Floats dy = normals(M * N);
    const Matrix W{w.data(), DType::F32, N, K};
    auto loss = [&] {
      linear(x.data(), K, M, W, y.data(), N, false, one_thread());
      return dot(y, dy);
    };
    linear_dx(dy.data(), N, M, W, dx.data(), K, false, one_thread());
    linear_dw(dy.data(), N, x.data(), K, M, N, K, dw.data(), one_thread());
    for (size_t i = 0; i < x.size(); i += 7) CHECK_NEAR(slope(x, i, loss), dx[i], 2e-3);
    for (size_t i = 0; i < w.size(); i += 7) CHECK_NEAR(slope(w, i, loss), dw[i], 2e-3);
  });
}

void test_edges() {
  test_levels("gemm: all four transpositions", [] {
    for (bool transA : {false, true})
      for (bool transB : {false, true})
        for (int64_t M : {1, 6, 17, 64})
          for (int64_t N : {1, 16, 33})
            for (int64_t K : {1, 9, 500}) check_gemm(transA, transB, M, N, K);
  });
  test("empty products clear or keep", [] {
    Floats y = {1, 2, 3, 4};
    const Matrix none{nullptr, DType::F32, 2, 0};
    linear(nullptr, 0, 2, none, y.data(), 2, true, one_thread());
    CHECK(y == Floats({1, 2, 3, 4}));
    linear(nullptr, 0, 2, none, y.data(), 2, false, one_thread());
    CHECK(y == Floats({0, 0, 0, 0}));
    linear(nullptr, 0, 0, none, y.data(), 2, false, one_thread());
    gemm(false, false, 0, 3, 2, 1, nullptr, 2, nullptr, 3, nullptr, 3, false, one_thread());
  });
  test("infinities and NaN come through", [] {
    const Weights w = weights(DType::F32, 20, 20);
    for (int64_t M : {1, 20}) {
      Floats x(M * 20, 1.f), y(M * 20);
      x[3] = NAN;
      linear(x.data(), 20, M, w.matrix, y.data(), 20, false, one_thread());
      for (int64_t n = 0; n < 20; n++) CHECK(std::isnan(y[n]));
      for (int64_t i = 20; i < M * 20; i++) CHECK(std::isfinite(y[i]));
    }
  });
  test("bad arguments are refused", [] {
    Floats x(100), y(100);
    const Matrix w{x.data(), DType::F32, 5, 5}, f16{x.data(), DType::F16, 5, 5};
    CHECK_THROWS(E_SHAPE, linear(x.data(), 4, 2, w, y.data(), 5, false, one_thread()));
    CHECK_THROWS(E_SHAPE, linear(x.data(), 5, 2, w, y.data(), 4, false, one_thread()));
    CHECK_THROWS(E_DTYPE, linear(x.data(), 5, 2, f16, y.data(), 5, false, one_thread()));
    CHECK_THROWS(E_ARGUMENT, linear_dx(x.data(), 5, -1, w, y.data(), 5, false, one_thread()));
  });
}

}  // namespace

int main() {
  test_linear();
  test_gradients();
  test_edges();
  return summary();
}
