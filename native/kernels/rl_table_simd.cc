// The RL kernels' table of one instruction set: the parts come from the other *_simd.cc files of the same
// level.
#include "native/kernels/rl_simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {

void scan_row_f32(const float* row, int64_t V, RowScan& scan);
void scan_row_bf16(const uint16_t* row, int64_t V, RowScan& scan);
void rank_candidates(const float* values, const int32_t* ids, int64_t n, float* to_values, int32_t* to_ids);
void scaled_exp_f32(const float* row, int64_t V, float inv_temperature, float shift, float factor, float* dz);
void scaled_exp_bf16(const uint16_t* row, int64_t V, float inv_temperature, float shift, float factor,
                     float* dz);
int64_t count_matches(const int32_t* mine, int64_t n, const int32_t* row, int64_t k);

extern const RlTable rl_table;
const RlTable rl_table = {scan_row_f32,   scan_row_bf16,   rank_candidates,
                          scaled_exp_f32, scaled_exp_bf16, count_matches};

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
