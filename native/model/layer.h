// What serving and training share of a decoder layer: projections with an optional adapter, and the q/k steps
// between projection and attention.
#pragma once
#include "native/model/weights.h"

namespace openclaw {

// The adapter of one layer; pairs == nullptr: none.
struct LayerLora {
  const std::array<LoraPair, kTargets>* pairs = nullptr;
  float scale = 0;
  const LoraPair* pair(int target) const {
    return pairs && !(*pairs)[(size_t)target].empty() ? &(*pairs)[(size_t)target] : nullptr;
  }
};
LayerLora layer_lora(const Adapter* adapter, int64_t layer);

inline Matrix matrix_a(const LoraPair& p, int64_t rank) { return {p.a.data(), DType::F32, rank, p.in}; }
inline Matrix matrix_b(const LoraPair& p, int64_t rank) { return {p.b.data(), DType::F32, p.out, rank}; }
inline int64_t pair_rank(const LoraPair& p) { return (int64_t)p.a.size() / p.in; }

// y [M, out] (+)= x [M, in] W^T + (scale x A^T) B^T, rows without gaps. xa [M, rank] is left holding scale x
// A^T (used only where the target has a pair; may be null where it has none).
void project(const LayerWeights& w, const LayerLora& lora, int target, const float* x, int64_t M, float* y,
             bool accumulate, float* xa, Lane& lane);

// Projections of q, k and v with their biases. xa: scratch or kept low-rank products of the three, [M, rank]
// each.
void project_qkv(const LayerWeights& w, const LayerLora& lora, const float* x, int64_t M, float* q, float* k,
                 float* v, float* const* xa, Lane& lane);

}  // namespace openclaw
