#include "native/base/cpu.h"
#include "native/kernels/rl_simd.h"

namespace openclaw {

#if defined(__x86_64__)
namespace v2 {
extern const RlTable rl_table;
}
namespace v3 {
extern const RlTable rl_table;
}
namespace v4 {
extern const RlTable rl_table;
}

const RlTable& rl_table() {
  switch (cpu_isa()) {
    case Isa::V4:
      return v4::rl_table;
    case Isa::V3:
      return v3::rl_table;
    default:
      return v2::rl_table;
  }
}
#else
namespace neon {
extern const RlTable rl_table;
}

const RlTable& rl_table() { return neon::rl_table; }
#endif

}  // namespace openclaw
