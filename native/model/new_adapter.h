// The adapter a training run starts from.
#pragma once
#include "native/model/train.h"

namespace openclaw {

// Pairs for options.targets of every layer from options.first_layer on. A ~ U(-1/sqrt(in), 1/sqrt(in)), as
// peft's kaiming_uniform(a = sqrt 5), from options.seed; B = 0, so it starts as nothing.
std::shared_ptr<Adapter> new_adapter(const Weights& base, const TrainOptions& options);

}  // namespace openclaw
