// Quantised blocks: against the values of the `gguf` Python package (fixtures/make_dequantize.py), and blocks
// by hand.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "native/kernels/nn.h"
#include "test/native/check.h"

#if !defined(OPENCLAW_SOURCE_DIR)
#define OPENCLAW_SOURCE_DIR "."
#endif

using namespace openclaw;
using namespace openclaw::testing;

namespace {

struct Record {
  Ggml type;
  std::vector<uint8_t> blocks;
  std::vector<float> values;
};

std::vector<Record> read_fixture() {
  std::vector<Record> records;
  FILE* file = fopen(OPENCLAW_SOURCE_DIR "/test/native/fixtures/dequantize.bin", "rb");
  OC_CHECK(file, Code::E_FILE, "test/native/fixtures/dequantize.bin: could not be opened");
  int32_t head[3];
  while (fread(head, sizeof head, 1, file) == 1) {
    Record r{(Ggml)head[0], std::vector<uint8_t>((size_t)head[1]), std::vector<float>((size_t)head[2])};
    const bool read = fread(r.blocks.data(), 1, r.blocks.size(), file) == r.blocks.size() &&
                      fread(r.values.data(), sizeof(float), r.values.size(), file) == r.values.size();
    OC_CHECK(read, Code::E_FILE, "dequantize.bin: ends in the middle of a record");
    records.push_back(r);
  }
  fclose(file);
  return records;
}

void test_fixture() {
  test("every type agrees with gguf to the bit", [] {
    const std::vector<Record> records = read_fixture();
    CHECK(records.size() == 10);
    for (const Record& r : records) {
      const int64_t n = (int64_t)r.values.size();
      CHECK(n / ggml_block_values(r.type) * ggml_block_bytes(r.type) == (int64_t)r.blocks.size());
      std::vector<float> out(r.values.size());
      dequantize(r.type, r.blocks.data(), n, out.data());
      for (int64_t i = 0; i < n; i++) {
        if (out[i] == r.values[i]) continue;
        printf("    type %d, value %lld: %.9g, expected %.9g\n", (int)r.type, (long long)i, out[i],
               r.values[i]);
        CHECK(out[i] == r.values[i]);
      }
    }
  });
}

constexpr uint8_t kOne[2] = {0x00, 0x3c}, kHalf[2] = {0x00, 0x38};  // 1.0 and 0.5 as f16, little endian

void test_by_hand() {
  test("Q4_0: low nibbles first, then high ones, less 8", [] {
    uint8_t block[18] = {kHalf[0], kHalf[1]};
    block[2] = 0xf0, block[17] = 0x19;
    float out[32];
    dequantize(Ggml::Q4_0, block, 32, out);
    CHECK(out[0] == -4 && out[16] == 3.5f && out[15] == 0.5f && out[31] == -3.5f && out[1] == -4);
  });
  test("Q5_1: the fifth bits, and the offset", [] {
    uint8_t block[24] = {kOne[0], kOne[1], kHalf[0], kHalf[1], 0x01, 0x00, 0x01, 0x00};
    block[8] = 0x21;
    float out[32];
    dequantize(Ggml::Q5_1, block, 32, out);
    CHECK(out[0] == 17.5f && out[16] == 18.5f && out[1] == 0.5f);
  });
  test("Q8_0: signed bytes", [] {
    uint8_t block[34] = {kHalf[0], kHalf[1], 0x80, 0x7f};
    float out[32];
    dequantize(Ggml::Q8_0, block, 32, out);
    CHECK(out[0] == -64 && out[1] == 63.5f && out[31] == 0);
  });
  test("Q4_K: scales and minima of the upper half take their top bits from the lower", [] {
    uint8_t block[144] = {kOne[0], kOne[1], kOne[0], kOne[1]};
    block[4] = 0xc0 | 5;    // scale 0 = 5; top bits of scale 4
    block[8] = 0x40 | 2;    // minimum 0 = 2; top bits of minimum 4
    block[12] = 0x31;       // scale 4 = 48 + 1, minimum 4 = 16 + 3
    block[16] = 0x07;       // value 0 = 7
    block[16 + 64] = 0x09;  // value 128 = 9
    float out[256];
    dequantize(Ggml::Q4_K, block, 256, out);
    CHECK(out[0] == 5 * 7 - 2 && out[1] == -2 && out[128] == 49 * 9 - 19 && out[129] == -19 && out[32] == 0);
  });
  test("Q6_K: six bits in two places, less 32", [] {
    uint8_t block[210] = {};
    block[208] = kOne[0], block[209] = kOne[1];
    block[0] = 0x2f;    // value 0 low 15, value 64 low 2
    block[128] = 0x13;  // value 0 high 3; value 64 high 1 (bits 4, 5)
    block[192] = 2, block[196] = (uint8_t)-3;
    float out[256];
    dequantize(Ggml::Q6_K, block, 256, out);
    CHECK(out[0] == 2 * (63 - 32) && out[64] == -3 * (18 - 32) && out[1] == 2 * -32);
  });
}

}  // namespace

int main() {
  test_fixture();
  test_by_hand();
  test("sizes that are no whole blocks, and unknown types, are refused", [] {
    uint8_t block[34] = {};
    float out[32];
    CHECK_THROWS(E_SHAPE, dequantize(Ggml::Q8_0, block, 31, out));
    CHECK_THROWS(E_UNSUPPORTED, dequantize((Ggml)99, block, 32, out));
  });
  return summary();
}
