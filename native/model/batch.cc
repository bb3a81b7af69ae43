#include "native/model/batch.h"

#include "native/base/error.h"

namespace openclaw {
namespace {

void check(const TrainSequence& s, int64_t index, const ModelConfig& c) {
  OC_CHECK(s.ids && s.count >= 2, Code::E_ARGUMENT, "sequences[%lld]: expected at least 2 tokens, got %lld",
           (long long)index, (long long)s.count);
  OC_CHECK(s.count <= c.context, Code::E_CONTEXT, "sequences[%lld]: %lld tokens do not fit a context of %lld",
           (long long)index, (long long)s.count, (long long)c.context);
  for (int64_t t = 0; t < s.count; t++)
    OC_CHECK(s.ids[t] >= 0 && s.ids[t] < c.vocab, Code::E_TOKEN_ID,
             "sequences[%lld].ids[%lld]: expected 0..%lld, got %d", (long long)index, (long long)t,
             (long long)c.vocab - 1, s.ids[t]);
}

}  // namespace

Batch::Batch(const TrainSequence* from, int64_t n, const Weights& base, int64_t first_layer)
    : base(&base), first_layer(first_layer) {
  int64_t row = 0;
  for (int64_t i = 0; i < n; i++) {
    check(from[i], i, base.config);
    Sequence s;
    s.ids.assign(from[i].ids, from[i].ids + from[i].count);
    s.row = row;
    row += s.rows();
    sequences.push_back(std::move(s));
  }
}

std::vector<Pack> make_packs(const Batch& batch, const std::vector<int64_t>& sequences, int64_t limit) {
  std::vector<Pack> packs;
  for (int64_t i : sequences) {
    const int64_t rows = batch.sequences[(size_t)i].rows();
    if (packs.empty() || packs.back().rows.rows() + rows > limit) packs.emplace_back();
    packs.back().sequences.push_back(i);
    packs.back().rows.append(rows);
  }
  return packs;
}

}  // namespace openclaw
