// The hybrid objective on log-probs: loss and gradient of a block of positions of one turn.
//
//   L_i = w_RL L_i^GRPO + w_OPD L_i^OPD + beta k3_i (method.md §5)
// with L^GRPO from ppo_loss.h, L^OPD from opd_loss.h, k3 = exp(d) - 1 - d, d = log π_ref - log π_cur. A term
// whose inputs are absent (null) does not exist for the block: it adds no loss, no gradient, no count. A
// masked position counts nowhere.
//
// hybrid_rows() takes the scale of each term ready made: w / (unmasked positions of the turn) / (turns that
// have the term) for the default aggregation. hybrid_loss() does a whole batch, normalisers included.
//
// Gradients are with respect to the log-probs under the current parameters: g_y = ∂L/∂l_cur(y), g_v =
// ∂L/∂l_cur(v) for the k ids. logit_grad.h takes both to the logits (y as one more id; an id that occurs
// twice adds up).
#pragma once
#include <cstdint>

#include "native/kernels/opd_loss.h"
#include "native/kernels/ppo_loss.h"

namespace openclaw {

// Positions of one turn (or a piece of one). R rows, k wide. Pointers of a term that is absent are null.
struct HybridRows {
  int64_t rows = 0, k = 0;
  const float* mask = nullptr;   // [R] 0 = counts nowhere; null = all count
  const float* l_cur = nullptr;  // [R] log π_cur(y_i); needed by GRPO and k3
  // GRPO: both or neither
  const float *l_old = nullptr, *advantage = nullptr;  // [R]
  // OPD: all four or none. An id < 0 is padding: it is in no sum.
  const int32_t* ids = nullptr;                                                // [R, k]
  const float *top_cur = nullptr, *top_old = nullptr, *top_teacher = nullptr;  // [R, k]
  // k3
  const float* l_ref = nullptr;                      // [R] log π_ref(y_i)
  double scale_rl = 1, scale_opd = 1, scale_k3 = 1;  // multiply loss and gradient of the term
};

struct HybridParams {
  Clip clip;             // of both ratios
  float delta_clip = 1;  // C: Δ_v is clipped to [-C, C]
};

// Outputs; null = not wanted. Written, not accumulated: a masked row and an absent term give 0.
struct HybridRowsOut {
  float* loss = nullptr;  // [R] scaled sum of the terms
  float* g_y = nullptr;   // [R]
  float* g_v = nullptr;   // [R, k]
};

// Sums over the unmasked rows, in row order, in double.
struct HybridSums {
  double rl = 0, opd = 0, k3 = 0;  // scaled
  int64_t tokens = 0;              // unmasked rows
  ClipCounts rl_clip, opd_clip;
  int64_t delta_clipped = 0, top_entries = 0;  // entries with an id; of them, those whose Δ was clipped
  double ratio_sum = 0;                        // Σ ρ_i of the GRPO term
  int64_t ratio_count = 0;
  void add(const HybridSums& other);
};

// Throws E_ARGUMENT when a term is given in part.
HybridSums hybrid_rows(const HybridRows& in, const HybridParams& params, const HybridRowsOut& out);

// --- a whole batch
// -------------------------------------------------------------------------------------------------------
enum class Aggregate : int {
  TurnMean = 0,   // mean over a turn's unmasked tokens, then over the turns that have the term
  TokenMean = 1,  // sum over tokens / unmasked tokens of the turns that have the term
  Fixed = 2,      // sum over tokens / divisor
};

// T positions in N turns: turn n has positions offsets[n]..offsets[n+1]-1. Presence of a term is per turn.
struct HybridBatch {
  int64_t turns = 0, k = 0;
  const int32_t* offsets = nullptr;  // [N+1], 0 first, T last, ascending
  const uint8_t* has_reward =
      nullptr;                        // [N] the turn has a GRPO term; null: every turn, if advantage is given
  const uint8_t* has_hint = nullptr;  // [N] likewise OPD
  HybridRows positions;               // arrays over all T positions; its scales are not used
  double w_rl = 1, w_opd = 1, beta = 0;
  Aggregate aggregate = Aggregate::TurnMean;
  double divisor = 1;  // of Aggregate::Fixed
};
struct HybridReport {
  HybridSums sums;
  int64_t turns_with_reward = 0, turns_with_hint = 0, turns_with_tokens = 0;
  double loss() const { return sums.rl + sums.opd + sums.k3; }
};
// A term's normaliser counts only turns that have the term and at least one unmasked position.
HybridReport hybrid_loss(const HybridBatch& in, const HybridParams& params, const HybridRowsOut& out);

}  // namespace openclaw
