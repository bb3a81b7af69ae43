// From gradients with respect to a few log-probs of a row to the gradient with respect to all its logits.
//
// log p(v) = z_v - lse(z), so ∂log p(v)/∂z_j = [j = v] - p_j, and for a loss with g_c = ∂L/∂log p(id_c), c =
// 0..g-1:
//     dz_j = Σ_c g_c [j = id_c]  -  p_j G        p_j = exp(z_j - lse)        G = Σ_c g_c (method.md §3)
// One pass over the row; in place allowed. An id may occur several times (the sampled token among the top k):
// its gradients add up. An id < 0 is padding: its gradient counts nowhere, not even in G. Σ_j dz_j = 0 up to
// rounding, since Σ p = 1. A row whose G is 0 and that has no gradients becomes all zero, whatever its logits
// are (NaN included): masked rows do not matter.
//
// Temperature: z may be given undivided; then p_j = exp(z_j / temperature - lse), lse of z / temperature, and
// dz is the gradient with respect to z: divided by the temperature.
//
// Properties tested: finite differences of Σ g_c log p(id_c); row sums; in place equals out of place;
// instruction sets, threads.
#pragma once
#include <cstdint>

#include "native/base/dtype.h"
#include "native/base/lanes.h"

namespace openclaw {

// In place: logits_inout [rows, V], `ldl` elements from row to row, f32; becomes dz. lse [rows] finite. ids,
// grads [rows, g]. Throws E_ARGUMENT, E_TOKEN_ID (id >= V). Parallel over rows.
void logit_grad_rows(float* logits_inout, int64_t ldl, int64_t rows, int64_t V, const float* lse,
                     const int32_t* ids, const float* grads, int64_t g, Lane& lane);

struct LogitGradRequest {
  const void* logits = nullptr;  // [rows, V] with row stride ldl
  DType dtype = DType::F32;      // F32 or BF16; the result is f32
  int64_t ldl = 0, rows = 0, vocab = 0;
  float temperature = 1;
  const float* max =
      nullptr;  // [rows] with log_sum: p = exp((z / temperature - max) - log_sum), no digit lost; or null:
  const float* log_sum = nullptr;  // [rows] … or, with max null, the lse itself
  int64_t g = 0;
  const int32_t* ids = nullptr;  // [rows, g]
  const float* grads = nullptr;  // [rows, g]
};
// dz [rows, V] with row stride ldd; may be the logits themselves when those are f32 and ldd == ldl.
void logit_grad(const LogitGradRequest& in, float* dz, int64_t ldd, Lane& lane);

namespace reference {
void logit_grad(const LogitGradRequest& in, float* dz, int64_t ldd);
}  // namespace reference

}  // namespace openclaw
