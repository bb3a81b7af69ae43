// Rows of logits of the kinds that break kernels, from a fixed seed.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "native/base/dtype.h"
#include "native/kernels/rl_simd.h"

namespace openclaw {
#if defined(__x86_64__)
namespace v2 {
extern const RlTable rl_table;
}
namespace v3 {
extern const RlTable rl_table;
}
namespace v4 {
extern const RlTable rl_table;
}
#endif

namespace testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return (int64_t)(engine_() % (uint64_t)n); }
  bool chance(int64_t one_in) { return below(one_in) == 0; }
  float normal(float sd = 1) { return std::normal_distribution<float>(0, sd)(engine_); }
  float uniform(float a, float b) { return std::uniform_real_distribution<float>(a, b)(engine_); }
  std::vector<float> normals(int64_t n, float sd = 1) {
    std::vector<float> v((size_t)n);
    for (float& x : v) x = normal(sd);
    return v;
  }
  // Ids in [lowest, V).
  std::vector<int32_t> ids(int64_t n, int64_t V, int32_t lowest = 0) {
    std::vector<int32_t> v((size_t)n);
    for (int32_t& x : v) x = (int32_t)(below(V - lowest) + lowest);
    return v;
  }

 private:
  std::mt19937_64 engine_;
};

enum class Kind { Normal, Ascending, Descending, Constant, Rounded, HalfMasked, Offset, Peaked, Zipf, Zeros };
constexpr Kind kKinds[] = {Kind::Normal,     Kind::Ascending, Kind::Descending, Kind::Constant, Kind::Rounded,
                           Kind::HalfMasked, Kind::Offset,    Kind::Peaked,     Kind::Zipf,     Kind::Zeros};

inline std::vector<float> row_of(Kind kind, int64_t V, Random& random) {
  std::vector<float> row((size_t)V);
  for (int64_t j = 0; j < V; j++) {
    const float n = random.normal(3);
    float& z = row[(size_t)j];
    switch (kind) {
      case Kind::Normal:
        z = n;
        break;
      case Kind::Ascending:
        z = (float)j * 20 / (float)V;
        break;
      case Kind::Descending:
        z = -(float)j * 20 / (float)V;
        break;
      case Kind::Constant:
        z = -7.25f;
        break;
      case Kind::Rounded:
        z = std::round(n);
        break;  // many ties, -0.0 among them
      case Kind::HalfMasked:
        z = random.chance(2) ? n : -INFINITY;
        break;
      case Kind::Offset:
        z = n + 1000;
        break;
      case Kind::Peaked:
        z = j == V / 2 ? 30 : n * 0.1f;
        break;
      case Kind::Zipf:
        z = n * 0.5f - std::log(1 + (float)j);
        break;
      case Kind::Zeros:
        z = random.chance(2) ? 0.f : -0.f;
        break;
    }
  }
  return row;
}

inline std::vector<uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> out(values.size());
  for (size_t i = 0; i < values.size(); i++) out[i] = f32_to_bf16(values[i]);
  return out;
}

// Largest difference relative to max(|expected|, floor); infinite where one is finite and the other not, or
// NaN differs.
inline double difference(const std::vector<float>& actual, const std::vector<float>& expected,
                         double floor = 1) {
  double worst = actual.size() == expected.size() ? 0 : INFINITY;
  for (size_t i = 0; i < expected.size() && worst < INFINITY; i++) {
    const double a = actual[i], e = expected[i];
    const bool same = a == e || (std::isnan(a) && std::isnan(e));
    if (same) continue;
    const double d = std::fabs(a - e) / std::max(std::fabs(e), floor);
    worst = std::isfinite(d) ? std::max(worst, d) : INFINITY;
  }
  return worst;
}

}  // namespace testing
}  // namespace openclaw
