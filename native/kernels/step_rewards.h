// Integrated rewards of the steps of an episode: what the episode came to, plus what was seen at each step.
//
//   R_t = o_t + (1/m_t) Σ_{i present} r_{t,i} (method.md §1)
// o_t is the verifiable outcome of step t's episode, r_{t,i} vote i on step t. A vote that failed is absent,
// not 0: it is left out of the sum and of m_t. A step without any readable vote has no step reward: it is
// absent (present[t] = 0, rewards[t] = 0) or, with `outcome_alone`, R_t = o_t. Nothing is ever NaN: absence
// is told by `present`.
//
// Arithmetic in double, in order of the votes. Properties tested: against the formula; absent votes do not
// matter, whatever lies in their place (NaN included); order of the votes; o shifts R.
#pragma once
#include <cstdint>

namespace openclaw {

struct StepRewardsRequest {
  int64_t T = 0, m = 0;
  const float* outcome = nullptr;     // [T]; null = no outcome: 0 is added
  const float* votes = nullptr;       // [T, m]
  const uint8_t* readable = nullptr;  // [T, m] 0 = the vote failed; null = all readable
  bool outcome_alone = false;
};
struct StepRewardsReport {
  int64_t present = 0, absent = 0;  // steps
  int64_t votes = 0, failed_votes = 0;
};
// rewards [T], present [T].
StepRewardsReport step_rewards(const StepRewardsRequest& in, float* rewards, uint8_t* present);

}  // namespace openclaw
