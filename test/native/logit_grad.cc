// logit_grad and cross_entropy against their references, finite differences, and what must hold for every
// row.
#include "native/kernels/logit_grad.h"

#include <numeric>

#include "native/base/cpu.h"
#include "native/kernels/cross_entropy.h"
#include "test/native/check.h"
#include "test/native/rl_random.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

double row_lse(const float* z, int64_t V, double temperature = 1) {
  double max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < V; j++) max = std::max(max, z[j] / temperature);
  for (int64_t j = 0; j < V; j++) sum += std::exp(z[j] / temperature - max);
  return max + std::log(sum);
}

// A problem of T rows with everything logit_grad needs.
struct Problem {
  int64_t T, V, stride, g;
  std::vector<float> logits, lse, grads;
  std::vector<int32_t> ids;
  std::vector<uint16_t> half;

  Problem(int64_t T, int64_t V, int64_t g, Random& random, int64_t extra = 0)
      : T(T),
        V(V),
        stride(V + extra),
        g(g),
        logits(random.normals(T * (V + extra), 3)),
        grads(random.normals(T * g)),
        ids(random.ids(T * g, V, -1)) {
    for (int64_t t = 0; t < T; t++) lse.push_back((float)row_lse(&logits[(size_t)(t * stride)], V));
  }
  LogitGradRequest request() const {
    LogitGradRequest in;
    in.logits = logits.data();
    in.ldl = stride, in.rows = T, in.vocab = V;
    in.log_sum = lse.data();
    in.g = g, in.ids = ids.data(), in.grads = grads.data();
    return in;
  }
};

std::vector<float> run(const LogitGradRequest& in, int64_t size, int threads = 1) {
  Lane lane(threads, false, nullptr);
  std::vector<float> dz((size_t)size);
  logit_grad(in, dz.data(), in.ldl, lane);
  return dz;
}

std::vector<float> oracle(const LogitGradRequest& in, int64_t size) {
  std::vector<float> dz((size_t)size);
  reference::logit_grad(in, dz.data(), in.ldl);
  return dz;
}

// Every entry to rounding of what it is made of: p_j G, and the gradients of the ids where there are some.
void check_against_oracle(const Problem& p, const LogitGradRequest& in, double tolerance) {
  const std::vector<float> a = run(in, p.T * p.stride), b = oracle(in, p.T * p.stride);
  for (int64_t t = 0; t < p.T; t++)
    for (int64_t j = 0; j < p.V; j++) {
      double sparse = 0;
      for (int64_t c = t * p.g; c < (t + 1) * p.g; c++)
        if (p.ids[(size_t)c] == j) sparse += std::fabs(p.grads[(size_t)c]) / in.temperature;
      const auto at = (size_t)(t * p.stride + j);
      CHECK_NEAR(a[at], b[at], tolerance * (std::fabs(b[at]) + sparse) + 1e-30);
    }
}

void test_reference() {
  Random random(1);
  for (int64_t V : {1, 3, 8, 31, 33, 64, 1000, 20001}) {
    Problem p(3, V, 4, random, 5);
    check_against_oracle(p, p.request(), 2e-6);
    LogitGradRequest tempered = p.request();
    tempered.temperature = 0.7f;
    std::vector<float> lse;
    for (int64_t t = 0; t < p.T; t++)
      lse.push_back((float)row_lse(&p.logits[(size_t)(t * p.stride)], V, 0.7f));
    tempered.log_sum = lse.data();
    check_against_oracle(p, tempered, 4e-6);
    LogitGradRequest bf16 = p.request();
    p.half = to_bf16(p.logits);
    bf16.logits = p.half.data(), bf16.dtype = DType::BF16;
    check_against_oracle(p, bf16, 2e-6);
  }
}

void test_common_offset() {
  Random random(2);
  Problem p(2, 500, 3, random);
  std::vector<float> max(2, 0.f), log_sum;
  for (float& z : p.logits) z = std::round(z * 64) / 64;
  for (int64_t t = 0; t < 2; t++) log_sum.push_back((float)row_lse(&p.logits[(size_t)(t * 500)], 500));
  LogitGradRequest in = p.request();
  in.max = max.data(), in.log_sum = log_sum.data();
  const std::vector<float> before = run(in, 1000);
  for (float& z : p.logits) z += 2048;
  max.assign(2, 2048.f);
  CHECK(run(in, 1000) == before);
}

// L = sum_c g_c log p(id_c), by central differences in double.
void test_finite_differences() {
  Random random(3);
  const int64_t V = 12;
  Problem p(1, V, 5, random);
  p.ids = {3, 3, 0, -1, 11};
  const std::vector<float> dz = run(p.request(), V);
  auto loss = [&](const std::vector<double>& z) {
    double sum = 0, total = 0;
    for (double x : z) sum += std::exp(x);
    for (int64_t c = 0; c < 5; c++)
      if (p.ids[(size_t)c] >= 0) total += p.grads[(size_t)c] * (z[(size_t)p.ids[(size_t)c]] - std::log(sum));
    return total;
  };
  std::vector<double> z(p.logits.begin(), p.logits.end());
  for (int64_t j = 0; j < V; j++) {
    std::vector<double> up = z, down = z;
    up[(size_t)j] += 1e-5, down[(size_t)j] -= 1e-5;
    CHECK_NEAR(dz[(size_t)j], (loss(up) - loss(down)) / 2e-5, 1e-5);
  }
}

void test_rows_sum_to_zero() {
  Random random(4);
  const int64_t V = 3000;
  Problem p(8, V, 6, random);
  const std::vector<float> dz = run(p.request(), p.T * V);
  for (int64_t t = 0; t < p.T; t++) {
    double sum = 0, size = 0;
    for (int64_t j = 0; j < V; j++) sum += dz[(size_t)(t * V + j)];
    for (int64_t c = 0; c < p.g; c++) size += std::fabs(p.grads[(size_t)(t * p.g + c)]);
    CHECK(std::fabs(sum) <= 2e-6 * size);
  }
}

void test_in_place_and_threads() {
  Random random(5);
  Problem p(40, 5003, 3, random, 2);
  const int64_t size = p.T * p.stride;
  const std::vector<float> apart = run(p.request(), size, 2);
  std::vector<float> inout = p.logits;
  Lane lane(1, false, nullptr);
  logit_grad_rows(inout.data(), p.stride, p.T, p.V, p.lse.data(), p.ids.data(), p.grads.data(), p.g, lane);
  for (int64_t t = 0; t < p.T; t++)
    CHECK(std::equal(&inout[(size_t)(t * p.stride)], &inout[(size_t)(t * p.stride)] + p.V,
                     &apart[(size_t)(t * p.stride)]));
}

void test_silent_rows() {
  const std::vector<float> logits = {NAN, INFINITY, -INFINITY, 1, 1, 2, 3, 4}, lse = {NAN, 4.44f};
  const std::vector<float> grads = {0, 7, 0.5f, -0.5f};
  const std::vector<int32_t> ids = {1, -1, 2, 0};  // row 0: zero and padding; row 1: gradients that cancel
  LogitGradRequest in;
  in.logits = logits.data();
  in.ldl = in.vocab = 4, in.rows = 2;
  in.log_sum = lse.data();
  in.g = 2, in.ids = ids.data(), in.grads = grads.data();
  CHECK((run(in, 8) == std::vector<float>{0, 0, 0, 0, -0.5f, 0, 0.5f, 0}));
}

void test_instruction_sets() {
#if defined(__x86_64__)
  Random random(6);
  std::vector<const RlTable*> tables = {&v2::rl_table};
  if (cpu_isa() >= Isa::V3) tables.push_back(&v3::rl_table);
  if (cpu_isa() >= Isa::V4) tables.push_back(&v4::rl_table);
  const int64_t V = 4099;
  const std::vector<float> row = row_of(Kind::HalfMasked, V, random);
  std::vector<std::vector<float>> out;
  for (const RlTable* table : tables) {
    out.emplace_back((size_t)V);
    table->scaled_exp_f32(row.data(), V, 1, 9.5f, -0.3f, out.back().data());
  }
  for (size_t i = 1; i < out.size(); i++) CHECK(difference(out[i], out[0], 1e-30) <= 2e-6);
#endif
}

void test_refusals() {
  Random random(7);
  Problem p(1, 10, 1, random);
  Lane lane(1, false, nullptr);
  std::vector<float> dz(10);
  LogitGradRequest in = p.request();
  p.ids = {10};
  CHECK_THROWS(E_TOKEN_ID, logit_grad(in, dz.data(), 10, lane));
  p.ids = {9};
  CHECK_THROWS(E_SHAPE, logit_grad(in, dz.data(), 9, lane));
  in.temperature = -1;
  CHECK_THROWS(E_ARGUMENT, logit_grad(in, dz.data(), 10, lane));
}

// --- cross_entropy

struct CrossEntropy {
  std::vector<float> loss, dz;
  CrossEntropyReport report;
};

CrossEntropy cross(const CrossEntropyRequest& in, bool with_reference, int threads = 1) {
  CrossEntropy c;
  c.loss.resize((size_t)in.logits.rows), c.dz.resize((size_t)(in.logits.rows * in.logits.stride));
  Lane lane(threads, false, nullptr);
  const CrossEntropyOut out{c.loss.data(), c.dz.data(), in.logits.stride};
  c.report = with_reference ? reference::cross_entropy(in, out) : cross_entropy(in, out, lane);
  return c;
}

void test_cross_entropy() {
  Random random(8);
  for (int64_t V : {1, 9, 500, 12345}) {
    const int64_t T = 7;
    const std::vector<float> logits = random.normals(T * V, 3);
    const std::vector<int32_t> ids = random.ids(T, V, -1);
    const std::vector<uint8_t> mask = {1, 1, 0, 1, 1, 1, 1};
    CrossEntropyRequest in;
    in.logits = {logits.data(), DType::F32, T, V, V};
    in.ids = ids.data(), in.mask = mask.data();
    in.mean = random.chance(2), in.scale = 1.5;
    const CrossEntropy a = cross(in, false, 2), b = cross(in, true);
    CHECK(a.report.counted == b.report.counted);
    CHECK_NEAR(a.report.loss, b.report.loss, 2e-6 * std::max(1.0, b.report.loss));
    CHECK(difference(a.loss, b.loss) <= 2e-6);
    CHECK(difference(a.dz, b.dz, 0.1) <= 2e-6);  // p - 1 cancels
  }
}

void test_cross_entropy_is_the_gradient_of_minus_logprob() {
  Random random(9);
  Problem p(1, 50, 1, random);
  p.grads = {-1}, p.ids = {17};
  CrossEntropyRequest in;
  in.logits = {p.logits.data(), DType::F32, 1, 50, 50};
  in.ids = p.ids.data();
  CHECK(difference(cross(in, false).dz, run(p.request(), 50), 0.1) <= 2e-6);
}

void test_ignored_rows() {
  const std::vector<float> logits = {1, 2, NAN, NAN, 3, 1};
  const std::vector<int32_t> ids = {0, -100, 1};
  CrossEntropyRequest in;
  in.logits = {logits.data(), DType::F32, 3, 2, 2};
  in.ids = ids.data();
  const CrossEntropy c = cross(in, false);
  CHECK(c.report.counted == 2 && c.loss[1] == 0 && c.dz[2] == 0 && c.dz[3] == 0);
  CHECK_NEAR(c.loss[0], std::log(1 + std::exp(1.0)), 1e-6);
  const std::vector<int32_t> none = {-1, -1, -1};
  in.ids = none.data();
  CHECK(cross(in, false).report.loss == 0);
  const std::vector<int32_t> broken = {0, 0, 1};
  in.ids = broken.data();
  CHECK_THROWS(E_NOT_FINITE, cross(in, false));
}

}  // namespace

int main() {
  test("logit_grad agrees with the reference", test_reference);
  test("(max, log_sum) apart: a common offset changes no bit", test_common_offset);
  test("finite differences", test_finite_differences);
  test("rows sum to zero", test_rows_sum_to_zero);
  test("in place equals out of place, for any number of threads", test_in_place_and_threads);
  test("rows without gradient become zero, whatever they hold", test_silent_rows);
  test("instruction sets agree", test_instruction_sets);
  test("refusals", test_refusals);
  test("cross_entropy agrees with the reference", test_cross_entropy);
  test("cross_entropy is -log p through logit_grad", test_cross_entropy_is_the_gradient_of_minus_logprob);
  test("ignored rows do not matter; broken ones are refused", test_ignored_rows);
  return summary();
}
