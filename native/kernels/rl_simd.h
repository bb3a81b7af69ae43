// What the RL kernels ask of each instruction set: inner loops over one row, one table per level, rl_table()
// picks the level that runs here. Inner loops check nothing, allocate nothing and know nothing of lanes.
#pragma once
#include <cstdint>

namespace openclaw {

// One row of logits on its way through logit_stats: what is kept while its blocks pass by.
struct RowScan {
  // asked
  float inv_temperature = 1;
  bool entropy = false;
  int64_t k = 0;
  float* values = nullptr;  // room for scan_capacity(k) candidates
  int32_t* ids = nullptr;
  // found
  float max = 0;        // of the row, undivided; -FLT_MAX when nothing is above it
  double sum = 0;       // Σ exp((z - max) / temperature)
  double weighted = 0;  // Σ exp((z - max) / temperature) (z - max), with entropy
  int64_t count = 0;    // candidates: the k best, or all above -inf when those are fewer, in order of id
};

// Candidates are cut back to the best k when the list is full, which is looked at once a block of 16 vectors;
// whole vectors are written.
constexpr int64_t kScanSlack = 512;
inline int64_t scan_capacity(int64_t k) { return 2 * k + kScanSlack + 16 * 16 + 2 * 16; }

struct RlTable {
  // Fills the found part of the scan. A row with NaN or +inf leaves sum NaN.
  void (*scan_f32)(const float* row, int64_t V, RowScan& scan);
  void (*scan_bf16)(const uint16_t* row, int64_t V, RowScan& scan);
  // The candidates by value, larger first, equal ones by place; `to` gets n = scan.count pairs.
  void (*rank)(const float* values, const int32_t* ids, int64_t n, float* to_values, int32_t* to_ids);

  // dz[j] = factor * exp(row[j] * inv_temperature - shift); row may be dz.
  void (*scaled_exp_f32)(const float* row, int64_t V, float inv_temperature, float shift, float factor,
                         float* dz);
  void (*scaled_exp_bf16)(const uint16_t* row, int64_t V, float inv_temperature, float shift, float factor,
                          float* dz);

  // How many of the n distinct ids >= 0 occur in row [k].
  int64_t (*count_matches)(const int32_t* mine, int64_t n, const int32_t* row, int64_t k);
};

const RlTable& rl_table();

}  // namespace openclaw
