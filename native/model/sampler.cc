#include "native/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "native/base/error.h"

namespace openclaw {
namespace {

// Below this the quotient l / temperature leaves the range of float, and the choice is the most likely id
// anyway.
constexpr float kGreedyBelow = 1e-5f;

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t split_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// exp(x) for x <= 0, relative error below 1e-6; below -87 it is the smallest normal number's neighbourhood,
// which no sum over a vocabulary notices. Straight-line code, so that the compiler turns the loop around it
// into vector code (expf is a call).
inline float exp_nonpositive(float x) {
  x = x < -87.f ? -87.f : x;
  const float magic = 12582912.f;  // 1.5 * 2^23: adding it rounds to the nearest integer
  float n = (x * 1.44269504f + magic) - magic;
  float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts (Cody & Waite)
  float p = 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

float maximum(const float* x, int64_t n) {
  float lanes[8];
  for (float& lane : lanes) lane = -INFINITY;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; j++) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  for (; i < n; i++) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(lanes, lanes + 8);
}

double sum(const float* x, int64_t n) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; j++) lanes[j] += x[i + j];
  for (; i < n; i++) lanes[0] += x[i];
  double total = 0;
  for (double lane : lanes) total += lane;
  return total;
}

// weights[i] = exp((x[i] - max) / temperature); returns their sum.
double exponentials(const float* x, int64_t n, float max, float temperature, float* weights) {
  const float inverse = 1 / temperature;
  for (int64_t i = 0; i < n; i++) weights[i] = exp_nonpositive((x[i] - max) * inverse);
  // A NaN compares false with everything, so the clamp above lets it through; -inf became a weight of about
  // 1e-38.
  return sum(weights, n);
}

int64_t first_of_largest(const float* x, int64_t n, float max) {
  for (int64_t i = 0; i < n; i++)
    if (x[i] == max) return i;
  return 0;
}

// Walks the cumulative weights of `ids` (null: 0..n-1) up to a uniform share of their sum.
int32_t draw(const float* weights, const int32_t* ids, int64_t n, double total, double uniform) {
  double left = uniform * total;
  int32_t last = ids ? ids[0] : 0;
  for (int64_t i = 0; i < n; i++) {
    int32_t id = ids ? ids[i] : (int32_t)i;
    if (weights[id] <= 0) continue;
    last = id;
    left -= weights[id];
    if (left < 0) return id;
  }
  return last;  // rounding left a crumb
}

// The ids that top-k and top-p leave, in `order`, most likely first (ties: lower id first). Returns the sum
// of their weights.
double shortlist(const float* weights, int64_t n, double total, const Sampling& sampling,
                 std::vector<int32_t>& order) {
  auto more_likely = [weights](int32_t a, int32_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  };
  const int64_t k = sampling.top_k > 0 && sampling.top_k < n ? sampling.top_k : n;
  // An id below (1-p) total / (n-1) cannot be in the nucleus: the ids from it on would have to hold more than
  // (1-p) of the total, and there are at most n-1 of them. (The most likely one is always in.) Saves sorting
  // the vocabulary.
  const double floor = k == n && n > 1 ? (1 - (double)sampling.top_p) * total / (double)(n - 1) : 0;
  order.clear();
  for (int64_t i = 0; i < n; i++)
    if (weights[i] >= floor || weights[i] >= 1) order.push_back((int32_t)i);
  if (k < (int64_t)order.size()) {
    std::nth_element(order.begin(), order.begin() + k, order.end(), more_likely);
    order.resize((size_t)k);
  }
  std::sort(order.begin(), order.end(), more_likely);
  double of_k = k == n ? total : 0;
  if (k != n)
    for (int32_t id : order) of_k += weights[id];
  double kept = 0;
  size_t count = 0;
  const double wanted = sampling.top_p >= 1 ? INFINITY : (double)sampling.top_p * of_k;
  while (count < order.size() && (count == 0 || kept < wanted)) kept += weights[order[count++]];
  order.resize(count);
  return kept;
}

}  // namespace

double counter_uniform(uint64_t seed, uint64_t index) {
  return (double)(split_mix(split_mix(seed) ^ index) >> 11) * 0x1p-53;
}

void validate(const Sampling& s) {
  OC_CHECK(std::isfinite(s.temperature) && s.temperature >= 0, Code::E_ARGUMENT,
           "temperature: expected a finite number >= 0, got %g", (double)s.temperature);
  OC_CHECK(s.top_p > 0 && s.top_p <= 1, Code::E_ARGUMENT, "topP: expected a number in (0, 1], got %g",
           (double)s.top_p);
  OC_CHECK(s.top_k >= 0, Code::E_ARGUMENT, "topK: expected an integer >= 0 (0 for all), got %lld",
           (long long)s.top_k);
}

Sampled sample(const float* logits, int64_t vocab, int64_t sampleable, const Sampling& sampling,
               uint64_t index, SamplerScratch& scratch) {
  OC_CHECK(sampleable >= 1 && sampleable <= vocab, Code::E_ARGUMENT, "sampleable: expected 1..%lld, got %lld",
           (long long)vocab, (long long)sampleable);
  scratch.weights.resize((size_t)vocab);
  float* weights = scratch.weights.data();
  const float top = maximum(logits, vocab);
  double total = exponentials(logits, vocab, top, 1, weights);
  const double lse = (double)top + std::log(total);
  OC_CHECK(std::isfinite(lse), Code::E_NOT_FINITE,
           "logits: expected finite numbers, got a sum of exponentials of %g", total);
  auto recorded = [&](int64_t id) { return Sampled{(int32_t)id, (float)((double)logits[id] - lse)}; };

  const float best = maximum(logits, sampleable);
  OC_CHECK(std::isfinite(best), Code::E_NOT_FINITE, "logits: every sampleable id is %g", (double)best);
  if (sampling.temperature < kGreedyBelow) return recorded(first_of_largest(logits, sampleable, best));
  total = exponentials(logits, sampleable, best, sampling.temperature, weights);
  const double uniform = counter_uniform(sampling.seed, index);
  if (sampling.top_k == 0 && sampling.top_p >= 1)
    return recorded(draw(weights, nullptr, sampleable, total, uniform));
  total = shortlist(weights, sampleable, total, sampling, scratch.order);
  return recorded(draw(weights, scratch.order.data(), (int64_t)scratch.order.size(), total, uniform));
}

}  // namespace openclaw
