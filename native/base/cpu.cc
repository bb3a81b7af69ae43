#include "native/base/cpu.h"

#include <cstdlib>
#include <cstring>

#include "native/base/error.h"

namespace openclaw {
namespace {

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  Isa best = Isa::V2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    best = Isa::V3;
  if (best == Isa::V3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    best = Isa::V4;
  const char* wish = getenv("OPENCLAW_RL_CPU");
  if (wish && *wish) {
    Isa asked = best;
    if (!strcmp(wish, "v2"))
      asked = Isa::V2;
    else if (!strcmp(wish, "v3"))
      asked = Isa::V3;
    else if (!strcmp(wish, "v4"))
      asked = Isa::V4;
    else
      fail(Code::E_ARGUMENT, "OPENCLAW_RL_CPU: expected v2, v3 or v4, got \"%s\"", wish);
    OC_CHECK((int)asked <= (int)best, Code::E_ARGUMENT, "OPENCLAW_RL_CPU: this CPU has up to %s, got %s",
             isa_name(best), wish);
    return asked;
  }
  return best;
#else
  return Isa::Neon;
#endif
}

}  // namespace

Isa cpu_isa() {
  static const Isa isa = detect();
  return isa;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::V2:
      return "v2";
    case Isa::V3:
      return "v3";
    case Isa::V4:
      return "v4";
    case Isa::Neon:
      return "neon";
  }
  return "?";
}

}  // namespace openclaw
