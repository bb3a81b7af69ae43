// Row operations against the double reference, and their backward against slopes.
#include "test/native/nn_reference.h"
#include "test/native/nn_support.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

void check_rms_norm(int64_t M, int64_t D) {
  const Floats x = normals(M * D), w = normals(D), dy = normals(M * D), dx0 = normals(M * D),
               dw0 = normals(D);
  Floats y(M * D), r(M), expected(M * D), expected_r(M);
  reference::rms_norm(x.data(), w.data(), 1e-5f, M, D, expected.data(), expected_r.data());
  rms_norm(x.data(), w.data(), 1e-5f, M, D, y.data(), r.data(), two_threads());
  CHECK_NEAR(worst(y, expected), 0, 3e-6);
  CHECK_NEAR(worst(r, expected_r), 0, 3e-6);
  Floats in_place = x;
  rms_norm(in_place.data(), w.data(), 1e-5f, M, D, in_place.data(), nullptr, one_thread());
  CHECK(in_place == y);

  for (bool accumulate : {false, true}) {
    Floats dx = dx0, dw = dw0, expected_dx = dx0, expected_dw = dw0;
    reference::rms_norm_backward(dy.data(), x.data(), w.data(), r.data(), M, D, expected_dx.data(),
                                 accumulate, expected_dw.data());
    rms_norm_backward(dy.data(), x.data(), w.data(), r.data(), M, D, dx.data(), accumulate, dw.data(),
                      one_thread());
    CHECK_NEAR(worst(dx, expected_dx), 0, 2e-5);
    CHECK_NEAR(worst(dw, expected_dw), 0, 2e-5);
    Floats dx2 = dx0, dw2 = dw0;
    rms_norm_backward(dy.data(), x.data(), w.data(), r.data(), M, D, dx2.data(), accumulate, dw2.data(),
                      two_threads());
    CHECK(dx2 == dx && dw2 == dw);
  }
}

void test_rms_norm() {
  test_levels("rms_norm and its backward, odd widths", [] {
    for (int64_t M : {1, 3, 40})
      for (int64_t D : {1, 7, 16, 33, 192, 577}) check_rms_norm(M, D);
    check_rms_norm(300, 301);  // several pieces
  });
  test("rms_norm_backward is the slope of rms_norm; dx may be dy's memory", [] {
    const int64_t M = 3, D = 17;
    Floats x = normals(M * D), w = normals(D), y(M * D), r(M), dw(D, 0.f);
    const Floats dy = normals(M * D);
    auto loss = [&] {
      rms_norm(x.data(), w.data(), 1e-5f, M, D, y.data(), r.data(), one_thread());
      return dot(y, dy);
    };
    loss();
    Floats dx = dy;
    rms_norm_backward(dx.data(), x.data(), w.data(), r.data(), M, D, dx.data(), false, dw.data(),
                      one_thread());
    for (size_t i = 0; i < x.size(); i++) CHECK_NEAR(slope(x, i, loss), dx[i], 3e-3);
    for (size_t i = 0; i < w.size(); i++) CHECK_NEAR(slope(w, i, loss), dw[i], 3e-3);
  });
}

void test_rope() {
  test_levels("rope turns, and turns back", [] {
    const std::vector<int32_t> positions = {0, 49, 3, 3, 7};
    for (int64_t E : {2, 6, 16, 24, 64, 300}) {
      const int64_t H = 3, M = 5, ldx = H * E + 2;
      Floats table;
      for (int64_t i = 0; i < 50 * E / 2; i++)
        table.push_back(std::cos(0.1f * i)), table.push_back(std::sin(0.1f * i));
      const Floats x = normals(M * ldx);
      Floats expected = x;
      reference::rope(expected.data(), ldx, M, H, E, table.data(), positions.data(), false);
      const Floats turned = same_bits(x, [&](Floats& out, Lane& lane) {
        rope(out.data(), ldx, M, H, E, table.data(), positions.data(), false, lane);
      });
      CHECK_NEAR(worst(turned, expected), 0, 1e-6);
      Floats back = turned;
      rope(back.data(), ldx, M, H, E, table.data(), positions.data(), true, one_thread());
      CHECK_NEAR(worst(back, x), 0, 1e-5);
    }
  });
}

void test_swiglu() {
  test_levels("swiglu and its backward, far into both tails", [] {
    for (int64_t n : {1, 8, 100, 70001}) {
      const Floats gate = normals(n, 30), up = normals(n), dh = normals(n);
      Floats expected(n), dg(n), du(n);
      reference::swiglu(gate.data(), up.data(), n, expected.data());
      CHECK_NEAR(worst(same_bits(up, [&](Floats& h,
                                         Lane& lane) { swiglu(gate.data(), up.data(), n, h.data(), lane); }),
                       expected),
                 0, 1e-6);
      reference::swiglu_backward(dh.data(), gate.data(), up.data(), n, dg.data(), du.data());
      Floats g = gate, u = up;  // in place
      swiglu_backward(dh.data(), g.data(), u.data(), n, g.data(), u.data(), two_threads());
      CHECK_NEAR(worst(g, dg), 0, 3e-6);
      CHECK_NEAR(worst(u, du), 0, 3e-6);
    }
  });
  test_levels("swiglu: infinities and NaN", [] {
    const Floats gate = {INFINITY, -INFINITY, NAN, 1000, -1000, 0}, up(6, 2.f);
    Floats h(6);
    swiglu(gate.data(), up.data(), 6, h.data(), one_thread());
    CHECK(h[0] == INFINITY && std::isnan(h[2]) && h[3] == 2000 && h[4] == 0 && h[5] == 0);
  });
  test("swiglu_backward is the slope of swiglu", [] {
    const int64_t n = 21;
    Floats gate = normals(n), up = normals(n), h(n), dg(n), du(n);
    const Floats dh = normals(n);
    auto loss = [&] {
      swiglu(gate.data(), up.data(), n, h.data(), one_thread());
      return dot(h, dh);
    };
    swiglu_backward(dh.data(), gate.data(), up.data(), n, dg.data(), du.data(), one_thread());
    for (size_t i = 0; i < (size_t)n; i++) {
      CHECK_NEAR(slope(gate, i, loss), dg[i], 1e-3);
      CHECK_NEAR(slope(up, i, loss), du[i], 1e-3);
    }
  });
}

void test_simple_rows() {
  test_levels("add_rows and sum_rows", [] {
    const int64_t M = 4, N = 19, ldx = 21;
    const Floats x = normals(M * ldx), bias = normals(N);
    Floats y = x, sums = bias;
    add_rows(y.data(), ldx, bias.data(), M, N);
    sum_rows(x.data(), ldx, M, N, sums.data());
    for (int64_t n = 0; n < N; n++) {
      float sum = bias[n];
      for (int64_t m = 0; m < M; m++) {
        CHECK(y[m * ldx + n] == x[m * ldx + n] + bias[n]);
        sum += x[m * ldx + n];
      }
      CHECK(sums[n] == sum);
    }
    CHECK(y[N] == x[N] && y[N + 1] == x[N + 1]);
  });
  test_levels("embed_rows: both types, and ids out of range", [] {
    const int64_t V = 5, D = 11;
    const Floats wide = normals(V * D);
    const std::vector<uint16_t> half = to_bf16(wide);
    const std::vector<int32_t> ids = {4, 0, 4}, low = {-1}, high = {5};
    Floats out(3 * 12, -1.f), narrow = out;
    embed_rows({wide.data(), DType::F32, V, D}, ids.data(), 3, out.data(), 12);
    embed_rows({half.data(), DType::BF16, V, D}, ids.data(), 3, narrow.data(), 12);
    for (int64_t m = 0; m < 3; m++)
      for (int64_t d = 0; d < D; d++) {
        CHECK(out[m * 12 + d] == wide[ids[m] * D + d]);
        CHECK(narrow[m * 12 + d] == bf16_to_f32(half[ids[m] * D + d]));
      }
    CHECK(out[11] == -1.f);
    CHECK_THROWS(E_TOKEN_ID, embed_rows({wide.data(), DType::F32, V, D}, low.data(), 1, out.data(), 12));
    CHECK_THROWS(E_TOKEN_ID, embed_rows({wide.data(), DType::F32, V, D}, high.data(), 1, out.data(), 12));
  });
}

}  // namespace

int main() {
  test_rms_norm();
  test_rope();
  test_swiglu();
  test_simple_rows();
  return summary();
}
