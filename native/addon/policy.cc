#include "native/addon/policy.h"

#include "native/addon/failure.h"

namespace openclaw {

// The native side, in the order in which it depends on each other; destroyed in reverse.
struct PolicyHost::Parts {
  ServeGate gate;
  Lane serve_lane;
  std::unique_ptr<Versions> versions;
  std::unique_ptr<Engine> engine;
  TrainQueue train;

  explicit Parts(int threads) : serve_lane(threads, /*low_priority=*/false, nullptr), train(threads, gate) {}

  void start(const PolicyOptions& options, const Load& load) {
    Snapshot snapshot;
    snapshot.weights = load(serve_lane);
    snapshot.adapter = options.adapter;
    snapshot.version = options.version;
    versions = std::make_unique<Versions>(std::move(snapshot));
    engine = std::make_unique<Engine>(*versions, options.engine, gate, serve_lane);
  }

  int64_t bytes() const {
    VersionPtr base = versions->base(), live = versions->live();
    const Weights *held = base->snapshot.weights.get(), *served = live->snapshot.weights.get();
    int64_t weights = (int64_t)held->resident_bytes + (served == held ? 0 : (int64_t)served->resident_bytes);
    return weights + engine->stats().kv_bytes;
  }
};

void settle(Napi::Env env, Napi::Promise::Deferred deferred, const PolicyHost::Reply& reply,
            std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
    return deferred.Resolve(reply(env));
  } catch (...) {
    error = std::current_exception();
  }
  deferred.Reject(js_error(env, error).Value());
}

PolicyHost::PolicyHost(PolicyOptions options) : options_(std::move(options)) {}

PolicyHost::~PolicyHost() = default;

void PolicyHost::attach(Napi::Env env) {
  std::weak_ptr<PolicyHost> weak = weak_from_this();
  mailbox_ = std::make_unique<Mailbox>(env, "openclaw-rl policy", [weak] {
    if (auto host = weak.lock()) host->on_teardown();
  });
}

Napi::Value PolicyHost::open(Napi::Env env, PolicyOptions options, Load load, Wrap wrap) {
  std::shared_ptr<PolicyHost> host(new PolicyHost(std::move(options)));
  host->attach(env);
  host->expect_answer();
  auto deferred = Napi::Promise::Deferred::New(env);
  host->helper_ = std::thread([host, deferred, load = std::move(load), wrap = std::move(wrap)] {
    std::exception_ptr error;
    try {
      auto parts = std::make_unique<Parts>(host->options_.threads);
      parts->start(host->options_, load);
      host->parts_ = std::move(parts);
    } catch (...) {
      error = std::current_exception();
    }
    host->answer(
        [host, deferred, error, wrap](Napi::Env env) { host->finish_open(env, deferred, error, wrap); });
  });
  return deferred.Promise();
}

void PolicyHost::finish_open(Napi::Env env, Napi::Promise::Deferred deferred, std::exception_ptr error,
                             const Wrap& wrap) {
  helper_.join();
  state_ = error ? State::Closed : State::Open;
  if (!error) account(env, parts_->bytes());
  settle(
      env, deferred,
      [&](Napi::Env env) { return wrap(env, std::make_shared<PolicyOwner>(shared_from_this())); }, error);
  if (error) mailbox_->close();
}

PolicyHost::Parts& PolicyHost::parts() {
  OC_CHECK(state_ == State::Open, Code::E_DISPOSED, "the policy is closed");
  return *parts_;
}

Engine& PolicyHost::engine() { return *parts().engine; }
Versions& PolicyHost::versions() { return *parts().versions; }
TrainQueue& PolicyHost::train() { return parts().train; }
int64_t PolicyHost::train_yields() { return parts().gate.yields(); }

const ModelConfig& PolicyHost::config() { return versions().base()->snapshot.weights->config; }

void PolicyHost::answer(Mailbox::Letter letter) {
  mailbox_->post([host = shared_from_this(), letter = std::move(letter)](Napi::Env env) {
    host->mailbox_->arrived();
    letter(env);
    if (host->state_ != State::Open) return;
    host->account(env, host->parts_->bytes());
    host->close_if_abandoned(env);
  });
}

Napi::Value PolicyHost::run_on_train_thread(Napi::Env env, Job job) {
  TrainQueue& queue = train();
  auto deferred = Napi::Promise::Deferred::New(env);
  auto run = [host = shared_from_this(), deferred, job = std::move(job)](TrainQueue::Tools* tools) {
    Reply reply;
    std::exception_ptr error;
    try {
      OC_CHECK(tools, Code::E_ABORTED, "the policy was closed before this job's turn");
      reply = job(*tools);
    } catch (...) {
      error = std::current_exception();
    }
    host->answer(
        [deferred, reply = std::move(reply), error](Napi::Env env) { settle(env, deferred, reply, error); });
  };
  expect_answer();
  try {
    queue.post(std::move(run));
  } catch (...) {
    mailbox_->arrived();
    settle(env, deferred, nullptr, std::current_exception());
  }
  return deferred.Promise();
}

Napi::Promise PolicyHost::begin_close(Napi::Env env) {
  parts();
  state_ = State::Closing;
  auto deferred = Napi::Promise::Deferred::New(env);
  expect_answer();
  helper_ = std::thread([host = shared_from_this(), deferred] {
    host->parts_->engine->close();
    host->parts_->train.close();
    host->parts_.reset();
    host->answer([host, deferred](Napi::Env env) { host->finish_close(env, deferred); });
  });
  return deferred.Promise();
}

void PolicyHost::finish_close(Napi::Env env, Napi::Promise::Deferred deferred) {
  helper_.join();
  state_ = State::Closed;
  account(env, 0);
  deferred.Resolve(env.Undefined());
  mailbox_->close();
}

// Called by a finaliser, which is no place to make promises or threads: hence a letter.
void PolicyHost::abandon() {
  mailbox_->post([host = shared_from_this()](Napi::Env env) {
    host->abandoned_ = true;
    host->close_if_abandoned(env);
  });
}

void PolicyHost::close_if_abandoned(Napi::Env env) {
  if (abandoned_ && state_ == State::Open && mailbox_->awaited() == 0) begin_close(env);
}

// The environment ends: nothing will read the letters, so the threads are stopped here and now.
void PolicyHost::on_teardown() {
  if (helper_.joinable()) helper_.join();
  parts_.reset();  // engine and train queue close themselves
  generations.clear();
  state_ = State::Closed;
}

// V8 weighs memory outside its heap when it decides about collecting garbage; what it is told must be the
// difference.
void PolicyHost::account(Napi::Env env, int64_t bytes) {
  if (bytes == accounted_bytes_) return;
  Napi::MemoryManagement::AdjustExternalMemory(env, bytes - accounted_bytes_);
  accounted_bytes_ = bytes;
}

}  // namespace openclaw
