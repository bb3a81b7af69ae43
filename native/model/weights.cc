#include "native/model/weights.h"

#include <cmath>

#include "native/base/error.h"
#include "native/model/random.h"
#include "native/model/rope.h"
#include "native/model/weights_storage.h"

namespace openclaw {
namespace {

// Rows and columns of the seven matrices of a layer.
struct Sizes {
  int64_t rows, cols;
};
Sizes target_sizes(const ModelConfig& c, int target) {
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  switch (target) {
    case Q:
      return {q, c.hidden};
    case K:
    case V:
      return {kv, c.hidden};
    case O:
      return {c.hidden, q};
    case Down:
      return {c.hidden, c.ffn};
    default:
      return {c.ffn, c.hidden};
  }
}

class SlotList {
 public:
  void matrix(const std::string& name, int64_t rows, int64_t cols, Matrix& at, bool residual = false) {
    slots.push_back({name, {rows, cols}, &at, nullptr, residual});
  }
  void vector(const std::string& name, int64_t n, const float*& at) {
    slots.push_back({name, {n}, nullptr, &at, false});
  }
  void layer(const ModelConfig& c, const std::string& prefix, LayerWeights& l) {
    vector(prefix + "input_layernorm.weight", c.hidden, l.attn_norm);
    for (int t = 0; t < kTargets; t++) {
      const Sizes sizes = target_sizes(c, t);
      const std::string group = t <= O ? "self_attn." : "mlp.";
      matrix(prefix + group + target_name(t) + ".weight", sizes.rows, sizes.cols, l.w[(size_t)t],
             t == O || t == Down);
    }
    if (c.qkv_bias) {
      vector(prefix + "self_attn.q_proj.bias", c.heads * c.head_dim, l.q_bias);
      vector(prefix + "self_attn.k_proj.bias", c.kv_heads * c.head_dim, l.k_bias);
      vector(prefix + "self_attn.v_proj.bias", c.kv_heads * c.head_dim, l.v_bias);
    }
    if (c.qk_norm) {
      vector(prefix + "self_attn.q_norm.weight", c.head_dim, l.q_norm);
      vector(prefix + "self_attn.k_norm.weight", c.head_dim, l.k_norm);
    }
    vector(prefix + "post_attention_layernorm.weight", c.hidden, l.ffn_norm);
  }

  std::vector<Slot> slots;
};

void convert(const void* from, DType from_type, void* to, DType to_type, int64_t n) {
  if (from_type == to_type) {
    memcpy(to, from, (size_t)n * (size_t)dtype_bytes(to_type));
  } else if (to_type == DType::F32) {
    for (int64_t i = 0; i < n; i++) ((float*)to)[i] = bf16_to_f32(((const uint16_t*)from)[i]);
  } else {
    for (int64_t i = 0; i < n; i++) ((uint16_t*)to)[i] = f32_to_bf16(((const float*)from)[i]);
  }
}

bool is_bias(const Slot& slot) { return slot.name.ends_with(".bias"); }

// Matrices normal(0, std), those that write to the residual stream smaller by sqrt(2 layers) so that its
// variance does not grow with depth (GPT-2's rule); norms 1, biases 0.
void fill_random(const Slot& slot, float* to, const RandomStream& random, double std, int64_t layers) {
  if (slot.residual) std /= std::sqrt(2.0 * (double)layers);
  for (int64_t i = 0; i < slot.values(); i++)
    to[i] = slot.matrix ? (float)(std * random.normal((uint64_t)i)) : is_bias(slot) ? 0.f : 1.f;
}

}  // namespace

void* Weights::Storage::allocate(uint64_t bytes) {
  void* p = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
  OC_CHECK(p, Code::E_MEMORY, "weights: %llu bytes could not be had", (unsigned long long)bytes);
  buffers.emplace_back(p);
  return p;
}

void Slot::set(const void* data, DType dtype) const {
  if (matrix)
    *matrix = Matrix{data, dtype, shape[0], shape[1]};
  else
    *vector = (const float*)data;
}

std::vector<Slot> parameter_slots(Weights& w) {
  const ModelConfig& c = w.config;
  w.layers.resize((size_t)c.layers);
  SlotList list;
  list.matrix("model.embed_tokens.weight", c.vocab, c.hidden, w.embed);
  for (int64_t l = 0; l < c.layers; l++)
    list.layer(c, "model.layers." + std::to_string(l) + ".", w.layers[(size_t)l]);
  list.vector("model.norm.weight", c.hidden, w.final_norm);
  if (!c.tied_head) list.matrix("lm_head.weight", c.vocab, c.hidden, w.head);
  return std::move(list.slots);
}

void tie_head(Weights& w) {
  if (w.config.tied_head) w.head = w.embed;
}

Weights::Weights() : storage_(new Storage) {}
Weights::~Weights() = default;

std::shared_ptr<Weights> Weights::random(const ModelConfig& config, uint64_t seed, float std) {
  config.validate();
  auto out = std::make_shared<Weights>();
  out->config = config;
  uint64_t stream = 0;
  for (const Slot& slot : parameter_slots(*out)) {
    const uint64_t bytes = (uint64_t)slot.values() * sizeof(float);
    float* data = (float*)out->storage_->allocate(bytes);
    fill_random(slot, data, RandomStream(seed, stream++), std, config.layers);
    slot.set(data, DType::F32);
    out->resident_bytes += bytes;
  }
  out->finish();
  return out;
}

std::shared_ptr<Weights> Weights::copy(DType dtype) const {
  OC_CHECK(dtype != DType::F16, Code::E_UNSUPPORTED,
           "weights: dtype f16 is not computed with; use f32 or bf16");
  auto out = std::make_shared<Weights>();
  out->config = config;
  const std::vector<Named> from = named();
  size_t i = 0;
  for (const Slot& slot : parameter_slots(*out)) {
    const DType to = slot.matrix ? dtype : DType::F32;
    const uint64_t bytes = (uint64_t)slot.values() * (uint64_t)dtype_bytes(to);
    void* data = out->storage_->allocate(bytes);
    convert(from[i].data, from[i].dtype, data, to, slot.values());
    slot.set(data, to);
    out->resident_bytes += bytes;
    i++;
  }
  out->finish();
  return out;
}

std::vector<Weights::Named> Weights::named() const {
  std::vector<Named> out;
  // The slots are only read here; that they could also be set is why they want a Weights that is not const.
  for (const Slot& slot : parameter_slots(const_cast<Weights&>(*this)))
    out.push_back({slot.name, slot.data(), slot.dtype(), slot.shape});
  return out;
}

void Weights::finish() {
  tie_head(*this);
  cos_sin = rope_table(config, config.context);
  attention_scale = (float)rope_attention_scale(config);
  resident_bytes += cos_sin.size() * sizeof(float);
}

}  // namespace openclaw
