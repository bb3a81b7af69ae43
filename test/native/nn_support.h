// What the tests of the decoder's operations share: seeded numbers, every instruction set this CPU has, one
// thread against two, and the worst error between two arrays.
#pragma once
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "native/base/cpu.h"
#include "native/kernels/nn_simd.h"
#include "test/native/check.h"

namespace openclaw {
namespace testing {

using Floats = std::vector<float>;

inline Floats normals(int64_t n, float sd = 1) {
  static std::mt19937 engine(20240607);
  std::normal_distribution<float> normal(0, sd);
  Floats v((size_t)n);
  for (float& x : v) x = normal(engine);
  return v;
}

inline std::vector<uint16_t> to_bf16(const Floats& v) {
  std::vector<uint16_t> h;
  for (float x : v) h.push_back(f32_to_bf16(x));
  return h;
}

// The largest difference, relative to 1 + |expected|; infinite when a number is NaN on one side only.
inline double worst(const Floats& actual, const Floats& expected) {
  double most = actual.size() == expected.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); i++) {
    const double a = actual[i], e = expected[i];
    if (std::isnan(a) && std::isnan(e)) continue;
    const double error = std::fabs(a - e) / (1 + std::fabs(e));
    most = error <= most ? most : std::isnan(error) ? INFINITY : error;
  }
  return most;
}

inline Lane& one_thread() {
  static Lane lane(1, false, nullptr);
  return lane;
}
inline Lane& two_threads() {
  static Lane lane(2, false, nullptr);
  return lane;
}

// The case at every level up to this CPU's, named by it.
inline void test_levels(const char* name, const std::function<void()>& body) {
  for (Isa isa : {Isa::V2, Isa::V3, Isa::V4, Isa::Neon}) {
    if ((int)isa > (int)cpu_isa() || (cpu_isa() == Isa::Neon && isa != Isa::Neon)) continue;
    set_nn_isa(isa);
    test((std::string(name) + " (" + isa_name(isa) + ")").c_str(), body);
  }
  set_nn_isa(cpu_isa());
}

// Runs `op` on one thread and on two, each from the same start of its results, checks that the bits are
// equal, and returns them.
inline Floats same_bits(const Floats& start, const std::function<void(Floats&, Lane&)>& op) {
  Floats one = start, two = start;
  op(one, one_thread());
  op(two, two_threads());
  CHECK(memcmp(one.data(), two.data(), one.size() * sizeof(float)) == 0);
  return one;
}

// Central difference of loss(x) by x[i]. Forward operations are f32: the step is wide, the functions smooth.
inline double slope(Floats& x, size_t i, const std::function<double()>& loss, float step = 1e-2f) {
  const float at = x[i];
  x[i] = at + step;
  const double up = loss();
  x[i] = at - step;
  const double down = loss();
  x[i] = at;
  return (up - down) / (2.0 * step);
}

inline double dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += (double)a[i] * b[i];
  return sum;
}

}  // namespace testing
}  // namespace openclaw
