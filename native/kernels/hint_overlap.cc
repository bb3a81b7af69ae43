#include "native/kernels/hint_overlap.h"

#include <algorithm>
#include <set>

#include "native/base/error.h"
#include "native/kernels/rl_simd.h"
#include "native/kernels/scratch.h"

namespace openclaw {
namespace {

// Positions of one piece of work: enough to be worth a thread's waking.
constexpr int64_t kPositions = 64;

void check(const OverlapRequest& in) {
  OC_CHECK(in.T >= 1 && in.M >= 1 && in.k >= 1, Code::E_ARGUMENT,
           "T, M, k: expected at least 1 each, got %lld, %lld, %lld", (long long)in.T, (long long)in.M,
           (long long)in.k);
}

bool counts(const OverlapRequest& in, int64_t t) { return !in.mask || in.mask[t] != 0; }

// The distinct ids >= 0 of a row, in their order; returns how many.
int64_t distinct(const int32_t* row, int64_t k, int32_t* out) {
  int64_t n = 0;
  for (int64_t i = 0; i < k; i++)
    if (row[i] >= 0 && std::find(out, out + n, row[i]) == out + n) out[n++] = row[i];
  return n;
}

// What the overlaps choose; the same for every way of counting them.
int32_t choose(const OverlapRequest& in, const OverlapOut& out) {
  int32_t best = 0;
  int64_t most = -1;
  for (int64_t h = 0; h < in.M; h++) {
    int64_t total = 0;
    for (int64_t t = 0; t < in.T; t++) total += out.overlap[h * in.T + t];
    if (total > most) most = total, best = (int32_t)h;
    if (out.totals) out.totals[h] = total;
  }
  for (int64_t t = 0; out.token_choice && t < in.T; t++) {
    int32_t at = 0;
    for (int64_t h = 1; h < in.M; h++)
      if (out.overlap[h * in.T + t] > out.overlap[at * in.T + t]) at = (int32_t)h;
    out.token_choice[t] = counts(in, t) ? at : -1;
  }
  return best;
}

}  // namespace

int32_t hint_overlap(const OverlapRequest& in, const OverlapOut& out, Lane& lane) {
  check(in);
  const auto& matches = rl_table().count_matches;
  lane.parallel_for(in.T, kPositions, [&](int64_t begin, int64_t end, int) {
    static thread_local Scratch scratch;
    auto* mine = (int32_t*)scratch.floats(in.k);
    for (int64_t t = begin; t < end; t++) {
      const int64_t n = counts(in, t) ? distinct(in.student + t * in.k, in.k, mine) : 0;
      for (int64_t h = 0; h < in.M; h++)
        out.overlap[h * in.T + t] = (int32_t)matches(mine, n, in.teachers + (h * in.T + t) * in.k, in.k);
    }
  });
  return choose(in, out);
}

namespace reference {

int32_t hint_overlap(const OverlapRequest& in, const OverlapOut& out) {
  check(in);
  for (int64_t t = 0; t < in.T; t++) {
    const int32_t* row = in.student + t * in.k;
    std::set<int32_t> student(row, row + in.k);
    for (int64_t h = 0; h < in.M; h++) {
      const int32_t* other = in.teachers + (h * in.T + t) * in.k;
      const std::set<int32_t> teacher(other, other + in.k);
      int32_t both = 0;
      for (int32_t id : student) both += id >= 0 && teacher.count(id) != 0;
      out.overlap[h * in.T + t] = counts(in, t) ? both : 0;
    }
  }
  return choose(in, out);
}

}  // namespace reference

}  // namespace openclaw
