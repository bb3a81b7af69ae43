// How much each hint's teacher looks where the student looks, and which hint that chooses.
//
//   O[h, t] = | S^q_t ∩ S^p_{h,t} |,  0..k (method.md §2) sequence level: h* = argmax_h Σ_t O[h, t] token
//   level: h*(t) = argmax_h O[h, t]
// Ties go to the lower index. Masked positions count nowhere: O = 0 and token choice -1 there. An id < 0 is
// padding and matches nothing. An id that occurs twice in a row is one element of the set. Integers
// throughout: exact, any order of summation.
//
// Shapes: student [T, k]; teachers [M, T, k]; overlap [M, T]; totals [M]; token_choice [T].
// Properties tested: against sets; permuting the k ids of any row changes nothing; O <= k; equal sets give
// the number of distinct ids; permuting the hints permutes O and totals.
#pragma once
#include <cstdint>

#include "native/base/lanes.h"

namespace openclaw {

struct OverlapRequest {
  int64_t T = 0, M = 0, k = 0;
  const int32_t* student = nullptr;   // [T, k]
  const int32_t* teachers = nullptr;  // [M, T, k]
  const uint8_t* mask = nullptr;      // [T]; 0 = counts nowhere; null = all count
};
struct OverlapOut {
  int32_t* overlap = nullptr;       // [M, T]; needed
  int64_t* totals = nullptr;        // [M]; null = not wanted
  int32_t* token_choice = nullptr;  // [T]; null = not wanted
};
// Returns h*. Throws E_ARGUMENT for T, M or k below 1. Parallel over positions.
int32_t hint_overlap(const OverlapRequest& in, const OverlapOut& out, Lane& lane);

namespace reference {
int32_t hint_overlap(const OverlapRequest& in, const OverlapOut& out);
}  // namespace reference

}  // namespace openclaw
