#include "native/kernels/logit_stats.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "native/base/error.h"
#include "native/kernels/rl_simd.h"
#include "native/kernels/scratch.h"

namespace openclaw {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
// About what one thread does in 50 microseconds: less is not worth waking another.
constexpr int64_t kPieceElements = 128 * 1024;
// Longer candidate lists are sorted; shorter ones placed by counting, k * k / 2 comparisons without a branch.
constexpr int64_t kMostCounted = 256;

void check(const LogitStatsRequest& in) {
  const Logits& z = in.logits;
  OC_CHECK(z.dtype == DType::F32 || z.dtype == DType::BF16, Code::E_DTYPE, "logits: expected f32 or bf16");
  OC_CHECK(z.rows >= 0 && z.vocab >= 1 && z.stride >= z.vocab, Code::E_SHAPE,
           "stride: expected at least vocab >= 1, got %lld for %lld", (long long)z.stride,
           (long long)z.vocab);
  OC_CHECK(z.vocab <= INT32_MAX, Code::E_SHAPE, "vocab: expected below 2^31, got %lld", (long long)z.vocab);
  OC_CHECK(in.temperature >= 1e-6f && in.temperature <= 1e6f, Code::E_ARGUMENT,
           "temperature: expected 1e-6 to 1e6, got %g", in.temperature);
  OC_CHECK(in.k >= 0 && in.g >= 0 && (in.g == 0 || in.gather_ids), Code::E_ARGUMENT,
           "k, g: expected at least 0, with gather ids for g, got %lld, %lld", (long long)in.k,
           (long long)in.g);
}

float logit(const Logits& z, int64_t t, int64_t j) {
  const int64_t at = t * z.stride + j;
  return z.dtype == DType::F32 ? ((const float*)z.data)[at] : bf16_to_f32(((const uint16_t*)z.data)[at]);
}

// --- one row's answer, from its statistics

// What is known of a row that is a distribution, in units of z / temperature.
struct Row {
  double max, log_sum, entropy;
  double logprob(float z, double temperature) const { return (z / temperature - max) - log_sum; }
};

template <class T>
void put(T* out, int64_t t, T value) {
  if (out) out[t] = value;
}

void put_row(const LogitStatsOut& out, int64_t t, double max, double log_sum, double entropy) {
  put(out.max, t, (float)max);
  put(out.log_sum, t, (float)log_sum);
  put(out.lse, t, (float)(max + log_sum));
  put(out.entropy, t, (float)entropy);
}

// Fills the top from entry n on, and flags it when that is short of k.
void fill_top(const LogitStatsRequest& in, const LogitStatsOut& out, int64_t t, int64_t n, float logprob) {
  for (int64_t i = t * in.k + n; i < (t + 1) * in.k; i++) {
    if (out.top_ids) out.top_ids[i] = -1;
    if (out.top_logprobs) out.top_logprobs[i] = logprob;
  }
}

void fill_gathered(const LogitStatsRequest& in, const LogitStatsOut& out, int64_t t, float logprob) {
  if (out.gathered) std::fill_n(out.gathered + t * in.g, in.g, logprob);
}

// No distribution at all: NaN, all -inf, or masked.
void put_nothing(const LogitStatsRequest& in, const LogitStatsOut& out, int64_t t, double lse, float logprob,
                 uint8_t flag) {
  put_row(out, t, lse, lse, kNaN);
  fill_top(in, out, t, 0, logprob);
  fill_gathered(in, out, t, logprob);
  put(out.flags, t, flag);
}

template <class Logprob>
void put_gathered(const LogitStatsRequest& in, const LogitStatsOut& out, int64_t t, const Logprob& logprob) {
  if (!out.gathered) return;
  for (int64_t i = t * in.g; i < (t + 1) * in.g; i++) {
    const int32_t id = in.gather_ids[i];
    OC_CHECK(id < in.logits.vocab, Code::E_TOKEN_ID, "gather_ids: expected below %lld, got %d at %lld",
             (long long)in.logits.vocab, id, (long long)i);
    out.gathered[i] = id < 0 ? (float)-kInf : (float)logprob(logit(in.logits, t, id));
  }
}

// --- rows in double, by sorting: the oracle, and what answers for rows that hold NaN or +inf

struct Entry {
  float z;
  int32_t id;
};
bool before(const Entry& a, const Entry& b) { return a.z > b.z || (a.z == b.z && a.id < b.id); }

// The k best entries above -inf, in order.
std::vector<Entry> best_entries(const Logits& z, int64_t t, int64_t k) {
  std::vector<Entry> entries;
  for (int64_t j = 0; j < z.vocab; j++)
    if (logit(z, t, j) > -kInf) entries.push_back({logit(z, t, j), (int32_t)j});
  const int64_t n = std::min<int64_t>(k, (int64_t)entries.size());
  std::partial_sort(entries.begin(), entries.begin() + n, entries.end(), before);
  entries.resize((size_t)n);
  return entries;
}

template <class Logprob>
uint8_t put_top(const LogitStatsRequest& in, const LogitStatsOut& out, int64_t t,
                const std::vector<Entry>& best, const Logprob& logprob) {
  for (size_t i = 0; i < best.size(); i++) {
    if (out.top_ids) out.top_ids[t * in.k + (int64_t)i] = best[i].id;
    if (out.top_logprobs) out.top_logprobs[t * in.k + (int64_t)i] = (float)logprob(best[i].z);
  }
  fill_top(in, out, t, (int64_t)best.size(), (float)-kInf);
  return (int64_t)best.size() < in.k ? kRowShort : 0;
}

struct Kinds {
  int64_t nan = 0, infinite = 0, finite = 0;
  double max = -kInf;
};

Kinds kinds(const Logits& z, int64_t t) {
  Kinds n;
  for (int64_t j = 0; j < z.vocab; j++) {
    const double v = logit(z, t, j);
    if (v > n.max) n.max = v;
    n.nan += std::isnan(v), n.infinite += v == kInf, n.finite += std::isfinite(v);
  }
  return n;
}

Row softmax_row(const LogitStatsRequest& in, int64_t t, double max) {
  Row row{max / in.temperature, 0, 0};
  double sum = 0, weighted = 0;
  for (int64_t j = 0; j < in.logits.vocab; j++) {
    const double u = logit(in.logits, t, j) / (double)in.temperature - row.max, e = std::exp(u);
    sum += e;
    if (e > 0) weighted += e * u;
  }
  row.log_sum = std::log(sum);
  row.entropy = row.log_sum - weighted / sum;
  return row;
}

void reference_row(const LogitStatsRequest& in, const LogitStatsOut& out, int64_t t) {
  const Kinds n = kinds(in.logits, t);
  if (n.nan) return put_nothing(in, out, t, kNaN, kNaN, kRowNaN);
  if (!n.infinite && !n.finite)
    return put_nothing(in, out, t, -kInf, (float)-kInf, kRowEmpty | (in.k > 0 ? kRowShort : 0));
  const std::vector<Entry> best = best_entries(in.logits, t, in.k);
  if (n.infinite) {
    const double share = -std::log((double)n.infinite);
    auto logprob = [=](float z) { return z == kInf ? share : -kInf; };
    put_row(out, t, kInf, -share, -share);
    put(out.flags, t, (uint8_t)(kRowInf | put_top(in, out, t, best, logprob)));
    return put_gathered(in, out, t, logprob);
  }
  const Row row = softmax_row(in, t, n.max);
  auto logprob = [&](float z) { return row.logprob(z, in.temperature); };
  put_row(out, t, row.max, row.log_sum, row.entropy);
  put(out.flags, t, put_top(in, out, t, best, logprob));
  put_gathered(in, out, t, logprob);
}

bool masked(const LogitStatsRequest& in, int64_t t) { return in.mask && in.mask[t] == 0; }

// --- rows in one pass

// Memory of one thread: the candidates, and their order.
struct Working {
  Scratch values, ids, ordered_values, ordered_ids;
};

void scan(const LogitStatsRequest& in, int64_t t, RowScan& scan) {
  const Logits& z = in.logits;
  if (z.dtype == DType::F32)
    rl_table().scan_f32((const float*)z.data + t * z.stride, z.vocab, scan);
  else
    rl_table().scan_bf16((const uint16_t*)z.data + t * z.stride, z.vocab, scan);
}

void sort_entries(const RowScan& found, float* values, int32_t* ids) {
  std::vector<Entry> entries((size_t)found.count);
  for (int64_t i = 0; i < found.count; i++) entries[(size_t)i] = {found.values[i], found.ids[i]};
  std::sort(entries.begin(), entries.end(), before);
  for (int64_t i = 0; i < found.count; i++) values[i] = entries[(size_t)i].z, ids[i] = entries[(size_t)i].id;
}

uint8_t put_found(const LogitStatsRequest& in, const LogitStatsOut& out, int64_t t, const RowScan& found,
                  const Row& row, Working& working) {
  float* values = working.ordered_values.floats(in.k);
  auto* ids = (int32_t*)working.ordered_ids.floats(in.k);
  if (found.count > kMostCounted)
    sort_entries(found, values, ids);
  else
    rl_table().rank(found.values, found.ids, found.count, values, ids);
  for (int64_t i = 0; i < found.count; i++) {
    if (out.top_ids) out.top_ids[t * in.k + i] = ids[i];
    if (out.top_logprobs) out.top_logprobs[t * in.k + i] = (float)row.logprob(values[i], in.temperature);
  }
  fill_top(in, out, t, found.count, (float)-kInf);
  return found.count < in.k ? kRowShort : 0;
}

void one_pass_row(const LogitStatsRequest& in, const LogitStatsOut& out, int64_t t, Working& working) {
  RowScan found;
  found.inv_temperature = 1 / in.temperature;
  found.entropy = out.entropy != nullptr;
  found.k = std::min(in.k, in.logits.vocab);
  found.values = working.values.floats(scan_capacity(found.k));
  found.ids = (int32_t*)working.ids.floats(scan_capacity(found.k));
  scan(in, t, found);
  // not finite: NaN or +inf in the row; no maximum: all -inf, or so low that the start value hides it
  if (!std::isfinite(found.sum) || found.max <= -FLT_MAX) return reference_row(in, out, t);
  Row row{(double)found.max / in.temperature, std::log(found.sum), 0};
  row.entropy = row.log_sum - found.weighted / found.sum / in.temperature;
  put_row(out, t, row.max, row.log_sum, row.entropy);
  put(out.flags, t, in.k > 0 ? put_found(in, out, t, found, row, working) : (uint8_t)0);
  put_gathered(in, out, t, [&](float z) { return row.logprob(z, in.temperature); });
}

}  // namespace

void logit_stats(const LogitStatsRequest& in, const LogitStatsOut& out, Lane& lane) {
  check(in);
  const int64_t grain = std::max<int64_t>(1, kPieceElements / in.logits.vocab);
  lane.parallel_for(in.logits.rows, grain, [&](int64_t begin, int64_t end, int) {
    static thread_local Working working;
    for (int64_t t = begin; t < end; t++) {
      if (masked(in, t))
        put_nothing(in, out, t, kNaN, kNaN, kRowMasked);
      else
        one_pass_row(in, out, t, working);
    }
  });
}

namespace reference {

void logit_stats(const LogitStatsRequest& in, const LogitStatsOut& out) {
  check(in);
  for (int64_t t = 0; t < in.logits.rows; t++) {
    if (masked(in, t))
      put_nothing(in, out, t, kNaN, kNaN, kRowMasked);
    else
      reference_row(in, out, t);
  }
}

}  // namespace reference

}  // namespace openclaw
