// openPolicy, randomPolicy, and the methods of an open policy (lib/index.d.ts: NativePolicy).
#include "native/addon/failure.h"
#include "native/addon/fields.h"
#include "native/addon/handle.h"
#include "native/addon/model_io.h"
#include "native/addon/policy.h"

namespace openclaw {
namespace {

class PolicyHandle {
 public:
  static constexpr napi_type_tag kTag = {0x6f70656e636c6177ull, 0x706f6c6963790001ull};
  static constexpr const char* kName = "a policy";

  explicit PolicyHandle(std::shared_ptr<PolicyOwner> owner) : owner_(std::move(owner)) {}

  Napi::Value generate(const Napi::CallbackInfo& info) { return start_generation(host(), info); }
  Napi::Value score(const Napi::CallbackInfo& info) { return start_score(host(), info); }
  Napi::Value trainer(const Napi::CallbackInfo& info) { return make_trainer(owner_, info); }

  Napi::Value set_adapter(const Napi::CallbackInfo& info) {
    Versions& versions = host().versions();
    OC_CHECK(info[1].IsString(), Code::E_ARGUMENT, "version: expected a string, got %s",
             describe(info[1]).c_str());
    Snapshot snapshot = versions.base()->snapshot;
    if (!info[0].IsNull()) snapshot.adapter = read_adapter(info[0], host().config());
    snapshot.version = info[1].As<Napi::String>().Utf8Value();
    versions.claim(snapshot.version);
    versions.make_live(std::move(snapshot));
    auto deferred = Napi::Promise::Deferred::New(info.Env());
    deferred.Resolve(info.Env().Undefined());
    return deferred.Promise();
  }

  Napi::Value export_weights(const Napi::CallbackInfo& info) {
    OC_CHECK(info[0].IsString(), Code::E_ARGUMENT, "version: expected a string, got %s",
             describe(info[0]).c_str());
    Napi::Object named = Napi::Object::New(info.Env());
    named.Set("dtype", info[1]);
    const DType dtype = read_dtype(Fields(named, "exportWeights"), "dtype");
    VersionPtr version = host().versions().find(info[0].As<Napi::String>().Utf8Value());
    return host().run_on_train_thread(info.Env(), [version, dtype](TrainQueue::Tools&) {
      return openclaw::export_weights(*version->snapshot.weights, dtype);
    });
  }

  Napi::Value stats(const Napi::CallbackInfo& info) {
    Napi::Env env = info.Env();
    const EngineStats s = host().engine().stats();
    Napi::Object out = Napi::Object::New(env);
    out.Set("inFlight", (double)s.in_flight);
    out.Set("waiting", (double)s.waiting);
    out.Set("live", host().versions().live()->snapshot.version);
    Napi::Array held = Napi::Array::New(env);
    for (const std::string& name : host().versions().held()) held.Set(held.Length(), name);
    out.Set("versionsHeld", held);
    out.Set("kvBytes", (double)s.kv_bytes);
    out.Set("kvBytesLimit", (double)s.kv_bytes_limit);
    out.Set("weightBytes", (double)host().versions().base()->snapshot.weights->resident_bytes);
    out.Set("cachedTokens", (double)s.cached_tokens);
    out.Set("generatedTokens", (double)s.generated_tokens);
    out.Set("promptTokens", (double)s.prompt_tokens);
    out.Set("trainYields", (double)host().train_yields());
    return out;
  }

  Napi::Value close(const Napi::CallbackInfo& info) {
    if (closed_.IsEmpty()) closed_ = Napi::Persistent((Napi::Object)host().begin_close(info.Env()));
    return closed_.Value();
  }

 private:
  PolicyHost& host() { return *owner_->host; }

  const std::shared_ptr<PolicyOwner> owner_;
  Napi::ObjectReference closed_;  // the promise of the first close()
};

Napi::Value wrap_policy(Napi::Env env, std::shared_ptr<PolicyOwner> owner) {
  Napi::Object object = make_handle(env, std::make_unique<PolicyHandle>(std::move(owner)));
  define_method<call_method<PolicyHandle, &PolicyHandle::generate>>(object, "generate");
  define_method<call_async_method<PolicyHandle, &PolicyHandle::score>>(object, "score");
  define_method<call_method<PolicyHandle, &PolicyHandle::trainer>>(object, "trainer");
  define_method<call_async_method<PolicyHandle, &PolicyHandle::set_adapter>>(object, "setAdapter");
  define_method<call_async_method<PolicyHandle, &PolicyHandle::export_weights>>(object, "exportWeights");
  define_method<call_method<PolicyHandle, &PolicyHandle::stats>>(object, "stats");
  define_method<call_async_method<PolicyHandle, &PolicyHandle::close>>(object, "close");
  return object;
}

Napi::Value open_policy(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    const ModelConfig config = read_config(info[0]);
    auto tensors = read_tensors(info[1]);
    PolicyOptions options = read_options(info[2], config);
    const DType dtype = options.dtype;
    auto load = [config, tensors = std::move(tensors), dtype](Lane& lane) {
      return Weights::load(config, tensors, dtype, lane);
    };
    return PolicyHost::open(info.Env(), std::move(options), load, wrap_policy);
  });
}

Napi::Value random_policy(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    const ModelConfig config = read_config(info[0]);
    Fields init(info[1], "init");
    const uint64_t seed = (uint64_t)init.integer("seed", 0, (1ll << 53) - 1);
    const float std = (float)init.number("std", 0, 100);
    PolicyOptions options = read_options(info[2], config);
    const DType dtype = options.dtype;
    auto make = [config, seed, std, dtype](Lane&) {
      std::shared_ptr<Weights> weights = Weights::random(config, seed, std);
      return dtype == DType::F32 ? weights : weights->copy(dtype);
    };
    return PolicyHost::open(info.Env(), std::move(options), make, wrap_policy);
  });
}

Napi::Value dequantize_blocks(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    Napi::Object named = Napi::Object::New(info.Env());
    named.Set("type", info[0]);
    named.Set("values", info[2]);
    Fields fields(named, "dequantize");
    const Ggml type = (Ggml)fields.integer("type", 0, 255);
    const int64_t n = fields.integer("values", 0, 1 << 28);
    const bool bytes =
        info[1].IsTypedArray() && info[1].As<Napi::TypedArray>().TypedArrayType() == napi_uint8_array;
    OC_CHECK(bytes, Code::E_DTYPE, "blocks: expected a Uint8Array, got %s", describe(info[1]).c_str());
    Napi::Uint8Array blocks = info[1].As<Napi::Uint8Array>();
    const int64_t per_block = ggml_block_values(type);
    OC_CHECK(n % per_block == 0, Code::E_SHAPE, "values: expected a multiple of %lld, got %lld",
             (long long)per_block, (long long)n);
    OC_CHECK((int64_t)blocks.ByteLength() == n / per_block * ggml_block_bytes(type), Code::E_SHAPE,
             "blocks: expected %lld bytes, got %zu", (long long)(n / per_block * ggml_block_bytes(type)),
             blocks.ByteLength());
    std::vector<float> out((size_t)n);
    dequantize(type, blocks.Data(), n, out.data());
    return float32_array(info.Env(), out);
  });
}

}  // namespace

void register_policy(Napi::Env env, Napi::Object exports) {
  (void)env;
  define_method<open_policy>(exports, "openPolicy");
  define_method<random_policy>(exports, "randomPolicy");
  define_method<dequantize_blocks>(exports, "dequantize");
}

}  // namespace openclaw
