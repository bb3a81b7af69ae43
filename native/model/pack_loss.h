// The losses of one pack of sequences, as the loss head takes them: which rows predict something that counts.
#pragma once
#include "native/model/batch.h"
#include "native/model/loss_head.h"

namespace openclaw {

// R positions, `tokens` in the sequence. Throws E_ARGUMENT, E_NOT_FINITE naming the loss and the field.
void check_loss(const SequenceLoss& loss, int64_t index, int64_t tokens);
int64_t unmasked_positions(const SequenceLoss& loss, int64_t R);

struct PackLoss {
  std::vector<LossSequence> sequences;
  std::vector<LossPosition> positions;
  std::vector<int64_t> rows;  // of each position, in the pack, ascending
  bool learns = false;        // some gradient is not zero
  bool anchored = false;
};
// Masked positions are computed only where their log-probs are wanted. cur_logprobs: one array [R] per
// sequence of the batch, or null.
PackLoss pack_loss(const Batch& batch, const Pack& pack, const SequenceLoss* const* losses,
                   std::vector<std::vector<float>>* cur_logprobs);

}  // namespace openclaw
