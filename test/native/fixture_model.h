// A model of fixtures/make_qwen.py: its config from the fixture, its weights from the same hash formula.
#pragma once
#include "native/model/weights.h"
#include "test/native/json_numbers.h"

namespace openclaw {
namespace testing {

// In [-1, 1), exact in f32.
inline float hash_value(uint32_t index, uint32_t seed) {
  uint32_t x = index * 2654435761u + seed * 40503u + 1u;
  x ^= x >> 16;
  x *= 0x45d9f3bu;
  x ^= x >> 16;
  return (float)(x >> 8) * 0x1p-23f - 1.f;
}

struct FixtureModel {
  JsonNumbers json;
  ModelConfig config;
  std::shared_ptr<Weights> weights;
  std::vector<int32_t> ids;
};

inline ModelConfig fixture_config(const JsonNumbers& json) {
  ModelConfig c;
  c.arch = (Arch)json.number("arch");
  c.vocab = c.sampleable = (int64_t)json.number("vocab");
  c.hidden = (int64_t)json.number("hidden");
  c.layers = (int64_t)json.number("layers");
  c.heads = (int64_t)json.number("heads");
  c.kv_heads = (int64_t)json.number("kvHeads");
  c.head_dim = (int64_t)json.number("headDim");
  c.ffn = (int64_t)json.number("ffn");
  c.context = (int64_t)json.number("context");
  c.norm_eps = (float)json.number("normEps");
  c.rope_theta = json.number("ropeTheta");
  c.tied_head = json.number("tied") != 0;
  c.qkv_bias = c.arch == Arch::Qwen2;
  c.qk_norm = c.arch == Arch::Qwen3;
  c.rope.kind = (RopeScaling::Kind)json.number("ropeKind");
  c.rope.factor = json.number("ropeFactor");
  c.rope.low_freq_factor = json.number("ropeLow");
  c.rope.high_freq_factor = json.number("ropeHigh");
  c.rope.original_context = json.number("ropeOriginal");
  c.rope.attention_factor = json.number("ropeAttention");
  return c;
}

// Parameter n of named() has seed n: matrices 0.25 h, norms 1 + 0.25 h, biases 0.25 h.
inline std::shared_ptr<Weights> fixture_weights(const ModelConfig& c) {
  std::shared_ptr<Weights> w = Weights::random(c, 0, 0);
  uint32_t seed = 0;
  for (const Weights::Named& p : w->named()) {
    const bool norm = p.name.ends_with("norm.weight");
    const int64_t n = p.shape[0] * (p.shape.size() == 2 ? p.shape[1] : 1);
    for (int64_t i = 0; i < n; i++)
      ((float*)const_cast<void*>(p.data))[i] = (norm ? 1.f : 0.f) + 0.25f * hash_value((uint32_t)i, seed);
    seed++;
  }
  return w;
}

inline FixtureModel read_fixture(const std::string& name) {
  FixtureModel f{JsonNumbers(name), {}, nullptr, {}};
  f.config = fixture_config(f.json);
  f.weights = fixture_weights(f.config);
  for (double id : f.json.numbers("ids")) f.ids.push_back((int32_t)id);
  return f;
}

}  // namespace testing
}  // namespace openclaw
