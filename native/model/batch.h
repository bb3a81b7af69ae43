// Sequences to learn from, and what of them does not change while learning: the output of the frozen lower
// layers, and the base model's final hidden states where an anchor asked for them. Several epochs start from
// there.
#pragma once
#include <vector>

#include "native/model/packed_rows.h"
#include "native/model/train.h"

namespace openclaw {

class Batch {
 public:
  struct Sequence {
    std::vector<int32_t> ids;
    int64_t row = 0;  // of its first row in the arrays below
    bool has_base = false;
    int64_t rows() const { return (int64_t)ids.size() - 1; }
  };

  // Copies ids. Throws E_ARGUMENT, E_TOKEN_ID, E_CONTEXT naming the sequence.
  Batch(const TrainSequence* sequences, int64_t n, const Weights& base, int64_t first_layer);

  int64_t size() const { return (int64_t)sequences.size(); }
  int64_t rows() const { return sequences.empty() ? 0 : sequences.back().row + sequences.back().rows(); }

  const Weights* base;  // for which weights the arrays hold
  int64_t first_layer;
  std::vector<Sequence> sequences;
  std::vector<float>
      lower;  // [rows, D] input of first_layer; empty when that is 0: the embedding is as cheap
  std::vector<float> base_hidden;  // [rows, D] final-normed; empty until wanted
};

// Sequences that are computed together.
struct Pack {
  std::vector<int64_t> sequences;
  PackedRows rows;
};
// In order, each pack at most `limit` rows unless one sequence is longer.
std::vector<Pack> make_packs(const Batch& batch, const std::vector<int64_t>& sequences, int64_t limit);

}  // namespace openclaw
