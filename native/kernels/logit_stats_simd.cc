// One pass over a row of logits: running maximum, sum of exponentials, and the candidates of the top k.
//
// The row goes by in blocks of 16 vectors. One maximum over the block, compared with a threshold that is
// never above the k-th best value, decides whether the block is looked at again: nearly never, after the
// first blocks. Then the exponentials, from the first-level cache. The row's own first 4096 values give the
// start threshold (the k-th largest of 256 maxima of disjoint groups) and the start maximum. Whenever many
// candidates have come in they are cut back to the best k, which raises the threshold; a row that keeps them
// coming (ascending, say) is sampled once more, further on.
//
// Sums: two vectors of f32 lanes a block with eight additions each, then double. No long chain of f32
// anywhere.
#include <float.h>
#include <math.h>

#include "native/kernels/rl_simd.h"
#include "native/kernels/simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {
namespace {

constexpr int kVectors = 16, kBlock = kVectors * OC_VL;
constexpr int64_t kAheadBytes = 8192;  // of the prefetch into the second-level cache
constexpr int kGroups = 256, kGroupVectors = kGroups / OC_VL, kSampleRounds = 16;
constexpr int64_t kMostSampled = kGroups / 2;  // beyond, the k-th of 256 maxima says little
constexpr int kMostSingle = 8;                 // candidates of 64 that are taken one by one
constexpr int kMostNoted = 16;                 // blocks looked at together
constexpr int kPatience = 8,
              kMostSamples = 6;  // cuts after which the rest of the row is sampled, and how often
constexpr double kLog2e = 1.4426950408889634;

inline vf load(const float* p) { return vload(p); }
inline vf load(const uint16_t* p) { return vload_bf16(p); }

// --- order-preserving integers

// Floats in the order of their values as integers; -0 and +0 alike.
vi keys(vf v) {
  const vf normal = v + 0.f;
  vi bits;
  memcpy(&bits, &normal, sizeof bits);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

float value_of(int32_t key) {
  const int32_t bits = key ^ ((key >> 31) & 0x7fffffff);
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

// The largest value below `key`'s: "> below(key)" means ">= value_of(key)". The key -1 is -0, which equals
// +0.
float below(int32_t key) { return value_of(key == 0 ? -2 : key - 1); }

constexpr int32_t kLowestKey = (int32_t)0x80000000;

int64_t count_at_least(const float* values, int64_t vectors, int32_t key) {
  vi count = {};
  for (int64_t j = 0; j < vectors; j++) count -= keys(vload(values + j * OC_VL)) >= key;
  int64_t total = 0;
  for (int i = 0; i < OC_VL; i++) total += count[i];
  return total;
}

struct Cut {
  int32_t key;
  int64_t count;  // values at least value_of(key): k or more
};

// A key that at least k, and where ties allow it at most k + slack, of the values reach. Values lie in whole
// vectors, filled up with -inf.
Cut find_cut(const float* values, int64_t vectors, int64_t k, int64_t slack) {
  vi highest = keys(vload(values));
  for (int64_t j = 1; j < vectors; j++) {
    const vi key = keys(vload(values + j * OC_VL));
    highest = key > highest ? key : highest;
  }
  int64_t lo = kLowestKey, hi = kLowestKey, count = vectors * OC_VL;
  for (int i = 0; i < OC_VL; i++) hi = highest[i] > hi ? highest[i] : hi;
  hi++;
  while (hi - lo > 1 && count > k + slack) {
    const int64_t mid = (lo + hi) >> 1, c = count_at_least(values, vectors, (int32_t)mid);
    if (c >= k)
      lo = mid, count = c;
    else
      hi = mid;
  }
  return {(int32_t)lo, count};
}

// The lowest `most` of the bits.
uint32_t lowest_bits(uint32_t bits, int64_t most) {
  uint32_t kept = 0;
  for (; bits && most > 0; most--, bits &= bits - 1) kept |= bits & -bits;
  return kept;
}

// --- the scan

template <class T>
class Scan {
 public:
  Scan(const T* row, int64_t V, RowScan& scan)
      : row_(row),
        V_(V),
        scan_(scan),
        scale_((float)(-kLog2e * scan.inv_temperature)),
        farthest_(-126.f / scale_),
        threshold_(scan.k > 0 ? -INFINITY : INFINITY),
        full_(2 * scan.k + 64) {}

  void run() {
    sample(0, OC_VL);
    if (scan_.entropy)
      blocks<true>();
    else
      blocks<false>();
    if (held_ > scan_.k) cut(0);
    scan_.count = held_;
    scan_.max = max_;
    scan_.sum = total(sum_);
    scan_.weighted = total(weighted_);
  }

 private:
  // Blocks with candidates are noted without a branch, since nobody can predict which they are, and looked at
  // a few at a time.
  template <bool entropy>
  void blocks() {
    int32_t noted[kMostNoted];
    int count = 0;
    int64_t i = 0;
    for (; i + kBlock <= V_; i += kBlock) {
      noted[count] = (int32_t)i;
      count += block<entropy>(row_ + i);
      if (count == kMostNoted) take_noted(noted, count), count = 0;
    }
    take_noted(noted, count);
    if (i < V_) tail<entropy>(i);
  }

  void take_noted(const int32_t* noted, int count) {
    for (int n = 0; n < count; n++) take(row_ + noted[n], noted[n]);
  }

  // Adds a block to the sums; has it candidates?
  template <bool entropy, class U>
  bool block(const U* x) {
    vf top = load(x), top2 = load(x + OC_VL);
#pragma GCC unroll 16
    for (int u = 2; u < kVectors; u += 2) {
      top = vmax(top, load(x + u * OC_VL));
      top2 = vmax(top2, load(x + (u + 1) * OC_VL));
    }
    top = vmax(top, top2);
    if (__builtin_expect(vbits(top > vset(max_)) != 0, 0)) raise(vmax_all(top));
    const bool candidates = vbits(top > vset(threshold_)) != 0;
    exponentials<entropy>(x);
    return candidates;
  }

  template <bool entropy, class U>
  void exponentials(const U* x) {
    const vf m = vset(max_), c = vset(scale_), farthest = vset(farthest_);
    vf s[2] = {}, w[2] = {};
    // A loop, not a straight run: the compiler would put all the prefetches first, and they must be spread
    // over the arithmetic.
#pragma GCC unroll 1
    for (int u = 0; u < kVectors; u += 2) {
      for (int64_t line = 0; line < (int64_t)(2 * OC_VL * sizeof(U)); line += 64)
        vahead(x + u * OC_VL, kAheadBytes + line);
      for (int h = 0; h < 2; h++) {
        vf below = m - load(x + (u + h) * OC_VL);     // this way round the load is part of the subtraction
        below = farthest < below ? farthest : below;  // in this order a NaN stays
        const vf e = vexp2_scaled(below, c);
        s[h] += e;
        if (entropy) w[h] += e * below;
      }
    }
    sum_ += widen(s[0] + s[1]);
    if (entropy) weighted_ -= widen(w[0] + w[1]);
  }

  void raise(float max) {
    const double by = (double)max_ - max, factor = exp(by * scan_.inv_temperature);
    weighted_ = (weighted_ + sum_ * by) * factor;
    sum_ = sum_ * factor;
    max_ = max;
  }

  // Appends what is above the threshold.
  template <class U>
  __attribute__((noinline)) void take(const U* x, int64_t base) {
    constexpr int kPerWord = 64 / OC_VL;  // vectors whose bits fill a word
    for (int u = 0; u < kVectors; u += kPerWord) {
      uint64_t chosen = 0;
#pragma GCC unroll 16
      for (int h = 0; h < kPerWord; h++)
        chosen |= (uint64_t)vbits(load(x + (u + h) * OC_VL) > vset(threshold_)) << (h * OC_VL);
      if (__builtin_popcountll(chosen) > kMostSingle) {
        take_vectors(x + u * OC_VL, kPerWord, base + u * OC_VL);
        continue;
      }
      for (; chosen; chosen &= chosen - 1) {
        const int64_t j = u * OC_VL + __builtin_ctzll(chosen);
        scan_.values[held_] = to_float(x[j]);
        scan_.ids[held_++] = (int32_t)(base + j);
      }
    }
    if (held_ >= full_) {
      cut(scan_.k / 4 + 8);
      if (++cuts_ % kPatience == 0) sample_rest(base + kBlock);
    }
  }

  template <class U>
  void take_vectors(const U* x, int n, int64_t base) {
    for (int u = 0; u < n; u++) {
      const vf v = load(x + u * OC_VL);
      held_ += vcompress(vbits(v > vset(threshold_)), v, vcount_from((int32_t)(base + u * OC_VL)),
                         scan_.values + held_, scan_.ids + held_);
    }
  }

  // Keeps the best k (up to `slack` more where that is cheaper) in order of id. k of them reach the floor and
  // have smaller ids than all that is still to come, so only what is above the floor may still enter.
  void cut(int64_t slack) {
    const int64_t vectors = (held_ + OC_VL - 1) / OC_VL;
    for (int64_t j = held_; j < vectors * OC_VL; j++) scan_.values[j] = -INFINITY;
    const Cut at = find_cut(scan_.values, vectors, scan_.k, slack);
    const bool all_ties = at.count <= scan_.k + slack;
    int64_t ties = all_ties ? at.count : scan_.k - count_at_least(scan_.values, vectors, at.key + 1);
    const vf floor = vset(value_of(at.key));
    held_ = 0;
    for (int64_t j = 0; j < vectors * OC_VL; j += OC_VL) {
      const vf v = vload(scan_.values + j);
      const uint32_t equal = lowest_bits(vbits(v == floor), ties);
      ties -= __builtin_popcount(equal);
      vi id;
      memcpy(&id, scan_.ids + j, sizeof id);
      held_ += vcompress(vbits(v > floor) | equal, v, id, scan_.values + held_, scan_.ids + held_);
    }
    if (value_of(at.key) > threshold_) threshold_ = value_of(at.key);
  }

  // The k-th largest of the maxima of 256 disjoint groups: at least k values of the row reach it. `step`
  // elements between the vectors of the sample, which begin at `from`.
  void sample(int64_t from, int64_t step) {
    if (V_ - from < kGroups * kSampleRounds || scan_.k < 1 || scan_.k > kMostSampled) return;
    float group[kGroups];
    vf best = vset(-FLT_MAX);
    for (int g = 0; g < kGroupVectors; g++) {
      const T* x = row_ + from + g * step;
      vf top = load(x);
      for (int r = 1; r < rounds(step); r++) top = vmax(top, load(x + (int64_t)r * kGroupVectors * step));
      vstore(group + g * OC_VL, top);
      best = vmax(best, top);
    }
    const Cut at = find_cut(group, kGroupVectors, scan_.k, scan_.k / 8);
    if (below(at.key) > threshold_) threshold_ = below(at.key);
    if (vmax_all(best) > max_) raise(vmax_all(best));
  }
  static int rounds(int64_t step) { return step == OC_VL ? kSampleRounds : 2; }

  // Few vectors, far apart, over all that is left. A row that goes on filling the list gets a longer one:
  // cuts are dearer than the wait for a better threshold is worth, and the other way round at first.
  void sample_rest(int64_t from) {
    full_ = 2 * scan_.k + kScanSlack;
    if (cuts_ > kPatience * kMostSamples) return;
    const int64_t vectors = 2 * kGroupVectors, step = (V_ - from) / vectors / OC_VL * OC_VL;
    if (step > OC_VL) sample(from, step);
  }

  // What is left after the last whole block, filled up with -inf.
  template <bool entropy>
  void tail(int64_t from) {
    float rest[kBlock];
    for (int i = 0; i < kBlock; i++) rest[i] = -INFINITY;
    for (int64_t j = from; j < V_; j++) rest[j - from] = to_float(row_[j]);
    if (block<entropy>(rest)) take(rest, from);
  }
  static float to_float(float v) { return v; }
  static float to_float(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16;
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
  }

  typedef double vd __attribute__((vector_size(8 * OC_VL)));
  static vd widen(vf v) { return __builtin_convertvector(v, vd); }
  static double total(vd v) {
    double sum = 0;
    for (int i = 0; i < OC_VL; i++) sum += v[i];
    return sum;
  }

  const T* row_;
  int64_t V_;
  RowScan& scan_;
  float scale_, farthest_;  // 2^(scale * distance below the maximum); beyond the farthest it underflows
  float threshold_, max_ = -FLT_MAX;
  int64_t full_;  // held candidates at which they are cut back
  int64_t held_ = 0;
  int cuts_ = 0;
  vd sum_ = {}, weighted_ = {};
};

}  // namespace

void scan_row_f32(const float* row, int64_t V, RowScan& scan) { Scan<float>(row, V, scan).run(); }
void scan_row_bf16(const uint16_t* row, int64_t V, RowScan& scan) { Scan<uint16_t>(row, V, scan).run(); }

// Place of each = how many come before it: larger ones, and equal ones with a smaller index (ids ascend with
// the index).
void rank_candidates(const float* values, const int32_t* ids, int64_t n, float* to_values, int32_t* to_ids) {
  for (int64_t i = 0; i < n; i++) {
    const float v = values[i];
    int64_t place = 0;
    for (int64_t j = 0; j < i; j++) place += values[j] >= v;
    for (int64_t j = i + 1; j < n; j++) place += values[j] > v;
    to_values[place] = v;
    to_ids[place] = ids[i];
  }
}

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
