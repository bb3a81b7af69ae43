// exports.kernels: the RL kernels as JavaScript calls them. The door of the small ones is here.
#include "native/addon/kernels_addon.h"

#include <cmath>
#include <memory>
#include <vector>

#include "native/kernels/group_advantages.h"
#include "native/kernels/hint_overlap.h"
#include "native/kernels/step_rewards.h"

namespace openclaw {
namespace {

Call hint_overlap_call(Args& in) {
  OverlapRequest request;
  request.T = in.integer("positions", 1, kMostElements);
  request.M = in.integer("hints", 1, INT32_MAX);
  request.k = in.integer("k", 1, INT32_MAX);
  request.student = in.array<const int32_t>("student", request.T * request.k).data;
  request.teachers = in.array<const int32_t>("teachers", request.M * request.T * request.k).data;
  request.mask = in.optional_array<const uint8_t>("mask", request.T).data;
  OverlapOut out;
  out.overlap = in.result<int32_t>("overlap", request.M * request.T).data;
  out.token_choice = in.result<int32_t>("tokenChoice", request.T).data;
  const auto totals = in.result<double>("totals", request.M);
  auto choice = std::make_shared<int32_t>(0);
  auto work = [=](Lane& lane) {
    std::vector<int64_t> sums((size_t)request.M);
    OverlapOut all = out;
    all.totals = sums.data();
    *choice = hint_overlap(request, all, lane);
    for (int64_t h = 0; h < request.M; h++) totals.data[h] = (double)sums[(size_t)h];
  };
  return {work, [choice](Args& args) { args.give("choice", *choice); }};
}

// Finite where present says so; an absent entry may hold anything.
void check_present(const Args& in, const char* key, Borrowed<const float> values, const uint8_t* present) {
  for (int64_t i = 0; i < values.size; i++)
    if (!present || present[i])
      OC_CHECK(std::isfinite(values.data[i]), Code::E_NOT_FINITE,
               "%s: expected finite numbers, got %g at %lld", in.path(key).c_str(), values.data[i],
               (long long)i);
}

Call group_advantages_call(Args& in) {
  GroupRequest request;
  const auto rewards = in.array<const float>("rewards", -1);
  request.n = rewards.size;
  request.rewards = rewards.data;
  request.group = in.array<const int32_t>("group", request.n).data;
  request.step = in.optional_array<const int32_t>("step", request.n).data;
  request.present = in.optional_array<const uint8_t>("present", request.n).data;
  request.normalise = in.boolean("normalise", true);
  check_present(in, "rewards", rewards, request.present);
  float* advantages = in.result<float>("advantages", request.n).data;
  auto report = std::make_shared<GroupReport>();
  auto answer = [report](Args& args) {
    args.give("groups", (double)report->groups);
    args.give("singles", (double)report->singles);
    args.give("equal", (double)report->equal);
    args.give("absent", (double)report->absent);
  };
  return {[=](Lane&) { *report = group_advantages(request, advantages); }, answer};
}

Call step_rewards_call(Args& in) {
  StepRewardsRequest request;
  request.T = in.integer("steps", 1, kMostElements);
  request.m = in.integer("votesPerStep", 1, INT32_MAX);
  const auto votes = in.array<const float>("votes", request.T * request.m);
  request.votes = votes.data;
  request.readable = in.optional_array<const uint8_t>("readable", votes.size).data;
  check_present(in, "votes", votes, request.readable);
  const auto outcome = in.optional_array<const float>("outcome", request.T);
  in.check_finite("outcome", outcome);
  request.outcome = outcome.data;
  request.outcome_alone = in.boolean("outcomeAlone", false);
  float* rewards = in.result<float>("rewards", request.T).data;
  uint8_t* present = in.result<uint8_t>("present", request.T).data;
  auto report = std::make_shared<StepRewardsReport>();
  auto answer = [report](Args& args) {
    args.give("presentSteps", (double)report->present);
    args.give("absentSteps", (double)report->absent);
    args.give("readableVotes", (double)report->votes);
    args.give("failedVotes", (double)report->failed_votes);
  };
  return {[=](Lane&) { *report = step_rewards(request, rewards, present); }, answer};
}

}  // namespace

void register_kernels(Napi::Env env, Napi::Object exports) {
  Napi::Object kernels = Napi::Object::New(env);
  define_logit_calls(kernels);
  define_loss_calls(kernels);
  define_call(kernels, "hintOverlap", hint_overlap_call);
  define_call(kernels, "groupAdvantages", group_advantages_call);
  define_call(kernels, "stepRewards", step_rewards_call);
  exports.Set("kernels", kernels);
}

}  // namespace openclaw
