#include "native/addon/loss_fields.h"

#include <cmath>

namespace openclaw {
namespace {

const float* take_floats(const Fields& fields, const char* key, int64_t size, std::vector<float>& into) {
  into = fields.floats(key);
  OC_CHECK((int64_t)into.size() == size, Code::E_SHAPE, "%s: expected %lld numbers, got %zu",
           fields.path(key).c_str(), (long long)size, into.size());
  return into.data();
}

void check_finite(const Fields& fields, const char* key, const std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); i++)
    OC_CHECK(std::isfinite(values[i]), Code::E_NOT_FINITE, "%s[%zu]: expected a finite number, got %g",
             fields.path(key).c_str(), i, (double)values[i]);
}

void read_mask(const Fields& fields, int64_t R, OwnedLoss& out) {
  if (!fields.has("mask")) return;
  out.loss.mask = take_floats(fields, "mask", R, out.mask);
  for (size_t i = 0; i < out.mask.size(); i++)
    OC_CHECK(out.mask[i] == 0 || out.mask[i] == 1, Code::E_ARGUMENT, "%s[%zu]: expected 0 or 1, got %g",
             fields.path("mask").c_str(), i, (double)out.mask[i]);
}

void read_rl(const Fields& fields, int64_t R, OwnedLoss& out) {
  if (!fields.has("advantage")) return;
  out.loss.advantage = take_floats(fields, "advantage", R, out.advantage);
  out.loss.old_logprob = take_floats(fields, "oldLogprob", R, out.old_logprob);
  check_finite(fields, "advantage", out.advantage);
  check_finite(fields, "oldLogprob", out.old_logprob);
  out.loss.w_rl = (float)fields.number("wRl", 0, 1e6);
}

// Entries with a negative id are padding; their log-probs may be anything.
void check_top(const Fields& fields, const char* key, const std::vector<int32_t>& ids,
               const std::vector<float>& values) {
  for (size_t i = 0; i < ids.size(); i++)
    OC_CHECK(ids[i] < 0 || std::isfinite(values[i]), Code::E_NOT_FINITE,
             "%s[%zu]: expected a finite number, got %g", fields.path(key).c_str(), i, (double)values[i]);
}

void read_opd(const Fields& fields, int64_t R, int64_t vocab, OwnedLoss& out) {
  if (!fields.has("topIds")) return;
  const int64_t k = out.loss.k = fields.integer("k", 1, vocab);
  out.top_ids = fields.int32s("topIds");
  OC_CHECK((int64_t)out.top_ids.size() == R * k, Code::E_SHAPE,
           "%s: expected %lld ids (%lld positions of k = %lld), got %zu", fields.path("topIds").c_str(),
           (long long)(R * k), (long long)R, (long long)k, out.top_ids.size());
  for (size_t i = 0; i < out.top_ids.size(); i++)
    OC_CHECK(out.top_ids[i] < vocab, Code::E_TOKEN_ID, "%s[%zu]: expected a token id below %lld, got %d",
             fields.path("topIds").c_str(), i, (long long)vocab, out.top_ids[i]);
  out.loss.top_ids = out.top_ids.data();
  out.loss.top_old = take_floats(fields, "topOld", R * k, out.top_old);
  out.loss.top_teacher = take_floats(fields, "topTeacher", R * k, out.top_teacher);
  check_top(fields, "topOld", out.top_ids, out.top_old);
  check_top(fields, "topTeacher", out.top_ids, out.top_teacher);
  out.loss.w_opd = (float)fields.number("wOpd", 0, 1e6);
}

void read_reference(const Fields& fields, int64_t R, OwnedLoss& out) {
  if (!fields.has("refLogprob")) return;
  out.loss.ref_logprob = take_floats(fields, "refLogprob", R, out.ref_logprob);
  check_finite(fields, "refLogprob", out.ref_logprob);
  out.loss.beta = (float)fields.number("beta", 0, 1e6);
}

}  // namespace

std::unique_ptr<OwnedLoss> read_loss(const Fields& fields, int64_t count, int64_t vocab) {
  auto out = std::make_unique<OwnedLoss>();
  SequenceLoss& loss = out->loss;
  loss.from = fields.integer("from", 1, count - 1);
  const int64_t R = count - loss.from;
  read_mask(fields, R, *out);
  loss.weight = (float)fields.number("ce", 0, 1e6, 0);
  loss.cross_entropy = loss.weight > 0;
  read_rl(fields, R, *out);
  read_opd(fields, R, vocab, *out);
  read_reference(fields, R, *out);
  loss.w_anchor = (float)fields.number("wAnchor", 0, 1e6, 0);
  loss.eps_low = (float)fields.number("epsLow", 0, 1, loss.eps_low);
  loss.eps_high = (float)fields.number("epsHigh", 0, 1e3, loss.eps_high);
  loss.delta_clip = (float)fields.number("deltaClip", 0, 1e3, loss.delta_clip);
  return out;
}

}  // namespace openclaw
