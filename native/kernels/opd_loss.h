// Top-k distillation loss from log-probs: the hinted teacher pulls the student where both look.
//
// For one position, over its entries v (the k ids S_i; entries with id < 0 are padding and in no sum):
//   w_v = softmax over S_i of l_old(v)      Δ_v = clip(l_T(v) - l_old(v), -C, +C)      A_v = Δ_v w_v     (all
//   constant) ρ_v = exp(clamp(l_cur(v) - l_old(v), -20, 20)) L_i = Σ_v max(-A_v ρ_v, -A_v clip(ρ_v, 1 - ε_lo,
//   1 + ε_hi))                                         (method.md §3, (1)) g_v = ∂L_i/∂l_cur(v): that of
//   ppo_term() with A = A_v
// The three log-probs are those of the full vocabulary; only w is normalised on S_i. Σ_v w_v = 1, so |L_i| <=
// C max ρ.
//
// Properties tested: finite differences; order of the k entries does not matter; teacher = student gives 0;
// padding does not matter; a common shift of l_old within the weights' softmax does not change w.
#pragma once
#include <cstdint>

#include "native/kernels/ppo_loss.h"

namespace openclaw {

struct OpdParams {
  Clip clip;
  float delta_clip = 1;  // C
};

struct OpdCounts {
  ClipCounts clip;
  int64_t entries = 0, delta_clipped = 0;  // |l_T - l_old| > C
  void add(const OpdCounts& o) { clip.add(o.clip), entries += o.entries, delta_clipped += o.delta_clipped; }
};

// One position: returns L_i times `scale`; g_v [k] (null = not wanted) gets the gradient times `scale`, 0 at
// padding.
double opd_row(const int32_t* ids, const float* l_cur, const float* l_old, const float* l_teacher, int64_t k,
               const OpdParams& params, double scale, float* g_v, OpdCounts& counts);

struct OpdBatch {
  int64_t rows = 0, k = 0;
  const int32_t* ids = nullptr;                                          // [T, k]; null = no padding
  const float *l_cur = nullptr, *l_old = nullptr, *l_teacher = nullptr;  // [T, k]
  const float* mask = nullptr;                                           // [T]
};
struct OpdOut {
  float* loss = nullptr;  // [T]
  float* grad = nullptr;  // [T, k], unscaled
};
struct OpdReport {
  double loss = 0;  // mean over unmasked positions; 0 without any
  int64_t tokens = 0;
  OpdCounts counts;
};
OpdReport opd_loss(const OpdBatch& in, const OpdParams& params, const OpdOut& out);

}  // namespace openclaw
