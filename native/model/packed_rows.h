// Several sequences laid end to end as the rows of one training pass. The last token of a sequence is only
// ever predicted, so a sequence of n tokens has n - 1 rows.
#pragma once
#include <cstdint>
#include <vector>

namespace openclaw {

struct PackedRows {
  struct Span {
    int64_t start = 0, count = 0;  // rows of one sequence
  };
  std::vector<Span> sequences;
  std::vector<int32_t> positions;  // [M] within the own sequence

  int64_t rows() const { return (int64_t)positions.size(); }
  void append(int64_t count) {
    sequences.push_back({rows(), count});
    for (int64_t t = 0; t < count; t++) positions.push_back((int32_t)t);
  }
};

}  // namespace openclaw
