// Overlap and choice of hints, advantages within groups, integrated rewards.
#include "native/base/cpu.h"
#include "native/kernels/group_advantages.h"
#include "native/kernels/hint_overlap.h"
#include "native/kernels/step_rewards.h"
#include "test/native/check.h"
#include "test/native/rl_random.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

// --- overlap

struct Overlap {
  std::vector<int32_t> overlap, token;
  std::vector<int64_t> totals;
  int32_t choice = -9;
  bool operator==(const Overlap&) const = default;
};

Overlap overlap(const OverlapRequest& in, bool with_reference, int threads = 1) {
  Overlap o;
  o.overlap.resize((size_t)(in.M * in.T)), o.token.resize((size_t)in.T), o.totals.resize((size_t)in.M);
  const OverlapOut out{o.overlap.data(), o.totals.data(), o.token.data()};
  Lane lane(threads, false, nullptr);
  o.choice = with_reference ? reference::hint_overlap(in, out) : hint_overlap(in, out, lane);
  return o;
}

void test_overlap_reference() {
  Random random(1);
  for (int i = 0; i < 150; i++) {
    const int64_t T = 1 + random.below(150), M = 1 + random.below(4), k = 1 + random.below(40);
    const std::vector<int32_t> student = random.ids(T * k, 60, -3), teachers = random.ids(M * T * k, 60, -3);
    std::vector<uint8_t> mask;
    for (int64_t t = 0; t < T; t++) mask.push_back(!random.chance(5));
    const OverlapRequest in{
        T, M, k, student.data(), teachers.data(), random.chance(2) ? mask.data() : nullptr};
    CHECK(overlap(in, false, 1 + (int)random.below(2)) == overlap(in, true));
  }
}

void test_overlap_choice() {
  // hint 0 wins one position by far, hint 1 the sum, hint 2 ties with hint 1
  const std::vector<int32_t> student = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> teachers = {1, 2, 3, 9, 9, 9, /**/ 1, 2, 9, 4, 5, 9, /**/ 1, 2, 9, 4, 5, 9};
  const OverlapRequest in{2, 3, 3, student.data(), teachers.data(), nullptr};
  const Overlap o = overlap(in, false);
  CHECK((o.overlap == std::vector<int32_t>{3, 0, 2, 2, 2, 2}));
  CHECK((o.totals == std::vector<int64_t>{3, 4, 4}) && o.choice == 1);
  CHECK((o.token == std::vector<int32_t>{0, 1}));
  const std::vector<uint8_t> mask = {1, 0};
  const Overlap masked = overlap({2, 3, 3, student.data(), teachers.data(), mask.data()}, false);
  CHECK(masked.choice == 0 && (masked.token == std::vector<int32_t>{0, -1}) && masked.overlap[3] == 0);
}

void test_overlap_padding_and_doubles() {
  const std::vector<int32_t> student = {-1, 7, 7, -2}, teachers = {-1, 7, -2, 7};
  CHECK(overlap({1, 1, 4, student.data(), teachers.data(), nullptr}, false).overlap[0] == 1);
}

void test_overlap_instruction_sets() {
#if defined(__x86_64__)
  Random random(2);
  for (int i = 0; i < 200; i++) {
    const int64_t k = 1 + random.below(70);
    std::vector<int32_t> mine;
    for (int32_t id = 0; id < 90; id += 1 + (int32_t)random.below(3)) mine.push_back(id);
    const std::vector<int32_t> row = random.ids(k, 90, -5);
    const int64_t n = v2::rl_table.count_matches(mine.data(), (int64_t)mine.size(), row.data(), k);
    if (cpu_isa() >= Isa::V3)
      CHECK(v3::rl_table.count_matches(mine.data(), (int64_t)mine.size(), row.data(), k) == n);
    if (cpu_isa() >= Isa::V4)
      CHECK(v4::rl_table.count_matches(mine.data(), (int64_t)mine.size(), row.data(), k) == n);
  }
#endif
}

void test_overlap_refusals() {
  Lane lane(1, false, nullptr);
  const int32_t id = 0;
  int32_t out;
  CHECK_THROWS(E_ARGUMENT, hint_overlap({0, 1, 1, &id, &id, nullptr}, {&out, nullptr, nullptr}, lane));
}

// --- advantages

void test_advantages() {
  const std::vector<float> rewards = {1, 0, 5, 2, 2, 7, 3, 9};
  const std::vector<int32_t> group = {4, 4, 4, 1, 1, 1, 4, 4}, step = {0, 0, 1, 0, 0, 1, 0, 0};
  const std::vector<uint8_t> present = {1, 1, 1, 1, 1, 1, 1, 0};
  std::vector<float> A(8, -9);
  const GroupReport r =
      group_advantages({8, rewards.data(), group.data(), step.data(), present.data(), true}, A.data());
  const double mean = 4.0 / 3, std = std::sqrt((1.0 / 9 + 16.0 / 9 + 25.0 / 9) / 3);
  CHECK_NEAR(A[0], (1 - mean) / (std + 1e-6), 1e-6);
  CHECK_NEAR(A[1], (0 - mean) / (std + 1e-6), 1e-6);
  CHECK_NEAR(A[6], (3 - mean) / (std + 1e-6), 1e-6);
  for (int i : {2, 3, 4, 5, 7}) CHECK(A[(size_t)i] == 0);
  CHECK(r.groups == 4 && r.singles == 2 && r.equal == 1 && r.absent == 1);
}

void test_advantage_properties() {
  Random random(3);
  for (int i = 0; i < 100; i++) {
    const int64_t n = 2 + random.below(40);
    std::vector<float> rewards((size_t)n), shifted((size_t)n), A((size_t)n), B((size_t)n);
    for (size_t j = 0; j < (size_t)n; j++)
      rewards[j] = (float)random.below(9) / 4, shifted[j] = rewards[j] + 64;
    const std::vector<int32_t> group = random.ids(n, 4);
    group_advantages({n, rewards.data(), group.data(), nullptr, nullptr, true}, A.data());
    group_advantages({n, shifted.data(), group.data(), nullptr, nullptr, true}, B.data());
    CHECK(difference(B, A) <= 1e-6);
    double sums[4] = {};
    for (size_t j = 0; j < (size_t)n; j++) sums[group[j]] += A[j];
    for (double sum : sums) CHECK(std::fabs(sum) <= 1e-5);
  }
}

// 0.1 three times: the rounded mean differs from each of them, and a std of 1e-9 would be divided by 1e-6.
void test_equal_rewards_are_silent() {
  const std::vector<float> rewards(7, 0.1f);
  const std::vector<int32_t> group(7, 3);
  std::vector<float> A(7, -9);
  CHECK(group_advantages({7, rewards.data(), group.data(), nullptr, nullptr, true}, A.data()).equal == 1);
  CHECK(A == std::vector<float>(7, 0.f));
}

// --- step rewards

void test_step_rewards() {
  const std::vector<float> votes = {1, -1, 1, NAN, NAN, 1, NAN, NAN, NAN}, outcome = {0.5f, 0.5f, 2};
  const std::vector<uint8_t> readable = {1, 1, 1, 0, 0, 1, 0, 0, 0};
  std::vector<float> R(3);
  std::vector<uint8_t> present(3);
  StepRewardsRequest in{3, 3, outcome.data(), votes.data(), readable.data(), false};
  StepRewardsReport r = step_rewards(in, R.data(), present.data());
  CHECK_NEAR(R[0], 0.5 + 1.0 / 3, 1e-7);
  CHECK(R[1] == 1.5f && R[2] == 0);
  CHECK((present == std::vector<uint8_t>{1, 1, 0}));
  CHECK(r.present == 2 && r.absent == 1 && r.votes == 4 && r.failed_votes == 5);
  in.outcome_alone = true;
  r = step_rewards(in, R.data(), present.data());
  CHECK(R[2] == 2 && present[2] == 1 && r.absent == 0);
}

}  // namespace

int main() {
  test("overlap: against sets, masks and threads included", test_overlap_reference);
  test("overlap: sequence and token choice, ties to the lower hint", test_overlap_choice);
  test("overlap: padding matches nothing, doubles count once", test_overlap_padding_and_doubles);
  test("overlap: instruction sets agree", test_overlap_instruction_sets);
  test("overlap: refusals", test_overlap_refusals);
  test("advantages: step-index groups, singles, equals, absent rewards", test_advantages);
  test("advantages: sums are zero, shifts do not matter", test_advantage_properties);
  test("advantages: equal rewards give exactly zero", test_equal_rewards_are_silent);
  test("step rewards: outcome plus the mean of the readable votes", test_step_rewards);
  return summary();
}
