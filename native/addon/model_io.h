// Model descriptions, adapters and weights between JavaScript and the model's own types.
#pragma once
#include <napi.h>

#include "native/addon/fields.h"
#include "native/addon/policy.h"

namespace openclaw {

ModelConfig read_config(Napi::Value value);  // validated
std::vector<TensorSource> read_tensors(
    Napi::Value value);  // sizes are checked against the files when they are read
std::shared_ptr<const Adapter> read_adapter(Napi::Value value,
                                            const ModelConfig& config);  // every shape checked
PolicyOptions read_options(Napi::Value value, const ModelConfig& config);

// Every parameter as f32 or bf16, converted on the calling thread; the reply hands the memory over without
// copying where the runtime allows that.
PolicyHost::Reply export_weights(const Weights& weights, DType dtype);

DType read_dtype(const Fields& fields, const char* key);

}  // namespace openclaw
