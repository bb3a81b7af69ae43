// Checks of a decoder's sizes. Everything later (table sizes, offsets, loops) trusts them, so the bounds here
// also keep every product of two of them far from overflow.
#include "native/model/config.h"

#include <cmath>

#include "native/base/error.h"

namespace openclaw {
namespace {

void in_range(const char* field, int64_t value, int64_t low, int64_t high) {
  OC_CHECK(value >= low && value <= high, Code::E_ARGUMENT, "config.%s: expected %lld..%lld, got %lld", field,
           (long long)low, (long long)high, (long long)value);
}

void in_range(const char* field, double value, double low, double high) {
  OC_CHECK(value >= low && value <= high, Code::E_ARGUMENT, "config.%s: expected %g..%g, got %g", field, low,
           high, value);
}

void validate_rope(const RopeScaling& rope) {
  if (rope.kind == RopeScaling::None) return;
  in_range("rope.factor", rope.factor, 1.0, 1e6);
  if (rope.kind == RopeScaling::Linear) return;
  in_range("rope.original_context", rope.original_context, 1.0, 1e9);
  if (rope.kind == RopeScaling::Llama3) {
    in_range("rope.low_freq_factor", rope.low_freq_factor, 1e-6, 1e6);
    in_range("rope.high_freq_factor", rope.high_freq_factor, 1e-6, 1e6);
    OC_CHECK(rope.high_freq_factor > rope.low_freq_factor, Code::E_ARGUMENT,
             "config.rope.high_freq_factor: expected more than low_freq_factor (%g), got %g",
             rope.low_freq_factor, rope.high_freq_factor);
  } else {
    in_range("rope.attention_factor", rope.attention_factor, 0.0, 1e3);
    in_range("rope.beta_slow", rope.beta_slow, 1e-6, 1e6);
    in_range("rope.beta_fast", rope.beta_fast, rope.beta_slow, 1e6);
  }
}

// What the architecture's name promises must be what the flags say: a Qwen3 read without its q/k norm would
// compute something, and it would be wrong.
void validate_arch(const ModelConfig& c) {
  OC_CHECK(c.qk_norm == (c.arch == Arch::Qwen3), Code::E_ARGUMENT,
           "config.qk_norm: expected %s for this architecture, got %s",
           c.arch == Arch::Qwen3 ? "true" : "false", c.qk_norm ? "true" : "false");
  OC_CHECK(c.qkv_bias || c.arch != Arch::Qwen2, Code::E_ARGUMENT,
           "config.qkv_bias: expected true for Qwen2, got false");
}

}  // namespace

void ModelConfig::validate() const {
  in_range("vocab", vocab, (int64_t)1, (int64_t)1 << 24);
  in_range("sampleable", sampleable, (int64_t)1, vocab);
  in_range("hidden", hidden, (int64_t)1, (int64_t)1 << 17);
  in_range("layers", layers, (int64_t)1, (int64_t)1024);
  in_range("heads", heads, (int64_t)1, (int64_t)4096);
  in_range("kv_heads", kv_heads, (int64_t)1, heads);
  OC_CHECK(heads % kv_heads == 0, Code::E_ARGUMENT,
           "config.heads: expected a multiple of kv_heads (%lld), got %lld", (long long)kv_heads,
           (long long)heads);
  in_range("head_dim", head_dim, (int64_t)2, (int64_t)1024);
  OC_CHECK(head_dim % 2 == 0, Code::E_ARGUMENT, "config.head_dim: expected an even number, got %lld",
           (long long)head_dim);
  in_range("ffn", ffn, (int64_t)1, (int64_t)1 << 20);
  in_range("norm_eps", (double)norm_eps, 0.0, 1.0);
  in_range("rope_theta", rope_theta, 1.0, 1e12);
  in_range("context", context, (int64_t)1, (int64_t)1 << 22);
  validate_rope(rope);
  validate_arch(*this);
}

}  // namespace openclaw
