// AdamW and the gradient's norm against double arithmetic.
#include "test/native/nn_reference.h"
#include "test/native/nn_support.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

struct State {
  Floats p, m, v;
};

State start(int64_t n) {
  State s{normals(n), normals(n, 0.1f), normals(n, 0.1f)};
  for (float& x : s.v) x = x * x;
  return s;
}

void check_step(int64_t n, const AdamW& h) {
  const Floats g = normals(n);
  State one = start(n), two = one, expected = one;
  adamw_step(one.p.data(), g.data(), one.m.data(), one.v.data(), n, h, one_thread());
  adamw_step(two.p.data(), g.data(), two.m.data(), two.v.data(), n, h, two_threads());
  reference::adamw_step(expected.p.data(), g.data(), expected.m.data(), expected.v.data(), n, h);
  CHECK(one.p == two.p && one.m == two.m && one.v == two.v);
  CHECK_NEAR(worst(one.p, expected.p), 0, 1e-5);
  CHECK_NEAR(worst(one.m, expected.m), 0, 1e-6);
  CHECK_NEAR(worst(one.v, expected.v), 0, 1e-6);
}

}  // namespace

int main() {
  test_levels("one step at every size", [] {
    for (int64_t n : {1, 7, 8, 100, 40001}) {
      check_step(n, {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1, 1.f});
      check_step(n, {3e-4f, 0.9f, 0.999f, 1e-8f, 0.f, 1000, 0.25f});
    }
  });
  test("the first step moves by lr against the sign of the gradient", [] {
    Floats p = {1, 1, 1}, m(3, 0.f), v(3, 0.f);
    const Floats g = {5, -0.01f, 0};
    adamw_step(p.data(), g.data(), m.data(), v.data(), 3, {0.1f, 0.9f, 0.999f, 1e-8f, 0.f, 1, 1.f},
               one_thread());
    CHECK_NEAR(p[0], 0.9, 1e-6);
    CHECK_NEAR(p[1], 1.1, 1e-6);
    CHECK(p[2] == 1);
  });
  test("decay is decoupled: it acts without a gradient", [] {
    Floats p = {2}, m(1, 0.f), v(1, 0.f);
    const Floats g = {0};
    adamw_step(p.data(), g.data(), m.data(), v.data(), 1, {0.1f, 0.9f, 0.999f, 1e-8f, 0.5f, 1, 1.f},
               one_thread());
    CHECK_NEAR(p[0], 2 * (1 - 0.1 * 0.5), 1e-6);
  });
  test("step 0 is refused", [] {
    Floats p(1);
    CHECK_THROWS(E_ARGUMENT, adamw_step(p.data(), p.data(), p.data(), p.data(), 1,
                                        {0.1f, 0.9f, 0.9f, 0, 0, 0, 1}, one_thread()));
  });
  test_levels("sum of squares, in double, the same on any number of threads", [] {
    for (int64_t n : {0, 1, 9, 16384, 100003}) {
      Floats g = normals(n, 1e18f);  // the squares leave f32
      const double one = sum_squares(g.data(), n, one_thread());
      CHECK_NEAR(one / (dot(g, g) + 1e-300), n ? 1 : 0, 1e-12);
      CHECK(one == sum_squares(g.data(), n, two_threads()));
    }
  });
  return summary();
}
