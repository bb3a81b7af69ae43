// Which instruction set the SIMD files were built for, and which of them runs here.
//
// Every *_simd.cc under native/kernels is compiled once per level with -DOPENCLAW_ISA=<level> (x86-64: v2 =
// SSE4.2, v3 = AVX2+FMA, v4 = AVX-512; arm64: neon). Each defines its functions inside namespace
// openclaw::OPENCLAW_ISA and one table of pointers. They use no std:: templates: the linker may keep one
// level's copy of an inline function for all.
#pragma once

namespace openclaw {

enum class Isa : int { V2 = 2, V3 = 3, V4 = 4, Neon = 100 };

// The best level this CPU has; OPENCLAW_RL_CPU=v2|v3|v4 in the environment lowers it (read once, by
// cpu_isa()). Throws E_ARGUMENT when the variable names a level this CPU does not have.
Isa cpu_isa();
const char* isa_name(Isa isa);

}  // namespace openclaw
