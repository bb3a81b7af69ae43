#include "native/model/pack_loss.h"

#include <algorithm>
#include <cmath>

#include "native/base/error.h"

namespace openclaw {

int64_t unmasked_positions(const SequenceLoss& loss, int64_t R) {
  if (!loss.mask) return R;
  return std::count_if(loss.mask, loss.mask + R, [](float m) { return m != 0; });
}

void check_loss(const SequenceLoss& l, int64_t index, int64_t tokens) {
  const long long i = (long long)index;
  OC_CHECK(l.from >= 1 && l.from < tokens, Code::E_ARGUMENT, "losses[%lld].from: expected 1..%lld, got %lld",
           i, (long long)tokens - 1, (long long)l.from);
  OC_CHECK(!l.advantage == !l.old_logprob, Code::E_ARGUMENT,
           "losses[%lld]: advantage and oldLogprob: expected both or neither", i);
  OC_CHECK(!l.top_ids == !l.top_old && !l.top_ids == !l.top_teacher, Code::E_ARGUMENT,
           "losses[%lld]: topIds, topOld and topTeacher: expected all or none", i);
  OC_CHECK(!l.top_ids || l.k >= 1, Code::E_ARGUMENT, "losses[%lld].k: expected >= 1, got %lld", i,
           (long long)l.k);
  for (float w : {l.weight, l.w_rl, l.w_opd, l.beta, l.w_anchor})
    OC_CHECK(std::isfinite(w), Code::E_NOT_FINITE, "losses[%lld]: a weight is not a finite number", i);
}

PackLoss pack_loss(const Batch& batch, const Pack& pack, const SequenceLoss* const* losses,
                   std::vector<std::vector<float>>* cur_logprobs) {
  PackLoss out;
  for (size_t n = 0; n < pack.sequences.size(); n++) {
    const int64_t i = pack.sequences[n];
    const SequenceLoss& loss = *losses[i];
    const std::vector<int32_t>& ids = batch.sequences[(size_t)i].ids;
    const int64_t R = (int64_t)ids.size() - loss.from;
    LossSequence s{&loss, ids.data() + loss.from, unmasked_positions(loss, R), nullptr};
    if (cur_logprobs) s.cur_logprobs = (*cur_logprobs)[(size_t)i].data();
    for (int64_t p = 0; p < R; p++) {
      if (!s.counts(p) && !cur_logprobs) continue;
      out.positions.push_back({(int32_t)n, (int32_t)p});
      out.rows.push_back(pack.rows.sequences[n].start + loss.from - 1 + p);
    }
    out.learns = out.learns || s.learns();
    out.anchored = out.anchored || (loss.w_anchor != 0 && s.unmasked > 0);
    out.sequences.push_back(s);
  }
  return out;
}

}  // namespace openclaw
