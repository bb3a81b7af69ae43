// The door of the kernels that read logits.
#include "native/addon/kernels_addon.h"
#include "native/kernels/cross_entropy.h"
#include "native/kernels/logit_grad.h"
#include "native/kernels/logit_stats.h"

namespace openclaw {
namespace {

constexpr double kLowestTemperature = 1e-6, kHighestTemperature = 1e6;

// logits: Float32Array (f32) or Uint16Array (the bits of bf16), rows * stride elements; the last row may end
// at its vocab.
Logits read_logits(Args& in) {
  Logits z;
  z.rows = in.integer("rows", 1, kMostElements);
  z.vocab = in.integer("vocab", 1, INT32_MAX);
  z.stride = in.integer("stride", z.vocab, kMostElements, z.vocab);
  const AnyArray a = in.borrow("logits", {napi_float32_array, napi_uint16_array},
                               "a Float32Array, or a Uint16Array of bf16 bits");
  const int64_t full = z.rows * z.stride, least = full - z.stride + z.vocab;
  if (a.size != least) in.check_length("logits", a.size, full);
  z.dtype = a.type == napi_float32_array ? DType::F32 : DType::BF16;
  z.data = a.data;
  return z;
}

int threads_of(const Args& in) { return in.boolean("singleThread", false) ? 1 : 0; }

// The gradient's array: new, or the caller's `out`, which may be the logits themselves but may not overlap
// them otherwise.
Borrowed<float> gradient_array(Args& in, const Logits& z) {
  if (!in.has("out")) return in.result<float>("dz", z.rows * z.stride);
  const auto out = in.array<float>("out", -1);
  const int64_t full = z.rows * z.stride, least = full - z.stride + z.vocab;
  if (out.size != least) in.check_length("out", out.size, full);
  const auto begin = (uintptr_t)out.data, end = begin + (uintptr_t)out.size * sizeof(float);
  const auto from = (uintptr_t)z.data, to = from + (uintptr_t)(least * dtype_bytes(z.dtype));
  const bool apart = end <= from || to <= begin, same = begin == from && z.dtype == DType::F32;
  OC_CHECK(apart || same, Code::E_ARGUMENT,
           "%s: expected the f32 logits themselves or an array that does not overlap them",
           in.path("out").c_str());
  in.results().Set("dz", in.get("out"));
  return out;
}

// --- logitStats

int64_t gather_width(const Args& in, Borrowed<const int32_t> ids, int64_t rows) {
  if (!ids) return 0;
  OC_CHECK(ids.size % rows == 0, Code::E_SHAPE, "%s: expected a multiple of rows = %lld elements, got %lld",
           in.path("gather").c_str(), (long long)rows, (long long)ids.size);
  return ids.size / rows;
}

LogitStatsOut stats_results(Args& in, const LogitStatsRequest& request, bool entropy) {
  const int64_t T = request.logits.rows;
  LogitStatsOut out;
  out.max = in.result<float>("max", T).data;
  out.log_sum = in.result<float>("logSum", T).data;
  out.lse = in.result<float>("lse", T).data;
  out.flags = in.result<uint8_t>("flags", T).data;
  if (entropy) out.entropy = in.result<float>("entropy", T).data;
  if (request.k > 0) {
    out.top_ids = in.result<int32_t>("topIds", T * request.k).data;
    out.top_logprobs = in.result<float>("topLogprobs", T * request.k).data;
  }
  if (request.g > 0) out.gathered = in.result<float>("gathered", T * request.g).data;
  return out;
}

Call logit_stats_call(Args& in) {
  LogitStatsRequest request;
  request.logits = read_logits(in);
  request.temperature = (float)in.number("temperature", kLowestTemperature, kHighestTemperature, 1);
  request.mask = in.optional_array<const uint8_t>("mask", request.logits.rows).data;
  request.k = in.integer("k", 0, request.logits.vocab, 0);
  const auto ids = in.optional_array<const int32_t>("gather", -1);
  request.g = gather_width(in, ids, request.logits.rows);
  request.gather_ids = ids.data;
  in.check_ids("gather", ids, request.logits.vocab, -1);
  const LogitStatsOut out = stats_results(in, request, in.boolean("entropy", false));
  return {[=](Lane& lane) { logit_stats(request, out, lane); }, nullptr, threads_of(in)};
}

// --- logitGrad

Call logit_grad_call(Args& in) {
  const Logits z = read_logits(in);
  LogitGradRequest request;
  request.logits = z.data, request.dtype = z.dtype;
  request.ldl = z.stride, request.rows = z.rows, request.vocab = z.vocab;
  request.temperature = (float)in.number("temperature", kLowestTemperature, kHighestTemperature, 1);
  const bool apart = in.has("max") || in.has("logSum");
  OC_CHECK(apart != in.has("lse"), Code::E_ARGUMENT, "%s: expected lse, or max and logSum together",
           in.path("lse").c_str());
  if (apart) {
    const auto max = in.array<const float>("max", z.rows);
    in.check_finite("max", max);
    request.max = max.data;
  }
  const char* log_sum_key = apart ? "logSum" : "lse";
  const auto log_sum = in.array<const float>(log_sum_key, z.rows);
  in.check_finite(log_sum_key, log_sum);
  request.log_sum = log_sum.data;
  const auto ids = in.array<const int32_t>("ids", -1);
  OC_CHECK(ids.size % z.rows == 0, Code::E_SHAPE, "%s: expected a multiple of rows = %lld elements, got %lld",
           in.path("ids").c_str(), (long long)z.rows, (long long)ids.size);
  in.check_ids("ids", ids, z.vocab, -1);
  const auto grads = in.array<const float>("grads", ids.size);
  in.check_finite("grads", grads);
  request.g = ids.size / z.rows, request.ids = ids.data, request.grads = grads.data;
  float* dz = gradient_array(in, z).data;
  return {[=](Lane& lane) { logit_grad(request, dz, request.ldl, lane); }, nullptr, threads_of(in)};
}

// --- crossEntropy

Call cross_entropy_call(Args& in) {
  CrossEntropyRequest request;
  request.logits = read_logits(in);
  const int64_t T = request.logits.rows;
  const auto ids = in.array<const int32_t>("ids", T);
  in.check_ids("ids", ids, request.logits.vocab, -1);
  request.ids = ids.data;
  request.mask = in.optional_array<const uint8_t>("mask", T).data;
  request.mean = !in.has("reduction") || in.choice("reduction", {"mean", "sum"}) == 0;
  request.scale = in.number("scale", -1e30, 1e30, 1);
  CrossEntropyOut out;
  out.loss = in.result<float>("loss", T).data;
  out.stride = request.logits.stride;
  if (in.boolean("gradient", true)) out.dz = gradient_array(in, request.logits).data;
  auto report = std::make_shared<CrossEntropyReport>();
  auto answer = [report](Args& args) {
    args.give("total", report->loss);
    args.give("counted", (double)report->counted);
  };
  return {[=](Lane& lane) { *report = cross_entropy(request, out, lane); }, answer, threads_of(in)};
}

}  // namespace

void define_logit_calls(Napi::Object kernels) {
  define_call(kernels, "logitStats", logit_stats_call);
  define_call(kernels, "logitGrad", logit_grad_call);
  define_call(kernels, "crossEntropy", cross_entropy_call);
}

}  // namespace openclaw
