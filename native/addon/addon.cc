// Registers what the binary exports. One file per class or group registers itself here.
#include <napi.h>

#include "native/base/cpu.h"

namespace openclaw {
void register_kernels(Napi::Env env, Napi::Object exports);  // kernels_addon.cc
void register_policy(Napi::Env env, Napi::Object exports);   // policy_addon.cc
}  // namespace openclaw

static Napi::Object Init(Napi::Env env, Napi::Object exports) {
  exports.Set("isa", Napi::Function::New(env, [](const Napi::CallbackInfo& info) {
                return Napi::String::New(info.Env(), openclaw::isa_name(openclaw::cpu_isa()));
              }));
  openclaw::register_kernels(env, exports);
  openclaw::register_policy(env, exports);
  return exports;
}

NODE_API_MODULE(openclaw_rl, Init)
