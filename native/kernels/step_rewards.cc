#include "native/kernels/step_rewards.h"

namespace openclaw {
namespace {

struct Votes {
  double sum = 0;
  int64_t count = 0;
};

Votes readable_votes(const StepRewardsRequest& in, int64_t t) {
  Votes votes;
  for (int64_t i = t * in.m; i < (t + 1) * in.m; i++) {
    if (in.readable && !in.readable[i]) continue;
    votes.sum += in.votes[i];
    votes.count++;
  }
  return votes;
}

}  // namespace

StepRewardsReport step_rewards(const StepRewardsRequest& in, float* rewards, uint8_t* present) {
  StepRewardsReport report;
  for (int64_t t = 0; t < in.T; t++) {
    const Votes votes = readable_votes(in, t);
    report.votes += votes.count;
    report.failed_votes += in.m - votes.count;
    present[t] = votes.count > 0 || in.outcome_alone;
    (present[t] ? report.present : report.absent)++;
    const double mean = votes.count ? votes.sum / (double)votes.count : 0;
    rewards[t] = present[t] ? (float)((in.outcome ? in.outcome[t] : 0) + mean) : 0.f;
  }
  return report;
}

}  // namespace openclaw
