// From final hidden states to losses and back: the head, the statistics of its logits, the terms of the
// objective and their gradient, for at most kRows positions at a time. [T, V] never exists (pains of open
// systems: out of memory at 14k tokens), and a logit is read three times in all.
//
// Per position: logits z = h W^T; log-probs of the token and of the top ids (logit_stats.h); loss and its
// gradient by those log-probs (hybrid_loss.h); gradient by all logits, in place (logit_grad.h); dh = dz W, dW
// += dz^T h.
//
// Anchor, KL(p_base || p_cur) = sum_j p_base,j (log p_base,j - log p_cur,j): by the logits z it is p_cur -
// p_base. Both come from logit_grad: a gradient g on the log-prob of one id y gives g [j = y] - g p_j, so -s
// on the current row and +s on the base row add up to s (p_cur - p_base), whatever y is.
#pragma once
#include <vector>

#include "native/model/forward.h"
#include "native/model/train.h"

namespace openclaw {

// A term's scales are its weight over the unmasked positions of the sequence: inside a sequence terms are
// means.
struct LossSequence {
  const SequenceLoss* loss = nullptr;
  const int32_t* targets = nullptr;  // [R] ids[from..]
  int64_t unmasked = 0;
  float* cur_logprobs = nullptr;  // [R] out; null: not wanted

  bool counts(int64_t i) const { return !loss->mask || loss->mask[i] != 0; }
  // Some term has a weight: there is something to learn from.
  bool learns() const;
};

// Row n of the hidden states predicts targets[index] of a sequence.
struct LossPosition {
  int32_t sequence = 0, index = 0;
};

struct LossHeadInput {
  const Matrix* head = nullptr;
  const float* hidden = nullptr;       // [N, D] under the current parameters
  const Matrix* base_head = nullptr;   // null with base_hidden: no sequence has an anchor
  const float* base_hidden = nullptr;  // [N, D] under the base weights
  const std::vector<LossSequence>* sequences = nullptr;
  const std::vector<LossPosition>* positions = nullptr;  // [N]
};
struct LossHeadOut {
  float* d_hidden = nullptr;  // [N, D] written; null: losses only
  float* d_head = nullptr;    // [V, D] added to; null: the head is not trained
};

// Sums whose means are taken once all passes of a call are done.
struct LossSums {
  LossReport report;
  double ratio = 0, entropy = 0;
  int64_t ratios = 0;
  LossReport finish() const;
};

class LossHead {
 public:
  static constexpr int64_t kRows = 64;

  explicit LossHead(Lane& lane) : lane_(lane) {}
  // Order of sums: positions as given, so the same bits for any number of threads.
  void run(const LossHeadInput& in, const LossHeadOut& out, LossSums& sums);

 private:
  struct Chunk;
  void logits(const LossHeadInput& in, Chunk& c);
  void statistics(const LossHeadInput& in, Chunk& c);
  void terms(const LossHeadInput& in, Chunk& c, LossSums& sums);
  void anchor(const LossHeadInput& in, Chunk& c, LossSums& sums);
  void gradient(const LossHeadInput& in, const LossHeadOut& out, Chunk& c);

  Lane& lane_;
  Workspace ws_;
};

}  // namespace openclaw
