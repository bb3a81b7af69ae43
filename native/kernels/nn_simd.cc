// The tables of one instruction set (nn_simd.h), from the other *_simd.cc files of the same level.
#include "native/kernels/nn_simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {

extern const GemmTable gemm_table;
extern const AttentionTable attention_table;
extern const RowsTable rows_table;
extern const AdamWTable adamw_table;

extern const NnTable nn_table;
const NnTable nn_table = {&gemm_table, &attention_table, &rows_table, &adamw_table};

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
