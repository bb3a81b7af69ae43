// Units of work: independent pieces of one operation, handed to the threads of a lane.
#pragma once
#include <cstdint>

#include "native/base/lanes.h"

namespace openclaw {

// Below this many multiply-adds waking a second thread costs more than it saves.
constexpr int64_t kSerialWork = 512 * 1024;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t n, int64_t step) { return ceil_div(n, step) * step; }

// body(i) for i in [0, n), in rising order where one thread works. `work`: multiply-adds in all.
template <typename Body>
void for_units(Lane& lane, int64_t n, int64_t work, const Body& body) {
  if (n > 1 && work >= kSerialWork) {
    lane.parallel_for(n, 1, [&body](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++) body(i);
    });
    return;
  }
  lane.yield_point();
  for (int64_t i = 0; i < n; i++) body(i);
}

}  // namespace openclaw
