#include "native/kernels/logit_grad.h"

#include <algorithm>
#include <cmath>

#include "native/base/error.h"
#include "native/kernels/rl_simd.h"

namespace openclaw {
namespace {

// About what one thread does in 50 microseconds: less is not worth waking another.
constexpr int64_t kPieceElements = 128 * 1024;

void check(const LogitGradRequest& in, int64_t ldd) {
  OC_CHECK(in.dtype == DType::F32 || in.dtype == DType::BF16, Code::E_DTYPE, "logits: expected f32 or bf16");
  OC_CHECK(in.rows >= 0 && in.vocab >= 1 && in.ldl >= in.vocab && ldd >= in.vocab, Code::E_SHAPE,
           "stride: expected at least vocab >= 1, got %lld and %lld for %lld", (long long)in.ldl,
           (long long)ldd, (long long)in.vocab);
  OC_CHECK(in.temperature >= 1e-6f && in.temperature <= 1e6f, Code::E_ARGUMENT,
           "temperature: expected 1e-6 to 1e6, got %g", in.temperature);
  OC_CHECK(in.log_sum && in.g >= 0, Code::E_ARGUMENT, "log_sum: expected one number a row");
}

// G and whether anything is to be done, over the entries that are not padding.
struct RowGradient {
  double sum = 0;
  bool any = false;
};

RowGradient row_gradient(const LogitGradRequest& in, int64_t t) {
  RowGradient g;
  for (int64_t i = t * in.g; i < (t + 1) * in.g; i++) {
    OC_CHECK(in.ids[i] < in.vocab, Code::E_TOKEN_ID, "ids: expected below %lld, got %d at %lld",
             (long long)in.vocab, in.ids[i], (long long)i);
    if (in.ids[i] < 0 || in.grads[i] == 0) continue;
    g.sum += in.grads[i];
    g.any = true;
  }
  return g;
}

// exp(z / temperature - shift) * factor = p: with (max, log_sum) apart no digit of a common offset is lost.
struct Softmax {
  double shift, factor;
};

Softmax softmax_of(const LogitGradRequest& in, int64_t t) {
  if (in.max) return {in.max[t], std::exp(-(double)in.log_sum[t])};
  return {in.log_sum[t], 1};
}

void add_sparse(const LogitGradRequest& in, int64_t t, float* dz) {
  const double inv_temperature = 1 / (double)in.temperature;
  for (int64_t i = t * in.g; i < (t + 1) * in.g; i++) {
    const int32_t id =
        in.ids[i];  // checked again where it is used: the caller's array may change under an async call
    if (id >= 0 && id < in.vocab) dz[id] = (float)(dz[id] + in.grads[i] * inv_temperature);
  }
}

void gradient_row(const LogitGradRequest& in, int64_t t, float* dz) {
  const RowGradient g = row_gradient(in, t);
  if (g.sum == 0) {
    std::fill_n(dz, in.vocab, 0.f);
  } else {
    const Softmax p = softmax_of(in, t);
    const auto factor = (float)(-g.sum * p.factor / in.temperature);
    if (in.dtype == DType::F32)
      rl_table().scaled_exp_f32((const float*)in.logits + t * in.ldl, in.vocab, 1 / in.temperature,
                                (float)p.shift, factor, dz);
    else
      rl_table().scaled_exp_bf16((const uint16_t*)in.logits + t * in.ldl, in.vocab, 1 / in.temperature,
                                 (float)p.shift, factor, dz);
  }
  if (g.any) add_sparse(in, t, dz);
}

}  // namespace

void logit_grad(const LogitGradRequest& in, float* dz, int64_t ldd, Lane& lane) {
  check(in, ldd);
  const int64_t grain = std::max<int64_t>(1, kPieceElements / in.vocab);
  lane.parallel_for(in.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; t++) gradient_row(in, t, dz + t * ldd);
  });
}

void logit_grad_rows(float* logits_inout, int64_t ldl, int64_t rows, int64_t V, const float* lse,
                     const int32_t* ids, const float* grads, int64_t g, Lane& lane) {
  LogitGradRequest in;
  in.logits = logits_inout;
  in.ldl = ldl, in.rows = rows, in.vocab = V;
  in.log_sum = lse;
  in.g = g, in.ids = ids, in.grads = grads;
  logit_grad(in, logits_inout, ldl, lane);
}

namespace reference {

void logit_grad(const LogitGradRequest& in, float* dz, int64_t ldd) {
  check(in, ldd);
  for (int64_t t = 0; t < in.rows; t++) {
    const RowGradient g = row_gradient(in, t);
    const Softmax p = softmax_of(in, t);
    for (int64_t j = 0; j < in.vocab; j++) {
      const int64_t at = t * in.ldl + j;
      const double z = in.dtype == DType::F32 ? ((const float*)in.logits)[at]
                                              : bf16_to_f32(((const uint16_t*)in.logits)[at]);
      double d = g.sum == 0 ? 0 : -g.sum * p.factor * std::exp(z / in.temperature - p.shift);
      for (int64_t i = t * in.g; i < (t + 1) * in.g; i++)
        if (in.ids[i] == j) d += in.grads[i];
      dz[t * ldd + j] = (float)(d / in.temperature);
    }
  }
}

}  // namespace reference

}  // namespace openclaw
