// Which level's inner loops run here: chosen once, by cpu_isa().
#include "native/base/cpu.h"
#include "native/kernels/nn_simd.h"

namespace openclaw {

#if defined(__x86_64__)
namespace v2 {
extern const NnTable nn_table;
}
namespace v3 {
extern const NnTable nn_table;
}
namespace v4 {
extern const NnTable nn_table;
}
#else
namespace neon {
extern const NnTable nn_table;
}
#endif

const NnTable& nn_table() {
#if defined(__x86_64__)
  static const NnTable& table = cpu_isa() == Isa::V4   ? v4::nn_table
                                : cpu_isa() == Isa::V3 ? v3::nn_table
                                                       : v2::nn_table;
#else
  static const NnTable& table = neon::nn_table;
#endif
  return table;
}

}  // namespace openclaw
