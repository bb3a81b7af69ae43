// Generations and scoring passes: from a request object to the engine, and from the serve thread's reports to
// JavaScript.
#include <cmath>

#include "native/addon/failure.h"
#include "native/addon/fields.h"
#include "native/addon/policy.h"

namespace openclaw {
namespace {

constexpr int64_t kMostTokens = 1 << 30;  // far above any context; keeps sums in range
constexpr int64_t kLongestDeadlineMs = 7ll * 24 * 3600 * 1000;
constexpr int64_t kLargestSeed = (1ll << 53) - 1;  // the largest integer a JavaScript number holds exactly

GenerateRequest read_request(Napi::Value value) {
  Fields fields(value, "request");
  GenerateRequest request;
  request.ids = fields.int32s("ids");
  request.max_tokens = fields.integer("maxTokens", 1, kMostTokens);
  request.sampling.temperature = (float)fields.number("temperature", 0, 1e4);
  request.sampling.top_p = (float)fields.number("topP", 0, 1);
  request.sampling.top_k = fields.integer("topK", 0, kMostTokens);
  request.sampling.seed = (uint64_t)fields.integer("seed", 0, kLargestSeed);
  request.stop_ids = fields.int32s("stopIds");
  request.deadline_ms = (int64_t)std::ceil(fields.number("deadlineMs", 0, (double)kLongestDeadlineMs));
  return request;
}

Napi::Value js_generated(Napi::Env env, const std::vector<int32_t>& ids, const std::vector<float>& logprobs,
                         const GenerateReport& report) {
  Napi::Object out = Napi::Object::New(env);
  out.Set("ids", int32_array(env, ids));
  out.Set("logprobs", float32_array(env, logprobs));
  out.Set("finish", finish_name(report.finish));
  out.Set("version", report.version);
  out.Set("cachedTokens", (double)report.cached_tokens);
  out.Set("msToFirst", report.ms_to_first);
  out.Set("ms", report.ms);
  return out;
}

// Collects what the serve thread samples and hands it over. However fast tokens come, at most one token
// letter is in the box: those sampled before it is read travel with it.
class GenerationReceiver : public Receiver, public std::enable_shared_from_this<GenerationReceiver> {
 public:
  GenerationReceiver(std::shared_ptr<PolicyHost> host, uint64_t number)
      : host_(std::move(host)), number_(number) {}

  void token(int32_t id, float logprob) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ids_.push_back(id);
      logprobs_.push_back(logprob);
      if (letter_under_way_) return;
      letter_under_way_ = true;
    }
    host_->tell([self = shared_from_this()](Napi::Env env) { self->deliver(env); });
  }

  void finished(const GenerateReport& report) override {
    host_->answer([self = shared_from_this(), report](Napi::Env env) { self->end(env, report, nullptr); });
  }

  void failed(std::exception_ptr error) override {
    host_->answer([self = shared_from_this(), error](Napi::Env env) { self->end(env, {}, error); });
  }

 private:
  // Event loop: the tokens since the last delivery go to the listener.
  void deliver(Napi::Env env) {
    std::vector<int32_t> ids;
    std::vector<float> logprobs;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      letter_under_way_ = false;
      ids.assign(ids_.begin() + (long)delivered_, ids_.end());
      logprobs.assign(logprobs_.begin() + (long)delivered_, logprobs_.end());
      delivered_ = ids_.size();
    }
    auto it = host_->generations.find(number_);
    if (ids.empty() || it == host_->generations.end() || it->second->thrown) return;
    try {
      it->second->on_tokens.Call({int32_array(env, ids), float32_array(env, logprobs)});
    } catch (const Napi::Error& error) {
      // The listener may have closed the policy or ended the environment: look again.
      it = host_->generations.find(number_);
      if (it == host_->generations.end()) return;
      it->second->thrown = error;
      it->second->ticket->abort();
    }
  }

  void end(Napi::Env env, const GenerateReport& report, std::exception_ptr error) {
    auto node = host_->generations.extract(number_);
    if (node.empty()) return;
    PolicyHost::Generation& generation = *node.mapped();
    if (generation.thrown) return generation.done.Reject(generation.thrown->Value());
    settle(
        env, generation.done, [&](Napi::Env env) { return js_generated(env, ids_, logprobs_, report); },
        error);
  }

  const std::shared_ptr<PolicyHost> host_;
  const uint64_t number_;
  std::mutex mutex_;
  bool letter_under_way_ = false;
  size_t delivered_ = 0;
  std::vector<int32_t> ids_;
  std::vector<float> logprobs_;
};

ScoreRequest read_score(const Fields& fields) {
  ScoreRequest request;
  request.ids = fields.int32s("ids");
  request.from = fields.integer("from", 1, kMostTokens);
  request.top_k = fields.integer("topK", 0, kMostTokens);
  if (fields.has("gather")) request.gather = fields.int32s("gather");
  return request;
}

Napi::Value js_scored(Napi::Env env, const Scored& scored, bool gathered) {
  Napi::Object out = Napi::Object::New(env);
  out.Set("logprobs", float32_array(env, scored.logprobs));
  out.Set("entropy", float32_array(env, scored.entropy));
  out.Set("topIds", int32_array(env, scored.top_ids));
  out.Set("topLogprobs", float32_array(env, scored.top_logprobs));
  out.Set("gathered", gathered ? (Napi::Value)float32_array(env, scored.gathered) : env.Null());
  out.Set("version", scored.version);
  return out;
}

class ScoreReceiver : public Receiver {
 public:
  ScoreReceiver(std::shared_ptr<PolicyHost> host, Napi::Promise::Deferred deferred, bool gathered)
      : host_(std::move(host)), deferred_(deferred), gathered_(gathered) {}

  void scored(Scored&& scored) override {
    auto kept = std::make_shared<Scored>(std::move(scored));
    host_->answer([deferred = deferred_, kept, gathered = gathered_](Napi::Env env) {
      settle(
          env, deferred, [&](Napi::Env env) { return js_scored(env, *kept, gathered); }, nullptr);
    });
  }

  void failed(std::exception_ptr error) override {
    host_->answer([deferred = deferred_, error](Napi::Env env) { settle(env, deferred, nullptr, error); });
  }

 private:
  const std::shared_ptr<PolicyHost> host_;
  const Napi::Promise::Deferred deferred_;
  const bool gathered_;
};

Napi::Value score_on_serve_lane(PolicyHost& host, Napi::Env env, ScoreRequest request, VersionPtr version) {
  auto deferred = Napi::Promise::Deferred::New(env);
  const bool gathered = !request.gather.empty();
  auto receiver = std::make_shared<ScoreReceiver>(host.shared_from_this(), deferred, gathered);
  try {
    host.engine().score(std::move(request), std::move(version), std::move(receiver));
    host.expect_answer();
  } catch (...) {
    settle(env, deferred, nullptr, std::current_exception());
  }
  return deferred.Promise();
}

// 'live' is what is live when the job's turn comes: a publish queued before it counts.
Napi::Value score_on_train_lane(PolicyHost& host, Napi::Env env, ScoreRequest request, VersionPtr version) {
  const bool gathered = !request.gather.empty();
  Versions* versions = &host.versions();
  return host.run_on_train_thread(env, [=](TrainQueue::Tools& tools) -> PolicyHost::Reply {
    VersionPtr used = version ? version : versions->live();
    auto scored = std::make_shared<Scored>(score(request, used, tools.workspace, tools.lane));
    return [scored, gathered](Napi::Env env) { return js_scored(env, *scored, gathered); };
  });
}

}  // namespace

Napi::Value start_generation(PolicyHost& host, const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Engine& engine = host.engine();
  GenerateRequest request = read_request(info[0]);
  OC_CHECK(info[1].IsFunction(), Code::E_ARGUMENT, "onTokens: expected a function, got %s",
           describe(info[1]).c_str());
  const uint64_t number = host.next_generation++;
  auto ticket = engine.generate(std::move(request),
                                std::make_shared<GenerationReceiver>(host.shared_from_this(), number));
  host.expect_answer();
  auto done = Napi::Promise::Deferred::New(env);
  host.generations[number].reset(
      new PolicyHost::Generation{done, Napi::Persistent(info[1].As<Napi::Function>()), ticket, std::nullopt});

  Napi::Object out = Napi::Object::New(env);
  out.Set("done", done.Promise());
  out.Set("abort", Napi::Function::New(
                       env, [ticket](const Napi::CallbackInfo&) { ticket->abort(); }, "abort"));
  return out;
}

Napi::Value start_score(PolicyHost& host, const Napi::CallbackInfo& info) {
  Fields fields(info[0], "request");
  ScoreRequest request = read_score(fields);
  validate(request, host.config());
  const std::string name = fields.text("version");
  const bool train = fields.choice("lane", {"serve", "train"}) == 1;
  if (train) {
    VersionPtr version = name == "live" ? nullptr : host.versions().find(name);
    return score_on_train_lane(host, info.Env(), std::move(request), std::move(version));
  }
  return score_on_serve_lane(host, info.Env(), std::move(request), host.versions().find(name));
}

}  // namespace openclaw
