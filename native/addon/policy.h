// An open policy as JavaScript sees it: the native parts, the mailbox through which they answer, and the
// order in which all of it comes up and goes down.
//
// Threads: the event loop calls the methods; the serve thread (engine.h) and the train thread (train_queue.h)
// do the work; a helper thread opens and later closes, so that neither reading weights nor joining threads
// holds up the event loop.
//
// References to JavaScript values belong to the event loop: they lie in tables of this class, and what other
// threads carry is a number. A host is kept alive by whatever may still answer through it.
#pragma once
#include <napi.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "native/addon/mailbox.h"
#include "native/model/engine.h"
#include "native/model/train_queue.h"
#include "native/model/versions.h"

namespace openclaw {

class PolicyOwner;

struct PolicyOptions {
  DType dtype = DType::F32;
  int threads = 1;
  EngineOptions engine;
  std::string version;
  std::shared_ptr<const Adapter> adapter;
};

class PolicyHost : public std::enable_shared_from_this<PolicyHost> {
 public:
  using Load = std::function<std::shared_ptr<Weights>(Lane&)>;
  // Makes the JavaScript value of a result, on the event loop.
  using Reply = std::function<Napi::Value(Napi::Env)>;
  using Job = std::function<Reply(TrainQueue::Tools&)>;

  // Makes the JavaScript object of a policy that is open now.
  using Wrap = std::function<Napi::Value(Napi::Env, std::shared_ptr<PolicyOwner>)>;

  // Promise of what `wrap` makes. `load` runs on the helper thread.
  static Napi::Value open(Napi::Env env, PolicyOptions options, Load load, Wrap wrap);

  // Event-loop thread, all of them. E_DISPOSED once closing has begun.
  Engine& engine();
  Versions& versions();
  TrainQueue& train();
  const PolicyOptions& options() const { return options_; }
  const ModelConfig& config();
  int64_t train_yields();

  // Promise of what `job` replies, run on the train thread in its turn.
  Napi::Value run_on_train_thread(Napi::Env env, Job job);
  // For other work that answers later: `expect_answer` when it is accepted (event loop), then one `answer`
  // (any thread), run on the event loop. `tell` is a letter that is not the last.
  void expect_answer() { mailbox_->await(); }
  void answer(Mailbox::Letter letter);
  void tell(Mailbox::Letter letter) { mailbox_->post(std::move(letter)); }

  // Aborts what is under way and joins the threads; the promise is of the end. Call once, while open.
  Napi::Promise begin_close(Napi::Env env);
  bool open() const { return state_ == State::Open; }
  // Nothing in JavaScript refers to the policy any more: it is closed when nothing is under way.
  void abandon();

  // Generations under way, by number (generation.cc). `thrown`: what the listener threw, which ended the
  // generation.
  struct Generation {
    Napi::Promise::Deferred done;
    Napi::FunctionReference on_tokens;
    std::shared_ptr<Engine::Ticket> ticket;
    std::optional<Napi::Error> thrown;
  };
  std::map<uint64_t, std::unique_ptr<Generation>> generations;
  uint64_t next_generation = 1;

  ~PolicyHost();

 private:
  enum class State { Opening, Open, Closing, Closed };
  struct Parts;

  explicit PolicyHost(PolicyOptions options);
  void attach(Napi::Env env);
  void finish_open(Napi::Env env, Napi::Promise::Deferred deferred, std::exception_ptr error,
                   const Wrap& wrap);
  void finish_close(Napi::Env env, Napi::Promise::Deferred deferred);
  void on_teardown();
  void close_if_abandoned(Napi::Env env);
  void account(Napi::Env env, int64_t bytes);
  Parts& parts();

  const PolicyOptions options_;
  State state_ = State::Opening;
  bool abandoned_ = false;
  int64_t accounted_bytes_ = 0;
  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<Parts> parts_;
  std::thread helper_;
};

// The end of every answer: resolves or rejects.
void settle(Napi::Env env, Napi::Promise::Deferred deferred, const PolicyHost::Reply& reply,
            std::exception_ptr error);

// Held by the policy object and by each of its trainers; when the last goes, the policy is abandoned.
class PolicyOwner {
 public:
  explicit PolicyOwner(std::shared_ptr<PolicyHost> host) : host(std::move(host)) {}
  ~PolicyOwner() { host->abandon(); }
  const std::shared_ptr<PolicyHost> host;
};

// generation.cc: starts a generation and returns {done, abort}.
Napi::Value start_generation(PolicyHost& host, const Napi::CallbackInfo& info);
// generation.cc: a scoring pass on the lane that the request names.
Napi::Value start_score(PolicyHost& host, const Napi::CallbackInfo& info);
// trainer_addon.cc
Napi::Value make_trainer(std::shared_ptr<PolicyOwner> owner, const Napi::CallbackInfo& info);

}  // namespace openclaw
