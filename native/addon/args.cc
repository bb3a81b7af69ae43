#include "native/addon/args.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <thread>

namespace openclaw {

// --- reading

Args::Args(Napi::Value options, const char* name)
    : Fields(options, name),
      env_(options.Env()),
      results_(Napi::Object::New(env_)),
      kept_(Napi::Array::New(env_)) {
  kept_.Set(0u, results_);
}

AnyArray Args::borrow(const char* key, std::initializer_list<napi_typedarray_type> kinds,
                      const char* expected) {
  Napi::Value value = get(key);
  OC_CHECK(value.IsTypedArray(), Code::E_DTYPE, "%s: expected %s, got %s", path(key).c_str(), expected,
           describe(value).c_str());
  AnyArray a{};
  size_t size = 0, offset = 0;
  napi_value buffer;
  napi_status status = napi_get_typedarray_info(env_, value, &a.type, &size, &a.data, &buffer, &offset);
  NAPI_THROW_IF_FAILED(env_, status, a);
  a.size = (int64_t)size;
  OC_CHECK(std::find(kinds.begin(), kinds.end(), a.type) != kinds.end(), Code::E_DTYPE,
           "%s: expected %s, got another typed array", path(key).c_str(), expected);
  OC_CHECK(a.size > 0 && a.data, Code::E_SHAPE,
           "%s: expected at least one element, got an empty or detached array", path(key).c_str());
  // A shrinking buffer gives pages back to the system under a pointer that another thread reads.
  OC_CHECK(!Napi::Object(env_, buffer).Get("resizable").ToBoolean(), Code::E_ARGUMENT,
           "%s: expected a buffer of fixed size, got a resizable one", path(key).c_str());
  loans_.push_back({key, a.size});
  kept_.Set((uint32_t)loans_.size(), value);
  return a;
}

void Args::check_length(const char* key, int64_t got, int64_t expected) const {
  OC_CHECK(expected < 0 || got == expected, Code::E_SHAPE, "%s: expected %lld elements, got %lld",
           path(key).c_str(), (long long)expected, (long long)got);
}

void Args::check_finite(const char* key, Borrowed<const float> values) const {
  for (int64_t i = 0; i < values.size; i++)
    OC_CHECK(std::isfinite(values.data[i]), Code::E_NOT_FINITE, "%s: expected finite numbers, got %g at %lld",
             path(key).c_str(), values.data[i], (long long)i);
}

void Args::check_ids(const char* key, Borrowed<const int32_t> ids, int64_t vocab, int32_t lowest) const {
  const char* padding = lowest < 0 ? " or padding below 0" : "";
  for (int64_t i = 0; i < ids.size; i++) {
    const int32_t id = ids.data[i];
    OC_CHECK(id < vocab && (id >= 0 || lowest < 0), Code::E_TOKEN_ID,
             "%s: expected token ids from 0 to %lld%s, got %d at %lld", path(key).c_str(),
             (long long)vocab - 1, padding, id, (long long)i);
  }
}

void Args::hold() { held_ = Napi::Persistent((Napi::Object)kept_); }

void Args::resume() {
  kept_ = held_.Value().As<Napi::Array>();
  results_ = kept_.Get(0u).As<Napi::Object>();
  for (size_t i = 0; i < loans_.size(); i++) {
    const auto now = (int64_t)kept_.Get((uint32_t)i + 1).As<Napi::TypedArray>().ElementLength();
    OC_CHECK(
        now == loans_[i].size, Code::E_ARGUMENT,
        "%s: expected an array that stays in place until the promise settles, got one detached meanwhile",
        path(loans_[i].key).c_str());
  }
}

// --- errors

namespace {

// What stands before the first ": " is the argument at fault, with the call's name at the door
// ("logitStats.k: expected …") and without it in the kernels ("logits: expected …").
void name_argument(Napi::Error& error, const std::string& call) {
  const std::string& text = error.Message();
  const size_t begin = text.compare(0, call.size() + 1, call + ".") == 0 ? call.size() + 1 : 0;
  const size_t end = text.find(": ");
  if (end == std::string::npos || end <= begin) return;
  const std::string name = text.substr(begin, end - begin);
  const bool one_word = name.find_first_of(" ,") == std::string::npos;
  if (one_word && name != call) error.Set("argument", Napi::String::New(error.Env(), name));
}

Napi::Error call_error(Napi::Env env, std::exception_ptr thrown, const char* call) {
  Napi::Error error = js_error(env, thrown);
  name_argument(error, call);
  return error;
}

// An error made after the work has only the event loop on its stack; the frames that matter are the caller's.
void adopt_stack(Napi::Error& error, const Napi::Error& caller) {
  const std::string frames = caller.Get("stack").ToString().Utf8Value();
  const size_t first = frames.find("\n    at ");
  if (first == std::string::npos) return;
  error.Set("stack", Napi::String::New(error.Env(), "Error: " + error.Message() + frames.substr(first)));
}

// --- threads

// One pool for the process, never destroyed: at exit its threads wait for work, and joining them from a
// static destructor could wait for a call that libuv still runs. A call that finds the pool in use by another
// does not wait for it but runs on its own thread alone; results do not depend on that.
class Pool {
 public:
  void run(const std::function<void(Lane&)>& work, int threads) {
    std::unique_lock<std::mutex> mine(mutex_, std::defer_lock);
    if (threads == 1 || !mine.try_lock()) {
      Lane alone(1, false, nullptr);
      work(alone);
      return;
    }
    if (!lane_) lane_ = std::make_unique<Lane>(most_threads(), false, nullptr);
    work(*lane_);
  }

 private:
  static int most_threads() { return std::clamp((int)std::thread::hardware_concurrency(), 1, 16); }
  std::mutex mutex_;
  std::unique_ptr<Lane> lane_;
};

Pool& pool() {
  static Pool& the = *new Pool;
  return the;
}

// --- running

Napi::Value finish(Args& args, const Call& call) {
  if (call.answer) call.answer(args);
  return args.results();
}

class CallWorker : public Napi::AsyncWorker {
 public:
  CallWorker(Napi::Env env, const char* name, Args&& args, Call&& call)
      : Napi::AsyncWorker(env, name),
        name_(name),
        args_(std::move(args)),
        call_(std::move(call)),
        deferred_(Napi::Promise::Deferred::New(env)),
        caller_(Napi::Error::New(env, name)) {
    args_.hold();
  }
  Napi::Promise promise() const { return deferred_.Promise(); }

  void Execute() override {
    try {
      pool().run(call_.work, call_.threads);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  void OnOK() override {
    try {
      if (failure_) std::rethrow_exception(failure_);
      args_.resume();
      deferred_.Resolve(finish(args_, call_));
    } catch (...) {
      Napi::Error error = call_error(Env(), std::current_exception(), name_);
      adopt_stack(error, caller_);
      deferred_.Reject(error.Value());
    }
  }

 private:
  const char* name_;
  Args args_;
  Call call_;
  Napi::Promise::Deferred deferred_;
  Napi::Error caller_;
  std::exception_ptr failure_;
};

}  // namespace

Napi::Value run_call(const Napi::CallbackInfo& info, Mode mode, const char* name, Door door) {
  Napi::Env env = info.Env();
  try {
    Args args(info[0], name);
    Call call = door(args);
    if (mode == Mode::Sync) {
      pool().run(call.work, call.threads);
      return finish(args, call);
    }
    auto* worker = new CallWorker(env, name, std::move(args), std::move(call));  // deletes itself when done
    Napi::Promise promise = worker->promise();
    worker->Queue();
    return promise;
  } catch (...) {
    Napi::Error error = call_error(env, std::current_exception(), name);
    if (mode == Mode::Sync) throw error;
    auto deferred = Napi::Promise::Deferred::New(env);
    deferred.Reject(error.Value());
    return deferred.Promise();
  }
}

void define_call(Napi::Object exports, const char* name, Door door) {
  auto define = [&](const std::string& key, Mode mode) {
    exports.Set(key,
                Napi::Function::New(
                    exports.Env(),
                    [=](const Napi::CallbackInfo& info) { return run_call(info, mode, name, door); }, key));
  };
  define(name, Mode::Sync);
  define(std::string(name) + "Async", Mode::Async);
}

}  // namespace openclaw
