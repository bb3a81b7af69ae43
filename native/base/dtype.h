// Element types that live in memory, and their conversion to f32. Rounding to bf16 is to nearest even; NaN
// stays NaN.
#pragma once
#include <cstdint>
#include <cstring>

namespace openclaw {

enum class DType : int { F32 = 0, BF16 = 1, F16 = 2 };

inline int dtype_bytes(DType t) { return t == DType::F32 ? 4 : 2; }

static inline float bf16_to_f32(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

static inline uint16_t f32_to_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40);  // keep NaN a NaN
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

static inline float f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ff, u;
  if (exponent == 31) {
    u = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent) {
    u = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else if (mantissa) {  // subnormal: shift until the hidden bit appears
    int e = 113;
    while (!(mantissa & 0x400)) mantissa <<= 1, e--;
    u = sign | ((uint32_t)e << 23) | ((mantissa & 0x3ff) << 13);
  } else {
    u = sign;
  }
  float f;
  memcpy(&f, &u, 4);
  return f;
}

}  // namespace openclaw
