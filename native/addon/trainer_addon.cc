// The trainer of a policy (lib/index.d.ts: NativeTrainer, NativeBatch). Arguments are read and checked on the
// event loop and copied; the work runs on the train thread in call order; the native trainer is made there
// too, by the first job, because copying and initialising parameters takes time.
#include <cmath>

#include "native/addon/failure.h"
#include "native/addon/fields.h"
#include "native/addon/handle.h"
#include "native/addon/loss_fields.h"
#include "native/addon/policy.h"
#include "native/model/token_ids.h"
#include "native/model/train.h"

namespace openclaw {
namespace {

// The native trainer, shared by the handle and the jobs that wait. Used on the train thread only.
struct TrainerCore {
  std::shared_ptr<const Weights> base;
  TrainOptions options;
  std::unique_ptr<Trainer> trainer;

  Trainer& get(TrainQueue::Tools& tools) {
    if (!trainer) trainer = std::make_unique<Trainer>(base, options, tools.lane);
    return *trainer;
  }
};

class BatchHandle {
 public:
  static constexpr napi_type_tag kTag = {0x6f70656e636c6177ull, 0x6261746368000001ull};
  static constexpr const char* kName = "a batch";

  BatchHandle(std::shared_ptr<Batch> batch, const TrainerCore* trainer, std::vector<int64_t> counts)
      : batch(std::move(batch)), trainer(trainer), counts(std::move(counts)) {}

  Napi::Value dispose(const Napi::CallbackInfo& info) {
    batch = nullptr;
    return info.Env().Undefined();
  }

  std::shared_ptr<Batch> batch;       // null: disposed
  const TrainerCore* const trainer;   // whose it is; compared, never followed
  const std::vector<int64_t> counts;  // tokens of each sequence
};

Napi::Value js_batch(Napi::Env env, std::shared_ptr<Batch> batch, const TrainerCore* trainer,
                     const std::vector<int64_t>& counts) {
  int64_t tokens = 0;
  for (int64_t count : counts) tokens += count;
  Napi::Object object = make_handle(env, std::make_unique<BatchHandle>(std::move(batch), trainer, counts));
  object.DefineProperty(Napi::PropertyDescriptor::Value(
      "sequences", Napi::Number::New(env, (double)counts.size()), napi_enumerable));
  object.DefineProperty(
      Napi::PropertyDescriptor::Value("tokens", Napi::Number::New(env, (double)tokens), napi_enumerable));
  define_method<call_method<BatchHandle, &BatchHandle::dispose>>(object, "dispose");
  return object;
}

// --- results
// -----------------------------------------------------------------------------------------------------------

Napi::Value js_report(Napi::Env env, const LossReport& r,
                      const std::vector<std::vector<float>>* cur_logprobs) {
  Napi::Object out = Napi::Object::New(env);
  out.Set("loss", r.loss);
  out.Set("ce", r.ce);
  out.Set("rl", r.rl);
  out.Set("opd", r.opd);
  out.Set("k3", r.k3);
  out.Set("anchor", r.anchor);
  out.Set("tokens", (double)r.tokens);
  out.Set("ratioClippedLow", (double)r.ratio_clipped_low);
  out.Set("ratioClippedHigh", (double)r.ratio_clipped_high);
  out.Set("deltaClipped", (double)r.delta_clipped);
  out.Set("topEntries", (double)r.top_entries);
  out.Set("exponentClamped", (double)r.exponent_clamped);
  out.Set("meanRatio", r.mean_ratio);
  out.Set("entropy", r.entropy);
  if (cur_logprobs) {
    Napi::Array list = Napi::Array::New(env, cur_logprobs->size());
    for (size_t i = 0; i < cur_logprobs->size(); i++)
      list.Set((uint32_t)i, float32_array(env, (*cur_logprobs)[i]));
    out.Set("curLogprobs", list);
  }
  return out;
}

using Tensors = std::map<std::string, std::vector<float>>;

Napi::Object js_tensors(Napi::Env env, const Tensors& tensors) {
  Napi::Object out = Napi::Object::New(env);
  for (const auto& [name, values] : tensors) {
    Napi::HandleScope scope(env);
    out.Set(name, float32_array(env, values));
  }
  return out;
}

TrainOptions read_train_options(Napi::Value value, const ModelConfig& config) {
  TrainOptions o;
  if (value.IsUndefined()) return o;
  Fields fields(value, "options");
  o.full = fields.boolean("full", o.full);
  o.rank = fields.integer("rank", 1, config.hidden, std::min(o.rank, config.hidden));
  o.alpha = (float)fields.number("alpha", 0, 1e6, o.alpha);
  o.first_layer = fields.integer("firstLayer", 0, config.layers - 1, 0);
  o.seed = (uint64_t)fields.integer("seed", 0, (1ll << 53) - 1, 0);
  o.activation_bytes = fields.integer("activationBytes", 0, (1ll << 53) - 1, o.activation_bytes);
  if (!fields.has("targets")) return o;
  o.targets.clear();
  Napi::Array targets = fields.array("targets");
  std::vector<std::string> names;
  for (int t = 0; t < kTargets; t++) names.push_back(target_name(t));
  for (uint32_t i = 0; i < targets.Length(); i++) {
    Napi::Object named = Napi::Object::New(value.Env());
    named.Set("target", targets.Get(i));
    o.targets.push_back(Fields(named, fields.path("targets")).choice("target", names));
  }
  OC_CHECK(!o.targets.empty(), Code::E_ARGUMENT, "options.targets: expected at least one, got none");
  return o;
}

// --- the handle
// --------------------------------------------------------------------------------------------------------

class TrainerHandle {
 public:
  static constexpr napi_type_tag kTag = {0x6f70656e636c6177ull, 0x747261696e000001ull};
  static constexpr const char* kName = "a trainer";

  TrainerHandle(std::shared_ptr<PolicyOwner> owner, std::shared_ptr<TrainerCore> core)
      : owner_(std::move(owner)), core_(std::move(core)) {}

  Napi::Value prepare(const Napi::CallbackInfo& info) {
    const ModelConfig& config = host().config();
    OC_CHECK(info[0].IsArray(), Code::E_ARGUMENT, "sequences: expected an array, got %s",
             describe(info[0]).c_str());
    Napi::Array list = info[0].As<Napi::Array>();
    auto ids = std::make_shared<std::vector<std::vector<int32_t>>>();
    for (uint32_t i = 0; i < list.Length(); i++)
      ids->push_back(read_sequence(list.Get(i), "sequences[" + std::to_string(i) + "]", config));
    OC_CHECK(!ids->empty(), Code::E_ARGUMENT, "sequences: expected at least one, got none");
    return run(info.Env(), [core = core_, ids](TrainQueue::Tools& tools) -> PolicyHost::Reply {
      std::vector<TrainSequence> sequences;
      std::vector<int64_t> counts;
      for (const auto& sequence : *ids) {
        sequences.push_back({sequence.data(), (int64_t)sequence.size()});
        counts.push_back((int64_t)sequence.size());
      }
      std::shared_ptr<Batch> batch = core->get(tools).prepare(sequences.data(), (int64_t)sequences.size());
      return [batch, core, counts](Napi::Env env) { return js_batch(env, batch, core.get(), counts); };
    });
  }

  Napi::Value forward_backward(const Napi::CallbackInfo& info) {
    const ModelConfig& config = host().config();
    BatchHandle& batch = unwrap<BatchHandle>(info[0], "batch");
    OC_CHECK(batch.batch, Code::E_DISPOSED, "batch: it was disposed");
    OC_CHECK(batch.trainer == core_.get(), Code::E_ARGUMENT, "batch: it was prepared by another trainer");
    OC_CHECK(info[1].IsArray(), Code::E_ARGUMENT, "losses: expected an array, got %s",
             describe(info[1]).c_str());
    Napi::Array list = info[1].As<Napi::Array>();
    OC_CHECK(list.Length() == batch.counts.size(), Code::E_SHAPE,
             "losses: expected %zu, one for each sequence, got %u", batch.counts.size(), list.Length());
    auto losses = std::make_shared<std::vector<std::unique_ptr<OwnedLoss>>>();
    for (uint32_t i = 0; i < list.Length(); i++) {
      Napi::HandleScope scope(info.Env());
      Napi::Value loss = list.Get(i);
      losses->push_back(loss.IsNull() ? nullptr
                                      : read_loss(Fields(loss, "losses[" + std::to_string(i) + "]"),
                                                  batch.counts[i], config.vocab));
    }
    const bool wants_logprobs =
        !info[2].IsUndefined() && Fields(info[2], "options").boolean("curLogprobs", false);
    return run(
        info.Env(), [core = core_, batch = batch.batch, losses, wants_logprobs](TrainQueue::Tools& tools) {
          std::vector<const SequenceLoss*> views;
          for (const auto& loss : *losses) views.push_back(loss ? &loss->loss : nullptr);
          auto logprobs = wants_logprobs ? std::make_shared<std::vector<std::vector<float>>>() : nullptr;
          LossReport report = core->get(tools).forward_backward(*batch, views.data(), logprobs.get());
          return PolicyHost::Reply(
              [report, logprobs](Napi::Env env) { return js_report(env, report, logprobs.get()); });
        });
  }

  Napi::Value optim_step(const Napi::CallbackInfo& info) {
    Fields h(info[0], "h");
    const float lr = (float)h.number("lr", 0, 1e3), eps = (float)h.number("eps", 0, 1);
    const float beta1 = (float)h.number("beta1", 0, 1), beta2 = (float)h.number("beta2", 0, 1);
    const float decay = (float)h.number("weightDecay", 0, 1e3);
    const float most = (float)h.number("maxGradNorm", 0, 1e30);
    const float stop = h.has("stopNorm") ? (float)h.number("stopNorm", 0, 1e30) : INFINITY;
    OC_CHECK(beta1 < 1 && beta2 < 1, Code::E_ARGUMENT,
             "h.beta1, h.beta2: expected numbers below 1, got %g and %g", (double)beta1, (double)beta2);
    return run(info.Env(), [=, core = core_](TrainQueue::Tools& tools) {
      Trainer::StepReport report = core->get(tools).optim_step(lr, beta1, beta2, eps, decay, most, stop);
      return PolicyHost::Reply([report](Napi::Env env) -> Napi::Value {
        Napi::Object out = Napi::Object::New(env);
        out.Set("gradNorm", report.grad_norm);
        out.Set("skipped", report.skipped);
        return out;
      });
    });
  }

  Napi::Value zero_grad(const Napi::CallbackInfo& info) {
    return run(info.Env(), [core = core_](TrainQueue::Tools& tools) {
      core->get(tools).zero_grad();
      return nothing();
    });
  }

  // The name is claimed at once: a second publish of the same name fails before any work.
  Napi::Value publish(const Napi::CallbackInfo& info) {
    OC_CHECK(info[0].IsString(), Code::E_ARGUMENT, "version: expected a string, got %s",
             describe(info[0]).c_str());
    const std::string name = info[0].As<Napi::String>().Utf8Value();
    Versions* versions = &host().versions();
    const DType dtype = host().options().dtype;
    versions->claim(name);
    return run(info.Env(), [core = core_, versions, name, dtype](TrainQueue::Tools& tools) {
      try {
        versions->make_live(core->get(tools).snapshot(name, dtype));
      } catch (...) {
        versions->forget(name);
        throw;
      }
      return nothing();
    });
  }

  Napi::Value export_state(const Napi::CallbackInfo& info) {
    OC_CHECK(info[0].IsBoolean(), Code::E_ARGUMENT, "moments: expected true or false, got %s",
             describe(info[0]).c_str());
    const bool moments = info[0].As<Napi::Boolean>().Value();
    return run(info.Env(), [core = core_, moments](TrainQueue::Tools& tools) {
      Trainer& trainer = core->get(tools);
      auto tensors = std::make_shared<Tensors>(trainer.export_state(moments));
      const int64_t step = trainer.step(), rank = core->options.full ? 0 : core->options.rank;
      const float alpha = core->options.full ? 0 : core->options.alpha;
      return PolicyHost::Reply([=](Napi::Env env) -> Napi::Value {
        Napi::Object out = Napi::Object::New(env);
        out.Set("step", (double)step);
        out.Set("rank", (double)rank);
        out.Set("alpha", alpha);
        out.Set("tensors", js_tensors(env, *tensors));
        return out;
      });
    });
  }

  Napi::Value import_state(const Napi::CallbackInfo& info) {
    Fields fields(info[0], "state"), named = fields.object("tensors");
    const int64_t step = fields.integer("step", 0, (1ll << 53) - 1);
    auto tensors = std::make_shared<Tensors>();
    for (const std::string& name : named.keys()) {
      Napi::HandleScope scope(info.Env());
      (*tensors)[name] = named.floats(name.c_str());
    }
    return run(info.Env(), [core = core_, tensors, step](TrainQueue::Tools& tools) {
      core->get(tools).import_state(*tensors, step);
      return nothing();
    });
  }

  Napi::Value export_gradients(const Napi::CallbackInfo& info) {
    return run(info.Env(), [core = core_](TrainQueue::Tools& tools) {
      auto tensors = std::make_shared<Tensors>(core->get(tools).export_gradients());
      return PolicyHost::Reply([tensors](Napi::Env env) { return js_tensors(env, *tensors); });
    });
  }

  // Jobs that wait keep what they need; it is freed with the last of them.
  Napi::Value dispose(const Napi::CallbackInfo& info) {
    core_ = nullptr;
    owner_ = nullptr;
    return info.Env().Undefined();
  }

 private:
  static PolicyHost::Reply nothing() {
    return [](Napi::Env env) { return env.Undefined(); };
  }

  static std::vector<int32_t> read_sequence(Napi::Value value, const std::string& name,
                                            const ModelConfig& config) {
    auto ids = copy_int32s(value, name);
    OC_CHECK(ids.size() >= 2, Code::E_ARGUMENT, "%s: expected at least 2 tokens, got %zu", name.c_str(),
             ids.size());
    OC_CHECK((int64_t)ids.size() <= config.context, Code::E_CONTEXT,
             "%s: the context holds %lld tokens, got %zu", name.c_str(), (long long)config.context,
             ids.size());
    check_token_ids(ids, config.vocab, name);
    return ids;
  }

  PolicyHost& host() {
    OC_CHECK(core_, Code::E_DISPOSED, "the trainer was disposed");
    return *owner_->host;
  }

  Napi::Value run(Napi::Env env, PolicyHost::Job job) {
    return host().run_on_train_thread(env, std::move(job));
  }

  std::shared_ptr<PolicyOwner> owner_;
  std::shared_ptr<TrainerCore> core_;  // null: disposed
};

}  // namespace

Napi::Value make_trainer(std::shared_ptr<PolicyOwner> owner, const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  auto core = std::make_shared<TrainerCore>();
  core->base = owner->host->versions().base()->snapshot.weights;
  core->options = read_train_options(info[0], owner->host->config());
  using T = TrainerHandle;
  Napi::Object object = make_handle(env, std::make_unique<T>(std::move(owner), std::move(core)));
  define_method<call_async_method<T, &T::prepare>>(object, "prepare");
  define_method<call_async_method<T, &T::forward_backward>>(object, "forwardBackward");
  define_method<call_async_method<T, &T::optim_step>>(object, "optimStep");
  define_method<call_async_method<T, &T::zero_grad>>(object, "zeroGrad");
  define_method<call_async_method<T, &T::publish>>(object, "publish");
  define_method<call_async_method<T, &T::export_state>>(object, "exportState");
  define_method<call_async_method<T, &T::import_state>>(object, "importState");
  define_method<call_async_method<T, &T::export_gradients>>(object, "exportGradients");
  define_method<call_method<T, &T::dispose>>(object, "dispose");
  return object;
}

}  // namespace openclaw
