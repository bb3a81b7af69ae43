// The weights of a decoder: immutable once built. A Snapshot is what a request holds from its first token to
// its last.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "native/kernels/nn.h"
#include "native/model/config.h"

namespace openclaw {

// Where one tensor lies. Names are the Hugging Face ones ("model.layers.3.self_attn.q_proj.weight");
// ts/policy/files translates GGUF names. `unpermute_heads` > 0: rows of each of that many heads are stored
// for neighbouring rotary pairs (GGUF) and are put into halves while converting.
struct TensorSource {
  std::string name;
  Ggml type = Ggml::F32;       // storage type; safetensors F32/F16/BF16 use the same numbers
  std::vector<int64_t> shape;  // row-major, outermost first
  std::string file;
  uint64_t offset = 0, bytes = 0;
  int64_t unpermute_heads = 0;
};

enum Target { Q = 0, K, V, O, Gate, Up, Down, kTargets };  // the LoRA targets, in peft's usual order
inline const char* target_name(int t) {
  static const char* names[] = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  return names[t];
}

struct LayerWeights {
  std::array<Matrix, kTargets> w;                                       // indexed by Target
  const float *attn_norm = nullptr, *ffn_norm = nullptr;                // [D]
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr;  // Qwen2, else null
  const float *q_norm = nullptr, *k_norm = nullptr;                     // [E], Qwen3, else null
};

class Weights {
 public:
  Weights();
  ~Weights();
  ModelConfig config;
  Matrix embed, head;  // [V,D]; head == embed when tied
  std::vector<LayerWeights> layers;
  const float* final_norm = nullptr;
  std::vector<float> cos_sin;  // [context][E/2][2], grown tables are not: made once for the whole context
  float attention_scale =
      0;  // 1/sqrt(E), times the rope scaling's attention factor squared where there is one
  uint64_t resident_bytes = 0;  // memory this object holds: its own, and the mapped tensors' pages

  // Reads and converts every tensor, in parallel on `lane`; a matrix that lies as it is needed is mapped, not
  // copied. dtype is that of the matrices, F32 or BF16; norms and biases are f32 always. Every size is
  // checked against the file before anything is allocated. Throws E_ARGUMENT (config), E_FILE naming file and
  // tensor, E_UNSUPPORTED (a tensor this decoder has no place for: ignoring it could change what is
  // computed), E_MEMORY.
  static std::shared_ptr<Weights> load(const ModelConfig&, const std::vector<TensorSource>&, DType dtype,
                                       Lane& lane);
  // Random f32 weights for making models: normal(0, std), residual projections scaled by 1/sqrt(2 layers),
  // norms 1, biases 0.
  static std::shared_ptr<Weights> random(const ModelConfig&, uint64_t seed, float std);
  // Deep copy, converted to dtype (full-parameter training publishes copies of its f32 masters).
  std::shared_ptr<Weights> copy(DType dtype) const;

  // Every parameter by its Hugging Face name, for export and for full training: data is f32 or bf16 as
  // stored.
  struct Named {
    std::string name;
    const void* data;
    DType dtype;
    std::vector<int64_t> shape;
  };
  std::vector<Named> named() const;

  struct Storage;  // weights_storage.h

 private:
  void finish();  // what follows from the config once every parameter is in place
  std::unique_ptr<Storage> storage_;
};

// A LoRA pair: y += scale * B (A x).  A [rank, in], B [out, rank], f32.
struct LoraPair {
  int64_t in = 0, out = 0;
  std::vector<float> a, b;
  bool empty() const { return a.empty(); }
};
struct Adapter {
  int64_t rank = 0;
  float alpha = 0;
  float scale() const { return alpha / (float)rank; }
  std::vector<std::array<LoraPair, kTargets>>
      layers;  // [L]; pairs outside the chosen targets or layers are empty
};

struct Snapshot {
  std::shared_ptr<const Weights> weights;
  std::shared_ptr<const Adapter> adapter;  // null: the base model
  std::string version;                     // immutable, never reused
};

}  // namespace openclaw
