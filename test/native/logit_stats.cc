// logit_stats against its reference in double, and what must hold whatever the numbers are.
#include "native/kernels/logit_stats.h"

#include <algorithm>
#include <numeric>

#include "native/base/cpu.h"
#include "test/native/check.h"
#include "test/native/rl_random.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

constexpr double kTolerance = 2e-6;  // of log-sums, relative to max(1, |value|) for the rest

struct Stats {
  std::vector<float> max, log_sum, lse, entropy, top, gathered;
  std::vector<int32_t> ids;
  std::vector<uint8_t> flags;

  LogitStatsOut out(const LogitStatsRequest& in) {
    const auto T = (size_t)in.logits.rows;
    max.assign(T, -9), log_sum.assign(T, -9), lse.assign(T, -9), entropy.assign(T, -9), flags.assign(T, 99);
    top.assign(T * (size_t)in.k, -9), ids.assign(T * (size_t)in.k, -9), gathered.assign(T * (size_t)in.g, -9);
    return {max.data(), log_sum.data(), lse.data(),      entropy.data(),
            ids.data(), top.data(),     gathered.data(), flags.data()};
  }
};

Stats run(const LogitStatsRequest& in, int threads = 1) {
  Lane lane(threads, false, nullptr);
  Stats stats;
  logit_stats(in, stats.out(in), lane);
  return stats;
}

Stats oracle(const LogitStatsRequest& in) {
  Stats stats;
  reference::logit_stats(in, stats.out(in));
  return stats;
}

void check_close(const Stats& a, const Stats& b) {
  CHECK(a.flags == b.flags);
  CHECK(a.ids == b.ids);
  CHECK(difference(a.max, b.max) <= kTolerance);
  CHECK(difference(a.log_sum, b.log_sum, 1e3) * 1e3 <= kTolerance);  // absolute
  CHECK(difference(a.lse, b.lse) <= kTolerance);
  CHECK(difference(a.entropy, b.entropy) <= kTolerance);
  CHECK(difference(a.top, b.top) <= kTolerance);
  CHECK(difference(a.gathered, b.gathered) <= kTolerance);
}

LogitStatsRequest request(const std::vector<float>& logits, int64_t T, int64_t V, int64_t k) {
  LogitStatsRequest in;
  in.logits = {logits.data(), DType::F32, T, V, V};
  in.k = k;
  return in;
}

void against_reference(Kind kind, int64_t V, int64_t k, float temperature, DType dtype, Random& random) {
  const std::vector<float> row = row_of(kind, V, random);
  const std::vector<uint16_t> half = to_bf16(row);
  const std::vector<int32_t> ids = random.ids(5, V, -1);
  LogitStatsRequest in = request(row, 1, V, k);
  if (dtype == DType::BF16) in.logits.data = half.data(), in.logits.dtype = dtype;
  in.temperature = temperature;
  in.g = 5, in.gather_ids = ids.data();
  check_close(run(in), oracle(in));
}

void test_reference() {
  Random random(1);
  for (Kind kind : kKinds)
    for (int64_t V : {1, 2, 7, 8, 17, 127, 128, 129, 300, 4096, 4500, 33000})
      for (int64_t k : {(int64_t)0, (int64_t)1, std::min<int64_t>(V, 50), std::min<int64_t>(V, 130)})
        against_reference(kind, V, k, random.chance(2) ? 1.f : 0.6f,
                          random.chance(3) ? DType::BF16 : DType::F32, random);
}

void test_large_k() {
  Random random(2);
  for (Kind kind : kKinds) against_reference(kind, 6000, 6000, 1, DType::F32, random);
  against_reference(Kind::Normal, 9000, 700, 1, DType::F32, random);
}

void test_large_vocabulary() {
  Random random(3);
  for (Kind kind : {Kind::Normal, Kind::Constant, Kind::Ascending, Kind::Peaked})
    against_reference(kind, 1 << 20, 50, 1, DType::F32, random);
}

// A sum of equal terms that are no short binary number: every rounding goes the same way.
void test_systematic_rounding() {
  std::vector<float> row(1 << 20, -0.3f);
  row[5] = 0;
  const LogitStatsRequest in = request(row, 1, 1 << 20, 1);
  CHECK_NEAR(run(in).log_sum[0], oracle(in).log_sum[0], kTolerance);
}

void test_not_a_distribution() {
  const float n = NAN, i = INFINITY;
  const std::vector<float> rows = {1,  n,  2,  0,   // NaN
                                   i,  1,  i,  -i,  // +inf twice
                                   -i, -i, -i, -i,  // empty
                                   -i, 3,  -i, -i,  // one finite
                                   5,  4,  3,  2};  // masked
  const std::vector<uint8_t> mask = {1, 1, 1, 1, 0};
  const std::vector<int32_t> ids = {0, 0, 0, 1, 0};
  LogitStatsRequest in = request(rows, 5, 4, 3);
  in.mask = mask.data();
  in.g = 1, in.gather_ids = ids.data();
  const Stats s = run(in);
  CHECK((s.flags == std::vector<uint8_t>{kRowNaN, kRowInf, kRowEmpty | kRowShort, kRowShort, kRowMasked}));
  CHECK((s.ids == std::vector<int32_t>{-1, -1, -1, 0, 2, 1, -1, -1, -1, 1, -1, -1, -1, -1, -1}));
  CHECK(std::isnan(s.lse[0]) && std::isnan(s.top[0]) && std::isnan(s.gathered[0]) &&
        std::isnan(s.entropy[0]));
  CHECK(s.lse[1] == i && s.top[5] == -i);
  CHECK_NEAR(s.gathered[1], -std::log(2.0), 1e-7);
  CHECK_NEAR(s.entropy[1], std::log(2.0), 1e-7);
  CHECK(s.lse[2] == -i && s.top[6] == -i && s.gathered[2] == -i && std::isnan(s.entropy[2]));
  CHECK(s.top[9] == 0 && s.gathered[3] == 0 && s.log_sum[3] == 0);
  CHECK_NEAR(s.entropy[3], 0, 1e-30);
  CHECK(std::isnan(s.lse[4]) && std::isnan(s.gathered[4]));
  check_close(s, oracle(in));
}

void test_extreme_values() {
  const float m = 3.4028235e38f;
  const std::vector<float> rows = {-m, -m, -m, m, -m, 0, 1e-40f, -1e-40f, 0};
  check_close(run(request(rows, 3, 3, 3)), oracle(request(rows, 3, 3, 3)));
}

// The same row with a NaN at any place is flagged, whichever block, lane or tail it falls into.
void test_every_place_of_a_nan() {
  Random random(4);
  for (int64_t V : {5, 64, 300, 5000}) {
    std::vector<float> row = row_of(Kind::Normal, V, random);
    for (int64_t j = 0; j<V; j += V> 1000 ? 37 : 1) {
      const float kept = row[(size_t)j];
      row[(size_t)j] = random.chance(2) ? NAN : -NAN;
      CHECK(run(request(row, 1, V, 3)).flags[0] == kRowNaN);
      row[(size_t)j] = kept;
    }
  }
}

void test_strided_rows_threads_and_neighbours() {
  Random random(5);
  const int64_t T = 37, V = 3001, stride = 3010, k = 20;
  const std::vector<float> padded = random.normals(T * stride, 3);
  std::vector<float> packed;
  for (int64_t t = 0; t < T; t++)
    packed.insert(packed.end(), &padded[(size_t)(t * stride)], &padded[(size_t)(t * stride + V)]);
  LogitStatsRequest wide = request(padded, T, V, k);
  wide.logits.stride = stride;
  const Stats a = run(wide), b = run(request(packed, T, V, k), 2), c = run(request(packed, T, V, k), 1);
  CHECK(a.lse == b.lse && b.lse == c.lse && a.ids == b.ids && a.top == b.top && a.entropy == b.entropy);
  const std::vector<float> one(packed.begin() + 5 * V, packed.begin() + 6 * V);
  const Stats alone = run(request(one, 1, V, k));
  CHECK(alone.lse[0] == a.lse[5] && std::equal(alone.ids.begin(), alone.ids.end(), a.ids.begin() + 5 * k));
}

void test_masked_rows_are_not_read() {
  Random random(6);
  std::vector<float> rows = random.normals(3 * 400, 3);
  const std::vector<uint8_t> mask = {1, 0, 1};
  LogitStatsRequest in = request(rows, 3, 400, 5);
  in.mask = mask.data();
  const Stats before = run(in);
  for (int j = 400; j < 800; j++) rows[(size_t)j] = NAN;
  const Stats after = run(in);
  CHECK(before.ids == after.ids && difference(before.lse, after.lse) == 0 && before.flags == after.flags);
}

void test_shift_leaves_logprobs() {
  Random random(7);
  const int64_t V = 2000;
  std::vector<float> row(V), shifted(V);  // eighths: the shift is exact
  for (int64_t j = 0; j < V; j++)
    row[(size_t)j] = (float)random.below(100) / 8, shifted[(size_t)j] = row[(size_t)j] + 4096;
  const Stats a = run(request(row, 1, V, 40)), b = run(request(shifted, 1, V, 40));
  CHECK(a.ids == b.ids && a.top == b.top && a.log_sum == b.log_sum);
}

void test_permutation_moves_ids() {
  Random random(8);
  const int64_t V = 5000, k = 60;
  const std::vector<float> row = row_of(Kind::Normal, V, random);
  std::vector<int32_t> order((size_t)V);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t j = V - 1; j > 0; j--) std::swap(order[(size_t)j], order[(size_t)random.below(j + 1)]);
  std::vector<float> moved((size_t)V);
  for (int64_t j = 0; j < V; j++) moved[(size_t)j] = row[(size_t)order[(size_t)j]];
  const Stats a = run(request(row, 1, V, k)), b = run(request(moved, 1, V, k));
  for (int64_t i = 0; i < k; i++)
    CHECK(order[(size_t)b.ids[(size_t)i]] == a.ids[(size_t)i]);  // no ties in normals
  CHECK(difference(b.lse, a.lse) <= kTolerance);
}

void test_probabilities_sum_to_one() {
  Random random(9);
  const int64_t V = 700;
  const std::vector<float> row = row_of(Kind::Normal, V, random);
  std::vector<int32_t> all((size_t)V);
  std::iota(all.begin(), all.end(), 0);
  LogitStatsRequest in = request(row, 1, V, 0);
  in.temperature = 0.6f;
  in.g = V, in.gather_ids = all.data();
  const Stats s = run(in);
  double sum = 0, entropy = 0;
  for (float l : s.gathered) sum += std::exp((double)l), entropy -= std::exp((double)l) * l;
  CHECK_NEAR(sum, 1, 2e-6);
  CHECK_NEAR(s.entropy[0], entropy, 1e-5);
}

// Whatever instruction sets this machine has: the same candidates, the same sums within rounding.
void test_instruction_sets() {
#if defined(__x86_64__)
  Random random(10);
  std::vector<const RlTable*> tables = {&v2::rl_table};
  if (cpu_isa() >= Isa::V3) tables.push_back(&v3::rl_table);
  if (cpu_isa() >= Isa::V4) tables.push_back(&v4::rl_table);
  for (Kind kind : kKinds)
    for (int64_t V : {100, 5000, 40000}) {
      const std::vector<float> row = row_of(kind, V, random);
      std::vector<std::vector<int32_t>> found;
      std::vector<double> sums, weighted;
      for (const RlTable* table : tables) {
        RowScan scan;
        scan.entropy = true, scan.k = 20;
        std::vector<float> values((size_t)scan_capacity(20));
        std::vector<int32_t> ids((size_t)scan_capacity(20));
        scan.values = values.data(), scan.ids = ids.data();
        table->scan_f32(row.data(), V, scan);
        ids.resize((size_t)scan.count);
        found.push_back(ids), sums.push_back(scan.sum), weighted.push_back(scan.weighted);
      }
      for (size_t i = 1; i < tables.size(); i++) {
        CHECK(found[i] == found[0]);
        CHECK_NEAR(sums[i] / sums[0], 1, 2e-6);
        CHECK_NEAR(weighted[i], weighted[0], 2e-6 * std::max(1.0, std::fabs(weighted[0])));
      }
    }
#endif
}

void test_refusals() {
  const std::vector<float> row(8, 0.f);
  const std::vector<int32_t> id = {8};
  Lane lane(1, false, nullptr);
  auto with = [&](auto change) {
    LogitStatsRequest in = request(row, 1, 8, 1);
    change(in);
    logit_stats(in, {}, lane);
  };
  CHECK_THROWS(E_SHAPE, with([](auto& in) { in.logits.stride = 7; }));
  CHECK_THROWS(E_SHAPE, with([](auto& in) { in.logits.vocab = 0; }));
  CHECK_THROWS(E_DTYPE, with([](auto& in) { in.logits.dtype = DType::F16; }));
  CHECK_THROWS(E_ARGUMENT, with([](auto& in) { in.temperature = 0; }));
  CHECK_THROWS(E_ARGUMENT, with([](auto& in) { in.temperature = NAN; }));
  CHECK_THROWS(E_ARGUMENT, with([](auto& in) { in.k = -1; }));
  float gathered;
  LogitStatsOut out;
  out.gathered = &gathered;
  LogitStatsRequest in = request(row, 1, 8, 0);
  in.g = 1, in.gather_ids = id.data();
  CHECK_THROWS(E_TOKEN_ID, logit_stats(in, out, lane));
}

}  // namespace

int main() {
  test("agrees with the reference over kinds of rows, sizes, k, temperature and dtype", test_reference);
  test("k up to V, and lists long enough to be sorted", test_large_k);
  test("a vocabulary of 2^20", test_large_vocabulary);
  test("equal terms: rounding that always goes one way", test_systematic_rounding);
  test("NaN, +inf, all -inf, short and masked rows", test_not_a_distribution);
  test("the largest and smallest floats", test_extreme_values);
  test("a NaN at every place", test_every_place_of_a_nan);
  test("strides, threads and neighbours do not matter", test_strided_rows_threads_and_neighbours);
  test("masked rows are not read", test_masked_rows_are_not_read);
  test("an exact shift leaves log-probs bit for bit", test_shift_leaves_logprobs);
  test("a permutation of the vocabulary moves the ids", test_permutation_moves_ids);
  test("probabilities sum to one, entropy is theirs", test_probabilities_sum_to_one);
  test("instruction sets agree", test_instruction_sets);
  test("refusals", test_refusals);
  return summary();
}
