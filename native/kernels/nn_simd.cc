// The table of one instruction set (nn_simd.h): the parts come from the other *_simd.cc files of the same
// level.
#include "native/kernels/nn_simd.h"

namespace openclaw {
namespace OPENCLAW_ISA {

extern const GemmTable gemm_table;

extern const NnTable nn_table;
const NnTable nn_table = {&gemm_table};

}  // namespace OPENCLAW_ISA
}  // namespace openclaw
