// The door of the losses on log-probs.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "native/addon/kernels_addon.h"
#include "native/kernels/hybrid_loss.h"

namespace openclaw {
namespace {

// What rounding may leave above 0 in a log-prob. More than that is no log-prob: a probability, or a marker
// such as 1.
constexpr float kMostLogprob = 1e-3f;

// Which entries of an array are looked at: positions of `width` entries each, of which the ones with an id <
// 0 are padding.
struct Counted {
  std::vector<float> mask;  // [T]; empty: all positions
  int64_t width = 1;
  const int32_t* ids = nullptr;
  bool at(int64_t i) const {
    return (mask.empty() || mask[(size_t)(i / width)] != 0) && (!ids || ids[i] >= 0);
  }
};

// A position that counts nowhere may hold anything, NaN included.
void check_numbers(const Args& in, const char* key, Borrowed<const float> values, const Counted& counted) {
  for (int64_t i = 0; i < values.size; i++)
    if (counted.at(i))
      OC_CHECK(std::isfinite(values.data[i]), Code::E_NOT_FINITE,
               "%s: expected finite numbers, got %g at %lld", in.path(key).c_str(), values.data[i],
               (long long)i);
}

const float* read_logprobs(Args& in, const char* key, int64_t size, const Counted& counted) {
  const auto values = in.array<const float>(key, size);
  check_numbers(in, key, values, counted);
  for (int64_t i = 0; i < values.size; i++)
    if (counted.at(i))
      OC_CHECK(values.data[i] <= kMostLogprob, Code::E_ARGUMENT,
               "%s: expected log-probs, at most 0, got %g at %lld", in.path(key).c_str(), values.data[i],
               (long long)i);
  return values.data;
}

std::vector<float> read_mask(Args& in, int64_t positions) {
  const auto mask = in.optional_array<const uint8_t>("mask", positions);
  return {mask.data, mask.data + mask.size};
}

Clip read_clip(const Args& in) {
  return {(float)in.number("epsLow", 0, 1, 0.2), (float)in.number("epsHigh", 0, 100, 0.28)};
}

float read_delta_clip(const Args& in) { return (float)in.number("deltaClip", 0, kMaxExponent, 1); }

void give_clip(Args& args, const char* key, const ClipCounts& clip) {
  Napi::Object counts = Napi::Object::New(args.results().Env());
  counts.Set("low", (double)clip.low);
  counts.Set("high", (double)clip.high);
  counts.Set("exponentClamped", (double)clip.exponent_clamped);
  args.results().Set(key, counts);
}

// --- ppoLoss

Call ppo_loss_call(Args& in) {
  auto counted = std::make_shared<Counted>();
  PpoBatch batch;
  batch.rows = in.array<const float>("current", -1).size;
  counted->mask = read_mask(in, batch.rows);
  batch.l_cur = read_logprobs(in, "current", batch.rows, *counted);
  batch.l_old = read_logprobs(in, "old", batch.rows, *counted);
  const auto advantage = in.array<const float>("advantage", batch.rows);
  check_numbers(in, "advantage", advantage, *counted);
  batch.advantage = advantage.data;
  if (!counted->mask.empty()) batch.mask = counted->mask.data();
  const Clip clip = read_clip(in);
  const PpoOut out{in.result<float>("loss", batch.rows).data, in.result<float>("grad", batch.rows).data};
  auto report = std::make_shared<PpoReport>();
  auto answer = [report](Args& args) {
    args.give("mean", report->loss);
    args.give("meanRatio", report->ratio);
    args.give("tokens", (double)report->tokens);
    give_clip(args, "clip", report->clip);
  };
  return {[=](Lane&) { (void)counted, *report = ppo_loss(batch, clip, out); }, answer};
}

// --- opdLoss

Call opd_loss_call(Args& in) {
  auto counted = std::make_shared<Counted>();
  OpdBatch batch;
  batch.rows = in.integer("positions", 1, kMostElements);
  batch.k = counted->width = in.integer("k", 1, INT32_MAX);
  const int64_t size = batch.rows * batch.k;
  batch.ids = counted->ids = in.optional_array<const int32_t>("ids", size).data;
  counted->mask = read_mask(in, batch.rows);
  if (!counted->mask.empty()) batch.mask = counted->mask.data();
  batch.l_cur = read_logprobs(in, "current", size, *counted);
  batch.l_old = read_logprobs(in, "old", size, *counted);
  batch.l_teacher = read_logprobs(in, "teacher", size, *counted);
  const OpdParams params{read_clip(in), read_delta_clip(in)};
  const OpdOut out{in.result<float>("loss", batch.rows).data, in.result<float>("grad", size).data};
  auto report = std::make_shared<OpdReport>();
  auto answer = [report](Args& args) {
    args.give("mean", report->loss);
    args.give("tokens", (double)report->tokens);
    args.give("entries", (double)report->counts.entries);
    args.give("deltaClipped", (double)report->counts.delta_clipped);
    give_clip(args, "clip", report->counts.clip);
  };
  return {[=](Lane&) { (void)counted, *report = opd_loss(batch, params, out); }, answer};
}

// --- hybridLoss

// The batch, and the memory of ours that it points into.
struct HybridCall {
  HybridBatch batch;
  HybridParams params;
  HybridRowsOut out;
  HybridReport report;
  Counted everywhere, rewarded, hinted;  // all unmasked positions; those of turns with a reward, with a hint
};

void read_offsets(Args& in, HybridBatch& batch) {
  const auto offsets = in.array<const int32_t>("offsets", -1);
  batch.turns = offsets.size - 1;
  bool fits = batch.turns >= 1 && offsets.data[0] == 0;
  for (int64_t n = 0; fits && n < batch.turns; n++) fits = offsets.data[n] <= offsets.data[n + 1];
  OC_CHECK(fits && offsets.data[batch.turns] >= 1, Code::E_SHAPE,
           "%s: expected turns + 1 numbers ascending from 0 to the number of positions",
           in.path("offsets").c_str());
  batch.offsets = offsets.data;
  batch.positions.rows = offsets.data[batch.turns];
}

// The mask of a term: unmasked positions of the turns that have it.
std::vector<float> mask_of(const HybridBatch& batch, const std::vector<float>& mask, const uint8_t* has) {
  std::vector<float> out = mask.empty() ? std::vector<float>((size_t)batch.positions.rows, 1.f) : mask;
  for (int64_t n = 0; has && n < batch.turns; n++)
    if (!has[n]) std::fill(out.begin() + batch.offsets[n], out.begin() + batch.offsets[n + 1], 0.f);
  return out;
}

void read_rl(Args& in, HybridCall& call) {
  HybridRows& p = call.batch.positions;
  if (!in.has("advantage") && !in.has("old") && !in.has("hasReward")) return;
  call.batch.has_reward = in.optional_array<const uint8_t>("hasReward", call.batch.turns).data;
  call.rewarded.mask = mask_of(call.batch, call.everywhere.mask, call.batch.has_reward);
  p.l_old = read_logprobs(in, "old", p.rows, call.rewarded);
  const auto advantage = in.array<const float>("advantage", p.rows);
  check_numbers(in, "advantage", advantage, call.rewarded);
  p.advantage = advantage.data;
}

void read_opd(Args& in, HybridCall& call) {
  HybridRows& p = call.batch.positions;
  if (!in.has("topIds") && !in.has("topCurrent") && !in.has("topOld") && !in.has("topTeacher") &&
      !in.has("hasHint"))
    return;
  p.k = call.hinted.width = in.integer("k", 1, INT32_MAX);
  const int64_t size = p.rows * p.k;
  call.batch.has_hint = in.optional_array<const uint8_t>("hasHint", call.batch.turns).data;
  p.ids = call.hinted.ids = in.array<const int32_t>("topIds", size).data;
  call.hinted.mask = mask_of(call.batch, call.everywhere.mask, call.batch.has_hint);
  p.top_cur = read_logprobs(in, "topCurrent", size, call.hinted);
  p.top_old = read_logprobs(in, "topOld", size, call.hinted);
  p.top_teacher = read_logprobs(in, "topTeacher", size, call.hinted);
  call.out.g_v = in.result<float>("gradTop", size).data;
}

void read_tokens(Args& in, HybridCall& call) {
  HybridRows& p = call.batch.positions;
  if (in.has("reference")) p.l_ref = read_logprobs(in, "reference", p.rows, call.everywhere);
  if (!p.advantage && !p.l_ref) return;
  p.l_cur = read_logprobs(in, "current", p.rows, p.l_ref ? call.everywhere : call.rewarded);
}

void read_weights(Args& in, HybridCall& call) {
  HybridBatch& b = call.batch;
  b.w_rl = in.number("wRl", 0, 1e6, 1);
  b.w_opd = in.number("wOpd", 0, 1e6, 1);
  b.beta = in.number("beta", 0, 1e6, 0);
  if (in.has("aggregate"))
    b.aggregate = (Aggregate)in.choice("aggregate", {"turn-mean", "token-mean", "fixed"});
  b.divisor = b.aggregate == Aggregate::Fixed ? in.number("divisor", 1e-30, 1e30) : 1;
  call.params = {read_clip(in), read_delta_clip(in)};
}

void give_report(Args& args, const HybridReport& r) {
  args.give("total", r.loss());
  args.give("rl", r.sums.rl);
  args.give("opd", r.sums.opd);
  args.give("k3", r.sums.k3);
  args.give("tokens", (double)r.sums.tokens);
  args.give("turnsWithReward", (double)r.turns_with_reward);
  args.give("turnsWithHint", (double)r.turns_with_hint);
  args.give("turnsWithTokens", (double)r.turns_with_tokens);
  args.give("deltaClipped", (double)r.sums.delta_clipped);
  args.give("topEntries", (double)r.sums.top_entries);
  args.give("meanRatio", r.sums.ratio_count ? r.sums.ratio_sum / (double)r.sums.ratio_count : 1);
  give_clip(args, "rlClip", r.sums.rl_clip);
  give_clip(args, "opdClip", r.sums.opd_clip);
}

Call hybrid_loss_call(Args& in) {
  auto call = std::make_shared<HybridCall>();
  read_offsets(in, call->batch);
  call->everywhere.mask = read_mask(in, call->batch.positions.rows);
  if (!call->everywhere.mask.empty()) call->batch.positions.mask = call->everywhere.mask.data();
  read_rl(in, *call);
  read_opd(in, *call);
  read_tokens(in, *call);
  read_weights(in, *call);
  const HybridRows& p = call->batch.positions;
  OC_CHECK(
      p.advantage || p.ids || p.l_ref, Code::E_ARGUMENT,
      "%s: expected the inputs of at least one term: advantage and old, or topIds and the rest, or reference",
      in.path("advantage").c_str());
  call->out.loss = in.result<float>("loss", p.rows).data;
  call->out.g_y = in.result<float>("gradToken", p.rows).data;
  return {[call](Lane&) { call->report = hybrid_loss(call->batch, call->params, call->out); },
          [call](Args& args) { give_report(args, call->report); }};
}

}  // namespace

void define_loss_calls(Napi::Object kernels) {
  define_call(kernels, "ppoLoss", ppo_loss_call);
  define_call(kernels, "opdLoss", opd_loss_call);
  define_call(kernels, "hybridLoss", hybrid_loss_call);
}

}  // namespace openclaw
