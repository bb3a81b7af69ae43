// The dense part of the gradient: factor * exp(z / temperature - shift) over a row.
#include "native/kernels/rl_simd.h"
#include "native/kernels/simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {
namespace {

inline vf load(const float* p) { return vload(p); }
inline vf load(const uint16_t* p) { return vload_bf16(p); }

// Bytes ahead of the loads at which lines are asked into the second-level cache.
constexpr int64_t kAhead = 4096;
constexpr int kUnroll = 4;

template <class T>
void scaled_exp(const T* row, int64_t V, float inv_temperature, float shift, float factor, float* dz) {
  const vf t = vset(inv_temperature), s = vset(shift), a = vset(factor);
  int64_t i = 0;
  for (; i + kUnroll * OC_VL <= V; i += kUnroll * OC_VL) {
    for (int64_t line = 0; line < (int64_t)(kUnroll * OC_VL * sizeof(T)); line += 64)
      vahead(row + i, kAhead + line);
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; u++)
      vstore(dz + i + u * OC_VL, a * vexp_fast(load(row + i + u * OC_VL) * t - s));
  }
  for (; i + OC_VL <= V; i += OC_VL) vstore(dz + i, a * vexp_fast(load(row + i) * t - s));
  if (i == V) return;
  T rest[OC_VL] = {};
  float out[OC_VL];
  for (int64_t j = i; j < V; j++) rest[j - i] = row[j];
  vstore(out, a * vexp_fast(load(rest) * t - s));
  for (int64_t j = i; j < V; j++) dz[j] = out[j - i];
}

}  // namespace

void scaled_exp_f32(const float* row, int64_t V, float inv_temperature, float shift, float factor,
                    float* dz) {
  scaled_exp(row, V, inv_temperature, shift, factor, dz);
}

void scaled_exp_bf16(const uint16_t* row, int64_t V, float inv_temperature, float shift, float factor,
                     float* dz) {
  scaled_exp(row, V, inv_temperature, shift, factor, dz);
}

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
