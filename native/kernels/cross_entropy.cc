#include "native/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "native/base/error.h"
#include "native/kernels/rl_simd.h"

namespace openclaw {
namespace {

// About what one thread does in 50 microseconds: less is not worth waking another.
constexpr int64_t kPieceElements = 128 * 1024;

void check(const CrossEntropyRequest& in, const CrossEntropyOut& out) {
  const Logits& z = in.logits;
  OC_CHECK(z.dtype == DType::F32 || z.dtype == DType::BF16, Code::E_DTYPE, "logits: expected f32 or bf16");
  OC_CHECK(z.rows >= 0 && z.vocab >= 1 && z.stride >= z.vocab && (!out.dz || out.stride >= z.vocab),
           Code::E_SHAPE, "stride: expected at least vocab >= 1, got %lld and %lld for %lld",
           (long long)z.stride, (long long)out.stride, (long long)z.vocab);
}

bool counted(const CrossEntropyRequest& in, int64_t t) {
  return in.ids[t] >= 0 && (!in.mask || in.mask[t] != 0);
}

int64_t count_rows(const CrossEntropyRequest& in) {
  int64_t n = 0;
  for (int64_t t = 0; t < in.logits.rows; t++) {
    OC_CHECK(in.ids[t] < in.logits.vocab, Code::E_TOKEN_ID, "ids: expected below %lld, got %d at %lld",
             (long long)in.logits.vocab, in.ids[t], (long long)t);
    n += counted(in, t);
  }
  return n;
}

double gradient_scale(const CrossEntropyRequest& in, int64_t n) {
  return in.mean ? in.scale / (double)n : in.scale;
}

double logit(const Logits& z, int64_t t, int64_t j) {
  const int64_t at = t * z.stride + j;
  return z.dtype == DType::F32 ? ((const float*)z.data)[at] : bf16_to_f32(((const uint16_t*)z.data)[at]);
}

double checked_loss(double loss, int64_t t) {
  OC_CHECK(std::isfinite(loss), Code::E_NOT_FINITE,
           "logits: expected a finite loss, got NaN or infinity in row %lld", (long long)t);
  return loss;
}

RowScan scan_row(const Logits& z, int64_t t) {
  RowScan scan;
  if (z.dtype == DType::F32)
    rl_table().scan_f32((const float*)z.data + t * z.stride, z.vocab, scan);
  else
    rl_table().scan_bf16((const uint16_t*)z.data + t * z.stride, z.vocab, scan);
  return scan;
}

// dz = s (p - [j = y]) with p = exp(z - max) / sum.
void gradient_row(const CrossEntropyRequest& in, int64_t t, const RowScan& scan, double s, float* dz) {
  const Logits& z = in.logits;
  const auto factor = (float)(s / scan.sum);
  if (z.dtype == DType::F32)
    rl_table().scaled_exp_f32((const float*)z.data + t * z.stride, z.vocab, 1, scan.max, factor, dz);
  else
    rl_table().scaled_exp_bf16((const uint16_t*)z.data + t * z.stride, z.vocab, 1, scan.max, factor, dz);
  dz[in.ids[t]] = (float)(dz[in.ids[t]] - s);
}

double one_row(const CrossEntropyRequest& in, const CrossEntropyOut& out, int64_t t, double s) {
  float* dz = out.dz ? out.dz + t * out.stride : nullptr;
  if (!counted(in, t)) {
    if (dz) std::fill_n(dz, in.logits.vocab, 0.f);
    return 0;
  }
  const RowScan scan = scan_row(in.logits, t);
  const double loss = checked_loss(std::log(scan.sum) - (logit(in.logits, t, in.ids[t]) - scan.max), t);
  if (dz) gradient_row(in, t, scan, s, dz);
  return loss;
}

// Sums the rows' losses in their order: the same bits for any number of threads.
CrossEntropyReport report_of(const CrossEntropyRequest& in, const double* losses, int64_t n) {
  CrossEntropyReport report;
  report.counted = n;
  for (int64_t t = 0; t < in.logits.rows; t++) report.loss += losses[t];
  report.loss *= n ? gradient_scale(in, n) : 0;
  return report;
}

}  // namespace

CrossEntropyReport cross_entropy(const CrossEntropyRequest& in, const CrossEntropyOut& out, Lane& lane) {
  check(in, out);
  const int64_t n = count_rows(in), grain = std::max<int64_t>(1, kPieceElements / in.logits.vocab);
  const double s = gradient_scale(in, n);
  std::vector<double> losses((size_t)in.logits.rows);
  lane.parallel_for(in.logits.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; t++) {
      losses[(size_t)t] = one_row(in, out, t, s);
      if (out.loss) out.loss[t] = (float)losses[(size_t)t];
    }
  });
  return report_of(in, losses.data(), n);
}

namespace reference {

CrossEntropyReport cross_entropy(const CrossEntropyRequest& in, const CrossEntropyOut& out) {
  check(in, out);
  const Logits& z = in.logits;
  const int64_t n = count_rows(in);
  const double s = gradient_scale(in, n);
  std::vector<double> losses((size_t)z.rows);
  for (int64_t t = 0; t < z.rows; t++) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < z.vocab; j++) max = std::max(max, logit(z, t, j));
    for (int64_t j = 0; j < z.vocab; j++) sum += std::exp(logit(z, t, j) - max);
    const bool counts = counted(in, t);
    losses[(size_t)t] = counts ? checked_loss(std::log(sum) + max - logit(z, t, in.ids[t]), t) : 0;
    if (out.loss) out.loss[t] = (float)losses[(size_t)t];
    for (int64_t j = 0; out.dz && j < z.vocab; j++)
      out.dz[t * out.stride + j] =
          counts ? (float)(s * (std::exp(logit(z, t, j) - max) / sum - (j == in.ids[t]))) : 0.f;
  }
  return report_of(in, losses.data(), n);
}

}  // namespace reference

}  // namespace openclaw
