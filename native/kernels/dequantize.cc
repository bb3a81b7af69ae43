// GGML's quantised blocks back to f32. Each type is a run of values that share a scale (and for some an
// offset):
//   x = d * q          Q4_0, Q5_0, Q8_0, Q6_K (with a scale per 16)
//   x = d * q + m      Q4_1, Q5_1, Q4_K (with a scale and an offset per 32)
// d and m are IEEE half floats. Layouts as published in ggml's block definitions (ggml-common.h); the order
// of float operations is theirs too, so that values agree to the bit. Files are little endian, as is every
// machine we build for.
#include <cstring>

#include "native/base/error.h"
#include "native/kernels/nn.h"

namespace openclaw {
namespace {

constexpr int kSmall = 32, kSuper = 256;  // values in a block, and in a super-block ("K" types)

inline uint16_t read_u16(const uint8_t* p) {
  uint16_t h;
  memcpy(&h, p, 2);
  return h;
}
inline uint32_t read_u32(const uint8_t* p) {
  uint32_t w;
  memcpy(&w, p, 4);
  return w;
}
inline float read_half(const uint8_t* p) { return f16_to_f32(read_u16(p)); }

// {f16 d; u8 nibbles[16]}: value i is the low nibble of byte i, value i + 16 its high nibble, each less 8.
void block_q4_0(const uint8_t* b, float* out) {
  const float d = read_half(b);
  const uint8_t* nibbles = b + 2;
  for (int i = 0; i < 16; i++) {
    out[i] = (float)((nibbles[i] & 15) - 8) * d;
    out[i + 16] = (float)((nibbles[i] >> 4) - 8) * d;
  }
}

// {f16 d, m; u8 nibbles[16]}
void block_q4_1(const uint8_t* b, float* out) {
  const float d = read_half(b), m = read_half(b + 2);
  const uint8_t* nibbles = b + 4;
  for (int i = 0; i < 16; i++) {
    out[i] = (float)(nibbles[i] & 15) * d + m;
    out[i + 16] = (float)(nibbles[i] >> 4) * d + m;
  }
}

// The fifth bit of value i is bit i of a 32-bit word.
inline int five_bits(int nibble, uint32_t high, int i) { return nibble | (int)((high >> i & 1) << 4); }

// {f16 d; u32 high; u8 nibbles[16]}, less 16.
void block_q5_0(const uint8_t* b, float* out) {
  const float d = read_half(b);
  const uint32_t high = read_u32(b + 2);
  const uint8_t* nibbles = b + 6;
  for (int i = 0; i < 16; i++) {
    out[i] = (float)(five_bits(nibbles[i] & 15, high, i) - 16) * d;
    out[i + 16] = (float)(five_bits(nibbles[i] >> 4, high, i + 16) - 16) * d;
  }
}

// {f16 d, m; u32 high; u8 nibbles[16]}
void block_q5_1(const uint8_t* b, float* out) {
  const float d = read_half(b), m = read_half(b + 2);
  const uint32_t high = read_u32(b + 4);
  const uint8_t* nibbles = b + 8;
  for (int i = 0; i < 16; i++) {
    out[i] = (float)five_bits(nibbles[i] & 15, high, i) * d + m;
    out[i + 16] = (float)five_bits(nibbles[i] >> 4, high, i + 16) * d + m;
  }
}

// {f16 d; i8 values[32]}
void block_q8_0(const uint8_t* b, float* out) {
  const float d = read_half(b);
  for (int i = 0; i < kSmall; i++) out[i] = (float)(int8_t)b[2 + i] * d;
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes: bytes 0-3 hold scales 0-3 and bytes 4-7 minima 0-3
// in their low six bits; bytes 8-11 hold the low four bits of scale (low nibble) and minimum (high nibble)
// 4-7, whose top two bits are the top two bits of bytes 0-3 and 4-7.
void q4_k_scale(const uint8_t* s, int j, int* scale, int* minimum) {
  if (j < 4) {
    *scale = s[j] & 63;
    *minimum = s[j + 4] & 63;
  } else {
    *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    *minimum = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  }
}

// {f16 d, dmin; u8 scales[12]; u8 nibbles[128]}: 32 bytes hold values 64c..64c+31 (low nibbles) and
// 64c+32..64c+63 (high nibbles). x = (d * scale) * q - (dmin * minimum).
void block_q4_k(const uint8_t* b, float* out) {
  const float d = read_half(b), dmin = read_half(b + 2);
  const uint8_t *scales = b + 4, *nibbles = b + 16;
  for (int j = 0; j < kSuper / kSmall; j++) {
    int scale, minimum;
    q4_k_scale(scales, j, &scale, &minimum);
    const float step = d * (float)scale, offset = dmin * (float)minimum;
    const uint8_t* run = nibbles + j / 2 * 32;
    for (int i = 0; i < kSmall; i++)
      out[j * kSmall + i] = step * (float)(j & 1 ? run[i] >> 4 : run[i] & 15) - offset;
  }
}

// {u8 low[128]; u8 high[64]; i8 scales[16]; f16 d}: halves of 128 values. In a half, value 32r + i has its
// low four bits in a nibble of low[32 (r & 1) + i] (high nibble for r >= 2) and its top two in bits 2r, 2r+1
// of high[i]; less 32. x = d * scale * q, a scale for every 16.
void block_q6_k(const uint8_t* b, float* out) {
  const float d = read_half(b + 208);
  for (int half = 0; half < 2; half++) {
    const uint8_t *low = b + 64 * half, *high = b + 128 + 32 * half, *scales = b + 192 + 8 * half;
    for (int r = 0; r < 4; r++)
      for (int i = 0; i < kSmall; i++) {
        int nibble = r < 2 ? low[32 * (r & 1) + i] & 15 : low[32 * (r & 1) + i] >> 4;
        int q = (nibble | (high[i] >> 2 * r & 3) << 4) - 32;
        out[128 * half + 32 * r + i] = d * (float)(int8_t)scales[2 * r + i / 16] * (float)q;
      }
  }
}

struct Layout {
  Ggml type;
  int values, bytes;
  void (*block)(const uint8_t*, float*);  // null: one plain number a value
};
constexpr Layout kLayouts[] = {
    {Ggml::F32, 1, 4, nullptr},
    {Ggml::F16, 1, 2, nullptr},
    {Ggml::BF16, 1, 2, nullptr},
    {Ggml::Q4_0, kSmall, 18, block_q4_0},
    {Ggml::Q4_1, kSmall, 20, block_q4_1},
    {Ggml::Q5_0, kSmall, 22, block_q5_0},
    {Ggml::Q5_1, kSmall, 24, block_q5_1},
    {Ggml::Q8_0, kSmall, 34, block_q8_0},
    {Ggml::Q4_K, kSuper, 144, block_q4_k},
    {Ggml::Q6_K, kSuper, 210, block_q6_k},
};

const Layout& layout_of(Ggml type) {
  for (const Layout& layout : kLayouts)
    if (layout.type == type) return layout;
  fail(Code::E_UNSUPPORTED,
       "GGML type: expected one of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K, got number %d",
       (int)type);
}

void plain_values(Ggml type, const uint8_t* p, int64_t n, float* out) {
  if (type == Ggml::F32) {
    memcpy(out, p, (size_t)n * 4);
  } else if (type == Ggml::F16) {
    for (int64_t i = 0; i < n; i++) out[i] = read_half(p + 2 * i);
  } else {
    for (int64_t i = 0; i < n; i++) out[i] = bf16_to_f32(read_u16(p + 2 * i));
  }
}

}  // namespace

int64_t ggml_block_values(Ggml type) { return layout_of(type).values; }
int64_t ggml_block_bytes(Ggml type) { return layout_of(type).bytes; }

void dequantize(Ggml type, const void* blocks, int64_t n, float* out) {
  const Layout& layout = layout_of(type);
  OC_CHECK(n >= 0 && n % layout.values == 0, Code::E_SHAPE, "n: expected a multiple of %d values, got %lld",
           layout.values, (long long)n);
  const uint8_t* p = (const uint8_t*)blocks;
  if (!layout.block) return plain_values(type, p, n, out);
  for (int64_t i = 0; i < n; i += layout.values, p += layout.bytes) layout.block(p, out + i);
}

}  // namespace openclaw
