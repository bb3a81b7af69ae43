// The native tests' harness: named cases, checks that print what was compared, one line of counts at the end.
//
//   int main() {
//     test("cached equals uncached", [] { CHECK(a == b); CHECK_NEAR(x, y, 1e-5); CHECK_THROWS(E_CONTEXT,
//     f()); }); return summary();
//   }
#pragma once
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>

#include "native/base/error.h"

namespace openclaw {
namespace testing {

inline int passed = 0, failed = 0, failures_here = 0;

inline void failure(const char* file, int line, const char* text) {
  failures_here++;
  if (failures_here <= 5) printf("    %s:%d: %s\n", file, line, text);
}

inline void test(const char* name, const std::function<void()>& body) {
  failures_here = 0;
  try {
    body();
  } catch (const std::exception& error) {
    failure(name, 0, error.what());
  }
  (failures_here ? failed : passed)++;
  if (failures_here) printf("  FAIL %s\n", name);
  fflush(stdout);
}

inline int summary() {
  printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}

}  // namespace testing
}  // namespace openclaw

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) ::openclaw::testing::failure(__FILE__, __LINE__, #condition); \
  } while (0)

#define CHECK_NEAR(actual, expected, tolerance)                                                   \
  do {                                                                                            \
    double a_ = (actual), e_ = (expected), t_ = (tolerance);                                      \
    if (!(std::fabs(a_ - e_) <= t_)) {                                                            \
      char text_[300];                                                                            \
      snprintf(text_, sizeof text_, "%s = %.9g, expected %.9g within %.3g", #actual, a_, e_, t_); \
      ::openclaw::testing::failure(__FILE__, __LINE__, text_);                                    \
    }                                                                                             \
  } while (0)

#define CHECK_THROWS(error_code, ...)                                                              \
  do {                                                                                             \
    bool thrown_ = false;                                                                          \
    try {                                                                                          \
      __VA_ARGS__;                                                                                 \
    } catch (const ::openclaw::Error& error) {                                                     \
      thrown_ = error.code == ::openclaw::Code::error_code;                                        \
    }                                                                                              \
    if (!thrown_)                                                                                  \
      ::openclaw::testing::failure(__FILE__, __LINE__, #__VA_ARGS__ " should throw " #error_code); \
  } while (0)
