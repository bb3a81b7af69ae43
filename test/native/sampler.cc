// The sampler: greedy ties, the sets that top-k and top-p leave, frequencies, seeds, and the recorded
// log-prob.
#include "native/model/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "test/native/check.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

SamplerScratch scratch;

std::vector<float> random_logits(int64_t n, uint32_t seed, float spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& l : logits) l = normal(random);
  return logits;
}

double log_softmax(const std::vector<float>& logits, int64_t id) {
  double top = *std::max_element(logits.begin(), logits.end()), total = 0;
  for (float l : logits) total += std::exp((double)l - top);
  return logits[id] - top - std::log(total);
}

std::set<int32_t> seen(const std::vector<float>& logits, const Sampling& sampling, int64_t sampleable,
                       int draws) {
  std::set<int32_t> ids;
  for (int i = 0; i < draws; i++)
    ids.insert(sample(logits.data(), (int64_t)logits.size(), sampleable, sampling, i, scratch).id);
  return ids;
}

void greedy_takes_the_lowest_of_equals() {
  std::vector<float> logits = {1, 5, 2, 5, 5, 0, 1, 2, 3};
  CHECK(sample(logits.data(), 9, 9, {.temperature = 0}, 0, scratch).id == 1);
  logits[8] = 9;
  CHECK(sample(logits.data(), 9, 9, {.temperature = 0}, 0, scratch).id == 8);
  CHECK(sample(logits.data(), 9, 8, {.temperature = 0}, 0, scratch).id == 1);
}

void the_logprob_is_the_full_softmax_at_temperature_one() {
  for (int64_t n : {1, 7, 8, 9, 100, 49152}) {
    auto logits = random_logits(n, (uint32_t)n, 6);
    for (float temperature : {0.f, 0.3f, 1.f, 2.f}) {
      Sampling sampling{.temperature = temperature, .top_p = 0.9f, .top_k = 5, .seed = 3};
      Sampled s = sample(logits.data(), n, n, sampling, 1, scratch);
      CHECK_NEAR(s.logprob, log_softmax(logits, s.id), 2e-6 + 1e-6 * std::fabs(log_softmax(logits, s.id)));
    }
  }
}

void padding_rows_are_in_the_sum_and_never_chosen() {
  std::vector<float> logits = {0, 1, 2, 30, 30};
  for (float temperature : {0.f, 1.f, 50.f}) {
    Sampled s = sample(logits.data(), 5, 3, {.temperature = temperature, .seed = 1}, 0, scratch);
    CHECK(s.id < 3);
    CHECK_NEAR(s.logprob, log_softmax(logits, s.id), 1e-4);
  }
  CHECK(seen(logits, {.temperature = 50}, 3, 300) == (std::set<int32_t>{0, 1, 2}));
}

void top_k_and_top_p_leave_the_sets_they_name() {
  // probabilities 0.4 0.3 0.2 0.1
  std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};
  CHECK(seen(logits, {.top_k = 1}, 4, 400) == (std::set<int32_t>{1}));
  CHECK(seen(logits, {.top_k = 3}, 4, 400) == (std::set<int32_t>{1, 2, 3}));
  CHECK(seen(logits, {.top_k = 100}, 4, 400).size() == 4);
  CHECK(seen(logits, {.top_p = 0.001f}, 4, 400) == (std::set<int32_t>{1}));
  CHECK(seen(logits, {.top_p = 0.65f}, 4, 400) == (std::set<int32_t>{1, 3}));
  CHECK(seen(logits, {.top_p = 0.75f}, 4, 400) == (std::set<int32_t>{1, 2, 3}));
  // top-p after top-k: of the three kept, 0.4/0.9 and 0.3/0.9 already reach 0.75
  CHECK(seen(logits, {.top_p = 0.75f, .top_k = 3}, 4, 400) == (std::set<int32_t>{1, 3}));
}

void a_flat_distribution_keeps_its_nucleus() {
  std::vector<float> logits(1000, 1.f);
  auto ids = seen(logits, {.top_p = 0.1f}, 1000, 3000);
  CHECK(ids.size() <= 101 && ids.size() > 80);  // 0.1f is a little more than 0.1
  CHECK(*ids.rbegin() < 101);                   // equals: lower ids first
  CHECK(seen(logits, {.top_p = 0.0001f}, 1000, 50) == (std::set<int32_t>{0}));
}

// Pearson's chi-square against the exact probabilities; 1e-4 upper quantile for 19 degrees of freedom
// is 49.6.
void frequencies_follow_the_softmax() {
  auto logits = random_logits(20, 11, 1);
  for (float temperature : {0.7f, 1.f, 1.6f}) {
    std::vector<float> scaled = logits;
    for (float& l : scaled) l /= temperature;
    const int draws = 40000;
    std::vector<int> count(20);
    for (int i = 0; i < draws; i++)
      count[sample(logits.data(), 20, 20, {.temperature = temperature, .seed = 5}, i, scratch).id]++;
    double chi2 = 0;
    for (int id = 0; id < 20; id++) {
      double expected = draws * std::exp(log_softmax(scaled, id));
      chi2 += (count[id] - expected) * (count[id] - expected) / expected;
    }
    CHECK(chi2 < 49.6);
  }
}

void a_seed_gives_the_same_and_another_gives_another() {
  auto logits = random_logits(5000, 1);
  auto draw = [&](uint64_t seed) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 50; i++)
      ids.push_back(sample(logits.data(), 5000, 5000, {.seed = seed}, i, scratch).id);
    return ids;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
  CHECK(draw(1ull << 53) != draw(0));
}

void uniforms_are_uniform() {
  std::vector<int> bins(64);
  for (uint64_t i = 0; i < 64000; i++) bins[(size_t)(counter_uniform(i % 10, i / 10) * 64)]++;
  double chi2 = 0;
  for (int count : bins) chi2 += (count - 1000.) * (count - 1000.) / 1000;
  CHECK(chi2 < 113);  // 1e-4 upper quantile, 63 degrees of freedom
}

void bad_logits_and_bad_settings_are_refused() {
  std::vector<float> logits = {0, 1, std::numeric_limits<float>::quiet_NaN()};
  CHECK_THROWS(E_NOT_FINITE, sample(logits.data(), 3, 3, {}, 0, scratch));
  logits[2] = std::numeric_limits<float>::infinity();
  CHECK_THROWS(E_NOT_FINITE, sample(logits.data(), 3, 3, {}, 0, scratch));
  logits.assign(3, -std::numeric_limits<float>::infinity());
  CHECK_THROWS(E_NOT_FINITE, sample(logits.data(), 3, 3, {}, 0, scratch));
  logits = {-std::numeric_limits<float>::infinity(), 2, 1};
  CHECK(seen(logits, {}, 3, 200) == (std::set<int32_t>{1, 2}));
  CHECK_THROWS(E_ARGUMENT, validate({.temperature = -1}));
  CHECK_THROWS(E_ARGUMENT, validate({.temperature = std::nanf("")}));
  CHECK_THROWS(E_ARGUMENT, validate({.top_p = 0}));
  CHECK_THROWS(E_ARGUMENT, validate({.top_p = 1.5f}));
  CHECK_THROWS(E_ARGUMENT, validate({.top_k = -1}));
}

void a_vanishing_temperature_is_greedy() {
  auto logits = random_logits(1000, 9);
  int32_t best = sample(logits.data(), 1000, 1000, {.temperature = 0}, 0, scratch).id;
  for (float temperature : {1e-30f, 1e-6f, 1e-4f})
    CHECK(seen(logits, {.temperature = temperature}, 1000, 20) == (std::set<int32_t>{best}));
}

}  // namespace

int main() {
  test("greedy takes the lowest of equals", greedy_takes_the_lowest_of_equals);
  test("the log-prob is the full softmax at temperature 1",
       the_logprob_is_the_full_softmax_at_temperature_one);
  test("padding rows are in the sum and never chosen", padding_rows_are_in_the_sum_and_never_chosen);
  test("top-k and top-p leave the sets they name", top_k_and_top_p_leave_the_sets_they_name);
  test("a flat distribution keeps its nucleus", a_flat_distribution_keeps_its_nucleus);
  test("frequencies follow the softmax", frequencies_follow_the_softmax);
  test("a seed gives the same and another gives another", a_seed_gives_the_same_and_another_gives_another);
  test("uniforms are uniform", uniforms_are_uniform);
  test("bad logits and bad settings are refused", bad_logits_and_bad_settings_are_refused);
  test("a vanishing temperature is greedy", a_vanishing_temperature_is_greedy);
  return summary();
}
