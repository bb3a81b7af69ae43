// What a decoder is: read from config.json or GGUF metadata by ts/policy/files, checked again here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace openclaw {

enum class Arch { Llama, Qwen2, Qwen3 };  // Qwen2 = Llama + q/k/v bias; Qwen3 = Llama + q/k norm

struct RopeScaling {
  enum Kind { None, Linear, Llama3, Yarn } kind = None;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  double original_context = 0, attention_factor = 0, beta_fast = 32, beta_slow = 1;
};

struct ModelConfig {
  Arch arch = Arch::Llama;
  int64_t vocab = 0;       // rows of embedding and head
  int64_t sampleable = 0;  // ids >= this are padding rows of the head: never sampled (they stay in the
                           // softmax sum: see sampler)
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  float norm_eps = 1e-5f;
  double rope_theta = 10000;
  RopeScaling rope;
  bool tied_head = true, qkv_bias = false, qk_norm = false;
  int64_t context = 2048;
  // Throws E_ARGUMENT naming the field when a value is out of range or values do not fit together.
  void validate() const;
};

}  // namespace openclaw
