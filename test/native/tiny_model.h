// Small decoders of every kind, and the same decoder once more: in double, one row at a time, as the formulas
// read. It shares nothing with native/model but the table of rotary frequencies, which has a test of its own.
#pragma once
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "native/model/forward.h"
#include "native/model/random.h"
#include "native/model/rope.h"

namespace openclaw {
namespace testing {

inline ModelConfig tiny_config(Arch arch) {
  ModelConfig c;
  c.arch = arch;
  c.vocab = 61;
  c.sampleable = 60;
  c.hidden = 24;
  c.layers = 3;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 8;
  c.ffn = 40;
  c.context = 128;
  c.norm_eps = 1e-6f;
  c.tied_head = arch != Arch::Qwen2;
  c.qkv_bias = arch == Arch::Qwen2;
  c.qk_norm = arch == Arch::Qwen3;
  return c;
}
inline const char* arch_name(Arch a) {
  return a == Arch::Llama ? "llama" : a == Arch::Qwen2 ? "qwen2" : "qwen3";
}
inline const Arch kArchs[] = {Arch::Llama, Arch::Qwen2, Arch::Qwen3};

// Weights::random leaves biases 0 and norms 1, which would hide mistakes: this makes every parameter random.
inline std::shared_ptr<Weights> tiny_weights(const ModelConfig& c, uint64_t seed) {
  std::shared_ptr<Weights> w = Weights::random(c, seed, 0.2f);
  uint64_t stream = 1000;
  for (const Weights::Named& p : w->named()) {
    if (p.shape.size() == 2) continue;
    const RandomStream random(seed, stream++);
    float* values = (float*)const_cast<void*>(p.data);
    for (int64_t i = 0; i < p.shape[0]; i++) values[i] += (float)(0.3 * random.normal((uint64_t)i));
  }
  return w;
}

inline std::shared_ptr<Adapter> tiny_adapter(const ModelConfig& c, const Weights& w, uint64_t seed) {
  auto out = std::make_shared<Adapter>();
  out->rank = 4;
  out->alpha = 6;
  out->layers.resize((size_t)c.layers);
  for (size_t l = 0; l < out->layers.size(); l++)
    for (size_t t = 0; t < kTargets; t++) {
      const RandomStream a(seed, 2 * (l * kTargets + t)), b(seed, 2 * (l * kTargets + t) + 1);
      const Matrix& m = w.layers[l].w[t];
      LoraPair& p = out->layers[l][t];
      p.in = m.cols;
      p.out = m.rows;
      for (int64_t i = 0; i < out->rank * m.cols; i++) p.a.push_back((float)(0.2 * a.normal((uint64_t)i)));
      for (int64_t i = 0; i < out->rank * m.rows; i++) p.b.push_back((float)(0.2 * b.normal((uint64_t)i)));
    }
  return out;
}

inline std::vector<int32_t> tiny_ids(int64_t n, int64_t vocab, uint64_t seed) {
  const RandomStream random(seed, 7);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; i++) ids.push_back((int32_t)(random.uniform((uint64_t)i) * (double)vocab));
  return ids;
}

// --- the decoder in double
// --------------------------------------------------------------------------------------

using Row = std::vector<double>;
using Rows = std::vector<Row>;

struct ReferenceModel {
  ModelConfig config;
  std::map<std::string, std::vector<double>> p;  // Hugging Face names; "layers.3.q_proj.A" for an adapter
  double lora_scale = 0;

  explicit ReferenceModel(const Weights& w, const Adapter* adapter = nullptr) : config(w.config) {
    for (const Weights::Named& n : w.named()) {
      int64_t size = 1;
      for (int64_t d : n.shape) size *= d;
      std::vector<double>& to = p[n.name];
      for (int64_t i = 0; i < size; i++)
        to.push_back(n.dtype == DType::F32 ? (double)((const float*)n.data)[i]
                                           : (double)bf16_to_f32(((const uint16_t*)n.data)[i]));
    }
    if (!adapter) return;
    lora_scale = adapter->scale();
    for (size_t l = 0; l < adapter->layers.size(); l++)
      for (size_t t = 0; t < kTargets; t++) {
        const LoraPair& pair = adapter->layers[l][t];
        if (pair.empty()) continue;
        const std::string name = "layers." + std::to_string(l) + "." + target_name((int)t);
        p[name + ".A"].assign(pair.a.begin(), pair.a.end());
        p[name + ".B"].assign(pair.b.begin(), pair.b.end());
      }
  }

  static Row multiply(const std::vector<double>& w, const Row& x) {
    Row y(w.size() / x.size());
    for (size_t n = 0; n < y.size(); n++)
      for (size_t k = 0; k < x.size(); k++) y[n] += w[n * x.size() + k] * x[k];
    return y;
  }

  Row project(int64_t layer, int target, const Row& x) const {
    const std::string l = std::to_string(layer), group = target <= O ? ".self_attn." : ".mlp.";
    const std::string name = "model.layers." + l + group + target_name(target);
    Row y = multiply(p.at(name + ".weight"), x);
    if (const auto bias = p.find(name + ".bias"); bias != p.end())
      for (size_t n = 0; n < y.size(); n++) y[n] += bias->second[n];
    const std::string lora = "layers." + l + "." + target_name(target);
    if (const auto a = p.find(lora + ".A"); a != p.end()) {
      const Row delta = multiply(p.at(lora + ".B"), multiply(a->second, x));
      for (size_t n = 0; n < y.size(); n++) y[n] += lora_scale * delta[n];
    }
    return y;
  }

  void norm(double* x, size_t n, const std::vector<double>& w) const {
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += x[i] * x[i];
    const double r = 1 / std::sqrt(squares / (double)n + (double)config.norm_eps);
    for (size_t i = 0; i < n; i++) x[i] *= r * w[i];
  }

  void heads(Row& x, int64_t count, int64_t position, const std::string& norm_name) const {
    const size_t E = (size_t)config.head_dim;
    const std::vector<double> frequency = rope_frequencies(config);
    for (int64_t h = 0; h < count; h++) {
      double* e = x.data() + (size_t)h * E;
      if (const auto w = p.find(norm_name); w != p.end()) norm(e, E, w->second);
      for (size_t i = 0; i < E / 2; i++) {
        const double angle = (double)position * frequency[i], c = std::cos(angle), s = std::sin(angle);
        const double a = e[i], b = e[i + E / 2];
        e[i] = a * c - b * s;
        e[i + E / 2] = b * c + a * s;
      }
    }
  }

  Row attend(const Row& q, const Rows& k, const Rows& v) const {
    const size_t E = (size_t)config.head_dim, per = (size_t)(config.heads / config.kv_heads);
    const double scale = rope_attention_scale(config);
    Row out(q.size());
    for (size_t h = 0; h < (size_t)config.heads; h++) {
      const size_t g = h / per * E;
      Row weight;
      double total = 0;
      for (const Row& key : k) {
        double s = 0;
        for (size_t e = 0; e < E; e++) s += q[h * E + e] * key[g + e];
        weight.push_back(std::exp(s * scale));
        total += weight.back();
      }
      for (size_t t = 0; t < v.size(); t++)
        for (size_t e = 0; e < E; e++) out[h * E + e] += weight[t] / total * v[t][g + e];
    }
    return out;
  }

  void layer(int64_t l, Rows& x) const {
    const std::string prefix = "model.layers." + std::to_string(l) + ".";
    Rows k, v;
    for (size_t t = 0; t < x.size(); t++) {
      Row n = x[t];
      norm(n.data(), n.size(), p.at(prefix + "input_layernorm.weight"));
      Row q = project(l, Q, n);
      k.push_back(project(l, K, n));
      v.push_back(project(l, V, n));
      heads(q, config.heads, (int64_t)t, prefix + "self_attn.q_norm.weight");
      heads(k.back(), config.kv_heads, (int64_t)t, prefix + "self_attn.k_norm.weight");
      const Row o = project(l, O, attend(q, k, v));
      for (size_t d = 0; d < o.size(); d++) x[t][d] += o[d];
    }
    for (Row& row : x) {
      Row n = row;
      norm(n.data(), n.size(), p.at(prefix + "post_attention_layernorm.weight"));
      Row h = project(l, Gate, n);
      const Row up = project(l, Up, n);
      for (size_t f = 0; f < h.size(); f++) h[f] = h[f] / (1 + std::exp(-h[f])) * up[f];
      const Row down = project(l, Down, h);
      for (size_t d = 0; d < row.size(); d++) row[d] += down[d];
    }
  }

  // Log-probs [T][V] after each token.
  Rows logprobs(const std::vector<int32_t>& ids) const {
    const size_t D = (size_t)config.hidden;
    const std::vector<double>& embed = p.at("model.embed_tokens.weight");
    Rows x;
    for (int32_t id : ids)
      x.emplace_back(embed.begin() + (long)(id * D), embed.begin() + (long)((id + 1) * D));
    for (int64_t l = 0; l < config.layers; l++) layer(l, x);
    for (Row& row : x) {
      norm(row.data(), D, p.at("model.norm.weight"));
      row = multiply(config.tied_head ? embed : p.at("lm_head.weight"), row);
      double total = 0;
      for (double z : row) total += std::exp(z);
      for (double& z : row) z -= std::log(total);
    }
    return x;
  }
};

// --- keys and values for forward()
// ------------------------------------------------------------------------------

// Blocks for one sequence of at most `tokens`.
class TestKv {
 public:
  TestKv(const ModelConfig& c, int64_t tokens, int64_t block) : block_(block) {
    const size_t blocks = (size_t)((tokens + block - 1) / block),
                 floats = (size_t)(c.kv_heads * block * c.head_dim);
    memory_.resize((size_t)(2 * c.layers) * blocks, std::vector<float>(floats));
    pointers_.resize((size_t)(2 * c.layers));
    for (size_t i = 0; i < memory_.size(); i++) pointers_[i / blocks].push_back(memory_[i].data());
    for (const auto& p : pointers_) arrays_.push_back(p.data());
  }
  Chunk chunk(const int32_t* ids, int64_t start, int64_t count, int64_t want_from) const {
    Chunk c;
    c.ids = ids + start;
    c.start = start;
    c.count = count;
    c.blocks = arrays_.data();
    c.block = block_;
    c.want_from = want_from;
    return c;
  }

 private:
  int64_t block_;
  std::vector<std::vector<float>> memory_;
  std::vector<std::vector<float*>> pointers_;
  std::vector<float* const*> arrays_;
};

// Final hidden states [n, D] of a whole sequence in one chunk.
inline std::vector<float> whole_forward(const Snapshot& s, const std::vector<int32_t>& ids, Lane& lane) {
  const ModelConfig& c = s.weights->config;
  const int64_t n = (int64_t)ids.size();
  TestKv kv(c, n, 16);
  std::vector<float> hidden((size_t)(n * c.hidden));
  const Chunk chunk = kv.chunk(ids.data(), 0, n, 0);
  Workspace ws;
  forward(s, &chunk, 1, hidden.data(), ws, lane);
  return hidden;
}

// Log-probs [n, V] of a whole sequence, from head_logits.
inline Rows whole_logprobs(const Snapshot& s, const std::vector<int32_t>& ids, Lane& lane) {
  const size_t n = ids.size(), V = (size_t)s.weights->config.vocab;
  const std::vector<float> hidden = whole_forward(s, ids, lane);
  std::vector<float> logits(n * V);
  head_logits(*s.weights, hidden.data(), (int64_t)n, logits.data(), lane);
  Rows out;
  for (size_t t = 0; t < n; t++) {
    out.emplace_back(logits.begin() + (long)(t * V), logits.begin() + (long)((t + 1) * V));
    double total = 0;
    for (double z : out.back()) total += std::exp(z);
    for (double& z : out.back()) z -= std::log(total);
  }
  return out;
}

inline double worst_difference(const Rows& a, const Rows& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (size_t t = 0; t < a.size() && t < b.size(); t++)
    for (size_t j = 0; j < a[t].size(); j++) worst = std::fmax(worst, std::fabs(a[t][j] - b[t][j]));
  return worst;
}

}  // namespace testing
}  // namespace openclaw
