#include "native/model/rope.h"

#include <algorithm>
#include <cmath>

namespace openclaw {
namespace {

const double kTwoPi = 6.283185307179586476925286766559;

// Llama 3.1: wavelengths beyond original/low are divided by the factor, those below original/high stay, and
// between them the two are mixed linearly in original/wavelength.
double llama3_frequency(double frequency, const RopeScaling& rope) {
  const double wavelength = kTwoPi / frequency;
  if (wavelength > rope.original_context / rope.low_freq_factor) return frequency / rope.factor;
  if (wavelength < rope.original_context / rope.high_freq_factor) return frequency;
  const double keep = (rope.original_context / wavelength - rope.low_freq_factor) /
                      (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - keep) * frequency / rope.factor + keep * frequency;
}

// YaRN (arXiv 2309.00071): the pair (as a real number) that makes `turns` full turns over the original
// context.
double yarn_pair(double turns, const ModelConfig& c) {
  return (double)c.head_dim * std::log(c.rope.original_context / (turns * kTwoPi)) /
         (2 * std::log(c.rope_theta));
}

// Share of the interpolated frequency of pair i: 0 for pairs that turn fast, 1 for slow ones, a ramp between.
double yarn_interpolated(double i, const ModelConfig& c) {
  const double low = std::max(std::floor(yarn_pair(c.rope.beta_fast, c)), 0.0);
  double high = std::min(std::ceil(yarn_pair(c.rope.beta_slow, c)), (double)c.head_dim - 1);
  if (low == high) high += 0.001;  // as transformers, against a division by zero
  return std::clamp((i - low) / (high - low), 0.0, 1.0);
}

double yarn_attention_factor(const RopeScaling& rope) {
  if (rope.attention_factor > 0) return rope.attention_factor;
  return rope.factor <= 1 ? 1 : 0.1 * std::log(rope.factor) + 1;
}

}  // namespace

std::vector<double> rope_frequencies(const ModelConfig& c) {
  std::vector<double> out((size_t)(c.head_dim / 2));
  for (size_t i = 0; i < out.size(); i++) {
    const double plain = std::pow(c.rope_theta, -2.0 * (double)i / (double)c.head_dim);
    double scaled = plain;
    if (c.rope.kind == RopeScaling::Linear) scaled = plain / c.rope.factor;
    if (c.rope.kind == RopeScaling::Llama3) scaled = llama3_frequency(plain, c.rope);
    if (c.rope.kind == RopeScaling::Yarn) {
      const double share = yarn_interpolated((double)i, c);
      scaled = share * plain / c.rope.factor + (1 - share) * plain;
    }
    out[i] = scaled;
  }
  return out;
}

std::vector<float> rope_table(const ModelConfig& c, int64_t positions) {
  const std::vector<double> frequency = rope_frequencies(c);
  std::vector<float> table((size_t)(positions * c.head_dim));
  for (int64_t p = 0; p < positions; p++)
    for (size_t i = 0; i < frequency.size(); i++) {
      float* at = table.data() + (p * c.head_dim + 2 * (int64_t)i);
      at[0] = (float)std::cos((double)p * frequency[i]);
      at[1] = (float)std::sin((double)p * frequency[i]);
    }
  return table;
}

double rope_attention_scale(const ModelConfig& c) {
  const double factor = c.rope.kind == RopeScaling::Yarn ? yarn_attention_factor(c.rope) : 1;
  return factor * factor / std::sqrt((double)c.head_dim);
}

}  // namespace openclaw
