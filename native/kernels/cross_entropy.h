// Cross-entropy of given ids, and its gradient with respect to the logits.
//
//   loss_t = lse(z_t) - z_t[y_t]      dz_tj = s (p_tj - [j = y_t])      p = softmax(z_t)
// s = scale / (counted rows) for the mean (the default), scale for the sum. A row whose id is < 0 (the usual
// ignore index -100 among them) or whose mask is 0 is not counted, not read, and has loss 0 and gradient 0.
// Two passes over a row when the gradient is wanted, the second one out of the cache; one otherwise. dz may
// be the logits themselves. A counted row that is no distribution (NaN, +inf, all -inf) or gives its id no
// probability: E_NOT_FINITE, with the row's number.
//
// Properties tested: against the reference; finite differences; gradient rows sum to 0; shift of a row;
// ignored rows do not matter; in place; instruction sets and threads.
#pragma once
#include <cstdint>

#include "native/kernels/logit_stats.h"

namespace openclaw {

struct CrossEntropyRequest {
  Logits logits;
  const int32_t* ids = nullptr;   // [T]; >= V: E_TOKEN_ID
  const uint8_t* mask = nullptr;  // [T]; 0 = not counted; null = all
  bool mean = true;
  double scale = 1;
};
struct CrossEntropyOut {
  float* loss = nullptr;  // [T], unscaled; null = not wanted
  float* dz = nullptr;    // [T, V], row stride `stride`; null = not wanted
  int64_t stride = 0;
};
struct CrossEntropyReport {
  double loss = 0;  // scaled mean or sum; 0 when nothing is counted
  int64_t counted = 0;
};
CrossEntropyReport cross_entropy(const CrossEntropyRequest& in, const CrossEntropyOut& out, Lane& lane);

namespace reference {
CrossEntropyReport cross_entropy(const CrossEntropyRequest& in, const CrossEntropyOut& out);
}  // namespace reference

}  // namespace openclaw
