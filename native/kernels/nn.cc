// Which level's inner loops run here: cpu_isa()'s, unless a test asked for a lower one.
#include <atomic>

#include "native/base/cpu.h"
#include "native/base/error.h"
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

namespace {

std::atomic<const NnTable*> chosen{nullptr};

const NnTable* table_of(Isa isa) {
#if defined(__x86_64__)
  return isa == Isa::V4 ? &v4::nn_table : isa == Isa::V3 ? &v3::nn_table : &v2::nn_table;
#else
  (void)isa;
  return &neon::nn_table;
#endif
}

}  // namespace

const NnTable& nn_table() {
  const NnTable* table = chosen.load(std::memory_order_acquire);
  if (table) return *table;
  table = table_of(cpu_isa());
  chosen.store(table, std::memory_order_release);
  return *table;
}

void set_nn_isa(Isa isa) {
  OC_CHECK((int)isa <= (int)cpu_isa(), Code::E_ARGUMENT, "isa: this process may use up to %s, got %s",
           isa_name(cpu_isa()), isa_name(isa));
  chosen.store(table_of(isa), std::memory_order_release);
}

}  // namespace openclaw
