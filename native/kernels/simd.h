// The vector type of the level a *_simd.cc file is built for, by GCC/Clang vector extensions: one source, every
// instruction set. Include only from *_simd.cc. Built with -ffp-contract=fast (a*b+c is one FMA where there is one) and
// never with -ffast-math: it removes the NaN and infinity guards and the rounding trick of vexp.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define OC_VL 16
#elif defined(__AVX__)
#define OC_VL 8
#else
#define OC_VL 4
#endif

namespace openclaw {
namespace OPENCLAW_ISA {

typedef float vf __attribute__((vector_size(4 * OC_VL)));
typedef int32_t vi __attribute__((vector_size(4 * OC_VL)));
typedef float vf_u __attribute__((vector_size(4 * OC_VL), aligned(4), may_alias));
typedef uint16_t vh __attribute__((vector_size(2 * OC_VL)));
typedef uint16_t vh_u __attribute__((vector_size(2 * OC_VL), aligned(2), may_alias));

static inline vf vload(const float* p) { return *(const vf_u*)p; }
static inline void vstore(float* p, vf v) { *(vf_u*)p = v; }
static inline vf vset(float x) { return x - (vf){}; }
static inline vf vload_bf16(const uint16_t* p) {
  vi w;
#if defined(__AVX512F__)  // one instruction; __builtin_convertvector makes four of it
  __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256((const __m256i*)p));
  memcpy(&w, &wide, sizeof w);
#elif defined(__AVX2__)
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  memcpy(&w, &wide, sizeof w);
#else
  w = __builtin_convertvector(*(const vh_u*)p, vi);
#endif
  w = w << 16;
  vf f;
  memcpy(&f, &w, sizeof f);
  return f;
}
static inline vf vselect(vi mask, vf a, vf b) { return mask ? a : b; }
static inline vf vmax(vf a, vf b) { return a > b ? a : b; }
static inline vf vmin(vf a, vf b) { return a < b ? a : b; }
static inline float vsum(vf v) {
  float s[OC_VL];
  memcpy(s, &v, sizeof v);
  for (int w = OC_VL / 2; w; w /= 2)
    for (int i = 0; i < w; i++) s[i] += s[i + w];
  return s[0];
}
static inline float vmax_all(vf v) {
  float s[OC_VL];
  memcpy(s, &v, sizeof v);
  for (int w = OC_VL / 2; w; w /= 2)
    for (int i = 0; i < w; i++) s[i] = s[i] > s[i + w] ? s[i] : s[i + w];
  return s[0];
}

// e^x for x <= about 88; 0 below about -103; NaN in, NaN out. Base 2: y = x log2e is rounded to the nearest whole n by
// adding 1.5*2^23, the rest in [-0.5, 0.5] goes through a polynomial of degree 6, n is added to the exponent.
// Relative error below 2e-7 over the range.
static inline vf vexp(vf x) {
  const vf magic = vset(12582912.f);
  vi nan = x != x;
  vf clamped = vmin(vmax(x, vset(-103.f)), vset(88.f));
  vf y = clamped * 1.44269504088896341f;
  vf shifted = y + magic;
  vf n = shifted - magic;
  vf r = clamped - n * 0.693359375f;  // Cody-Waite: ln 2 in two parts keeps the rest exact
  r = r - n * -2.12194440e-4f;
  vf p = vset(1.3888889e-3f);
  p = p * r + 8.3333338e-3f;
  p = p * r + 4.1666668e-2f;
  p = p * r + 1.6666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // two halves, so that n = -149..-127 reaches the subnormals without overflow of the exponent field
  vi ni = __builtin_convertvector(n, vi);
  vi half = ni >> 1;
  vi e1 = (half + 127) << 23, e2 = (ni - half + 127) << 23;
  vf s1, s2;
  memcpy(&s1, &e1, sizeof s1);
  memcpy(&s2, &e2, sizeof s2);
  vf out = p * s1 * s2;
  out = vselect(x < vset(-103.f), (vf){}, out);
  return vselect(nan, x, out);
}

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
