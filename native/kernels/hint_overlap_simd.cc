// Which of a few ids occur in a row: every id of ours against vectors of theirs. For up to a few dozen ids
// this beats sorting and tables by a wide margin, and needs no memory.
#include "native/kernels/rl_simd.h"
#include "native/kernels/simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {
namespace {

typedef int32_t vi_u __attribute__((vector_size(4 * OC_VL), aligned(4), may_alias));

vi load_ids(const int32_t* p) { return *(const vi_u*)p; }

// The last vector overlaps the one before it: a match seen twice is still one match.
int64_t count_in_long_row(const int32_t* mine, int64_t n, const int32_t* row, int64_t k) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) {
    const vi wanted = mine[i] - (vi){};
    vi found = load_ids(row + k - OC_VL) == wanted;
    for (int64_t j = 0; j + OC_VL < k; j += OC_VL) found |= load_ids(row + j) == wanted;
    count += vbits(found) != 0;
  }
  return count;
}

}  // namespace

int64_t count_matches(const int32_t* mine, int64_t n, const int32_t* row, int64_t k) {
  if (k >= OC_VL) return count_in_long_row(mine, n, row, k);
  int32_t padded[OC_VL];
  for (int i = 0; i < OC_VL; i++) padded[i] = i < k ? row[i] : -1;  // matches no id >= 0
  return count_in_long_row(mine, n, padded, OC_VL);
}

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
