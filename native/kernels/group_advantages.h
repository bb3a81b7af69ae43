// Advantages within groups: how much better than its peers an action came out.
//
// Actions of the n rollouts of one task that have the same step index form a group (group id, step index):
//   A = (R - mean_group) / (std_group + 1e-6),  population std (method.md §4)
// A group of one, or of equal rewards, has A = 0 exactly and is counted: it teaches nothing. An action
// without a reward (present[i] == 0) is in no group and has A = 0.
//
// normalise = false gives R - mean alone (the form without the std).
// Arithmetic in double; mean and std by two passes over the group in the order of the input.
// Properties tested: against the formula; group sums are 0; a shift of all rewards changes nothing; scaling
// does not change A beyond the 1e-6; order of the actions permutes the result.
#pragma once
#include <cstdint>

namespace openclaw {

struct GroupRequest {
  int64_t n = 0;
  const float* rewards = nullptr;    // [n], finite where present
  const int32_t* group = nullptr;    // [n] any value
  const int32_t* step = nullptr;     // [n] step index; null = all 0
  const uint8_t* present = nullptr;  // [n]; null = all have a reward
  bool normalise = true;
};
struct GroupReport {
  int64_t groups = 0;   // with at least one reward
  int64_t singles = 0;  // of them, groups of one
  int64_t equal = 0;    // of them, groups of several equal rewards
  int64_t absent = 0;   // actions without a reward
};
// advantages [n].
GroupReport group_advantages(const GroupRequest& in, float* advantages);

}  // namespace openclaw
