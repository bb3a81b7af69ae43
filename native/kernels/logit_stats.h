// One pass over logits [T, V]: log-sum-exp, the k most likely ids, log-probs of given ids, entropy.
//
// Shapes    logits [T, V] row-major, `stride` >= V elements from row to row, f32 or bf16. T rows, V
// vocabulary. Formula   u = z / temperature;  max = max_j u_j;  log_sum = log Σ_j exp(u_j - max);  lse = max
// + log_sum;
//           log p(j) = (u_j - max) - log_sum;  entropy = -Σ_j p_j log p_j = log_sum - Σ_j p_j (u_j - max), in
//           nats. (max, log_sum) are given apart: folded into one lse, a common offset of the row eats the
//           last digits.
// One pass  Blocks of the row are read once. A running maximum m, s = Σ exp(u - m) and, for the entropy,
//           e = Σ exp(u - m)(u - m) are kept; when a block raises m by d, s' = s exp(-d) and e' = (e - d s)
//           exp(-d) (Milakov and Gimelshein 2018). A block whose maximum is not above the k-th best value so
//           far holds no candidate for the top k and is not looked at again.
// Errors    Sums run in f32 lanes and short blocks, never one long chain: |log_sum - exact| <= 2e-6 up to V =
// 2^20.
//           The result of a row depends on that row alone: not on T, other rows, or the number of threads.
// Top-k     By value, larger first; equal values by id, smaller first; -0.0 equals +0.0. Temperature does not
// change it.
//
// What is not a distribution is answered the same way on every machine, and flagged (flags [T], bits):
//   kRowNaN       a NaN in the row: max, log_sum, lse, entropy, gathered log-probs are NaN; top ids are -1
//   with NaN. kRowInf       n >= 1 entries are +inf and none NaN: the limit. max = lse = +inf, log_sum =
//   entropy = log n, each of the n
//                 has log-prob -log n, every other id -inf; the n come first in the top k, in order of id.
//   kRowEmpty     every entry is -inf: no distribution. max = log_sum = lse = -inf, entropy NaN, gathered
//   -inf, top ids -1. kRowShort     fewer than k entries are above -inf: the rest of the top k is id -1 with
//   log-prob -inf. (An entry of
//                 -inf has no probability and never is in the top k.)
//   kRowMasked    mask[t] == 0: the row is not read. max, log_sum, lse, entropy, gathered NaN; top ids -1
//   with NaN.
//
// Properties tested: agreement with the reference; shift z + c leaves log-probs and ids; permuted columns
// give permuted ids; Σ exp(gathered over all ids) = 1; strided equals packed; masked rows do not matter;
// instruction sets and thread counts.
#pragma once
#include <cstdint>

#include "native/base/dtype.h"
#include "native/base/lanes.h"

namespace openclaw {

struct Logits {
  const void* data = nullptr;
  DType dtype = DType::F32;  // F32 or BF16
  int64_t rows = 0, vocab = 0, stride = 0;
};

enum RowFlag : uint8_t { kRowNaN = 1, kRowInf = 2, kRowEmpty = 4, kRowShort = 8, kRowMasked = 16 };

struct LogitStatsRequest {
  Logits logits;
  float temperature = 1;                // > 0, finite; log-probs are those of softmax(z / temperature)
  const uint8_t* mask = nullptr;        // [T], 0 = skip the row; null = all rows
  int64_t k = 0;                        // width of the top; k > V is allowed here and flags kRowShort
  int64_t g = 0;                        // width of the gather
  const int32_t* gather_ids = nullptr;  // [T, g]; an id < 0 is padding: log-prob -inf. E_TOKEN_ID when >= V.
};

// Any member may be null: not wanted. All f32.
struct LogitStatsOut {
  float *max = nullptr, *log_sum = nullptr, *lse = nullptr;  // [T]
  float* entropy = nullptr;                                  // [T]
  int32_t* top_ids = nullptr;                                // [T, k]
  float* top_logprobs = nullptr;                             // [T, k]
  float* gathered = nullptr;                                 // [T, g]
  uint8_t* flags = nullptr;                                  // [T]
};

// Throws E_ARGUMENT, E_SHAPE, E_TOKEN_ID. Parallel over rows.
void logit_stats(const LogitStatsRequest& in, const LogitStatsOut& out, Lane& lane);

namespace reference {
// The same in double, by sorting: the oracle.
void logit_stats(const LogitStatsRequest& in, const LogitStatsOut& out);
}  // namespace reference

}  // namespace openclaw
