// The groups of RL kernels that kernels_addon.cc puts under exports.kernels. Each entry is sync and async
// (name + "Async"), takes one options object and returns one object of typed arrays and numbers;
// lib/kernels.d.ts types them, ts/kernels documents them. What is refused at the door is said there too.
#pragma once
#include <napi.h>

#include "native/addon/args.h"

namespace openclaw {

void define_logit_calls(Napi::Object kernels);  // logits_addon.cc: logitStats, logitGrad, crossEntropy
void define_loss_calls(Napi::Object kernels);   // losses_addon.cc: ppoLoss, opdLoss, hybridLoss

// Most rows, ids and so on that one call may name: a JavaScript array cannot be longer.
constexpr int64_t kMostElements = 1ll << 33;

}  // namespace openclaw
