// The vector type of the level a *_simd.cc file is built for, by GCC/Clang vector extensions: one source,
// every instruction set. Include only from *_simd.cc. Built with -ffp-contract=fast (a*b+c is one FMA where
// there is one) and never with -ffast-math: it removes the NaN and infinity guards and the rounding trick of
// vexp.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
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

// e^x for x <= about 88; 0 below about -103; NaN in, NaN out. Base 2: y = x log2e is rounded to the nearest
// whole n by adding 1.5*2^23, the rest in [-0.5, 0.5] goes through a polynomial of degree 6, n is added to
// the exponent. Relative error below 2e-7 over the range.
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

// 2^y for y in [-126, 0] (a little above 0 does no harm), NaN in, NaN out; y = d * c is formed inside, by FMA
// where there is one, so that no rounding of the product remains. The whole number next to y goes into the
// exponent: adding 1.5*2^23 + 127 leaves it, biased, in the low bits of the sum. The rest f in [-0.5, 0.5]
// goes through 1 + f q(f), q by the Remez exchange for the relative error: below 5e-7, 0 on average and at f
// = 0. Twice as fast as vexp.
static inline vf vexp2_scaled(vf d, vf c) {
  const float kMagic = 12582912.f + 127.f;
  vf shifted = d * c + vset(kMagic);
  vf f = d * c - (shifted - vset(kMagic));
  vf p = vset(1.1125507e-3f);
  p = p * f + 9.6662827e-3f;
  p = p * f + 5.5574004e-2f;
  p = p * f + 2.4022351e-1f;
  p = p * f + 6.9314283e-1f;
  p = p * f + 1.0f;
  vi bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = bits << 23;
  vf power;
  memcpy(&power, &bits, sizeof power);
  return p * power;
}

// e^x for x <= 88, exactly 0 below -87.3, NaN in, NaN out: 1.5 times as fast as vexp, without its subnormal
// results. The same steps as vexp2_scaled, but in base e, with ln 2 in two parts (Cody-Waite): relative error
// below 7e-7 over the whole range, with FMA or without.
static inline vf vexp_fast(vf x) {
  const float kMagic = 12582912.f + 127.f, kLowest = -87.3f;
  vf clamped = vset(kLowest) > x ? vset(kLowest) : x;  // in this order a NaN stays
  clamped = vset(88.f) < clamped ? vset(88.f) : clamped;
  vf shifted = clamped * 1.44269504f + vset(kMagic);
  vf n = shifted - vset(kMagic);
  vf r = clamped - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  vf p = vset(6.9533248e-3f);  // 1 + r q(r), the polynomial of vexp2_scaled in r = f ln 2
  p = p * r + vset(4.1875273e-2f);
  p = p * r + vset(1.6687655e-1f);
  p = p * r + vset(4.9999377e-1f);
  p = p * r + vset(9.9999373e-1f);
  p = p * r + vset(1.0f);
  vi bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = bits << 23;
  vf power;
  memcpy(&power, &bits, sizeof power);
  return x < vset(kLowest) ? (vf){} : p * power;
}

// Asks for the line `bytes` beyond p into the second-level cache; an address past the end of the array does
// no harm.
static inline void vahead(const void* p, int64_t bytes) {
  __builtin_prefetch((const void*)((uintptr_t)p + (uintptr_t)bytes), 0, 2);
}

// One bit a lane of a comparison's result, lane 0 lowest.
static inline uint32_t vbits(vi mask) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX__)
  return (uint32_t)_mm256_movemask_ps((__m256)mask);
#elif defined(__SSE__)
  return (uint32_t)_mm_movemask_ps((__m128)mask);
#else
  uint32_t bits = 0;
  for (int i = 0; i < OC_VL; i++) bits |= (uint32_t)(mask[i] & 1) << i;
  return bits;
#endif
}

// Writes the chosen lanes of v and ids, in order, to the two arrays; up to OC_VL elements are written
// whatever is chosen. Returns how many were.
static inline int vcompress(uint32_t chosen, vf v, vi id, float* values, int32_t* ids) {
#if defined(__AVX512F__)
  _mm512_storeu_ps(values, _mm512_maskz_compress_ps((__mmask16)chosen, (__m512)v));
  _mm512_storeu_si512(ids, _mm512_maskz_compress_epi32((__mmask16)chosen, (__m512i)id));
  return __builtin_popcount(chosen);
#elif defined(__AVX2__) && defined(__BMI2__)
  // the numbers of the chosen lanes, a byte each, moved together
  const uint64_t lanes = _pext_u64(0x0706050403020100u, _pdep_u64(chosen, 0x0101010101010101u) * 0xff);
  const __m256i order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)lanes));
  _mm256_storeu_ps(values, _mm256_permutevar8x32_ps((__m256)v, order));
  _mm256_storeu_si256((__m256i*)ids, _mm256_permutevar8x32_epi32((__m256i)id, order));
  return __builtin_popcount(chosen);
#else
  int n = 0;
  for (; chosen; chosen &= chosen - 1) {
    const int lane = __builtin_ctz(chosen);
    values[n] = v[lane];
    ids[n++] = id[lane];
  }
  return n;
#endif
}

// first, first + 1, …
static inline vi vcount_from(int32_t first) {
  vi lane;
  for (int i = 0; i < OC_VL; i++) lane[i] = i;
  return lane + first;
}

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
