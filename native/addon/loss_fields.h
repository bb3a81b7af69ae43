// The loss of one sequence as JavaScript gives it (lib/index.d.ts: NativeSequenceLoss), checked and copied.
#pragma once
#include <memory>
#include <vector>

#include "native/addon/fields.h"
#include "native/model/train.h"

namespace openclaw {

// A loss and the arrays it points to.
struct OwnedLoss {
  SequenceLoss loss;
  std::vector<float> mask, advantage, old_logprob, top_old, top_teacher, ref_logprob;
  std::vector<int32_t> top_ids;
};

// count: tokens of the sequence. A term is present when its first array is: then its other arrays and its
// weight must be, too. Throws E_ARGUMENT, E_DTYPE, E_SHAPE, E_NOT_FINITE, E_TOKEN_ID naming the field.
std::unique_ptr<OwnedLoss> read_loss(const Fields& fields, int64_t count, int64_t vocab);

}  // namespace openclaw
