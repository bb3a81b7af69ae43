#include "native/addon/mailbox.h"

namespace openclaw {

struct Mailbox::Core {
  std::mutex mutex;
  std::vector<Letter> letters;
  bool open = true, woken = false;

  // the event loop's own
  napi_env env = nullptr;
  napi_threadsafe_function wake = nullptr;
  int64_t awaited = 0;
  std::function<void()> on_teardown;

  std::vector<Letter> take() {
    std::vector<Letter> taken;
    std::lock_guard<std::mutex> lock(mutex);
    woken = false;
    taken.swap(letters);
    return taken;
  }

  void shut() {
    std::vector<Letter> unread;
    std::lock_guard<std::mutex> lock(mutex);
    open = false;
    unread.swap(letters);  // destroyed after the lock: letters own references to JavaScript
  }

  // A letter that throws has thrown into nobody's hands: it becomes an uncaught exception, as in a timer's
  // callback.
  void read(const Letter& letter) {
    Napi::HandleScope scope(env);
    try {
      letter(env);
    } catch (const Napi::Error& error) {
      napi_fatal_exception(env, error.Value());
    }
  }

  static void on_wake(napi_env env, napi_value, void* context, void*) {
    if (!env) return;  // the environment is going away
    std::shared_ptr<Core> core = *(std::shared_ptr<Core>*)context;
    for (const Letter& letter : core->take()) core->read(letter);
  }

  static void on_environment_end(void* context) {
    Core* core = (Core*)context;
    if (auto stop = std::move(core->on_teardown)) stop();
    core->shut();
  }
};

Mailbox::Mailbox(Napi::Env env, const char* name, std::function<void()> on_teardown) : core_(new Core) {
  core_->env = env;
  core_->on_teardown = std::move(on_teardown);
  auto* context = new std::shared_ptr<Core>(core_);
  auto finalize = [](napi_env, void*, void* context) { delete (std::shared_ptr<Core>*)context; };
  napi_status status =
      napi_create_threadsafe_function(env, nullptr, nullptr, Napi::String::New(env, name), 0, 1, nullptr,
                                      finalize, context, &Core::on_wake, &core_->wake);
  NAPI_THROW_IF_FAILED_VOID(env, status);
  napi_unref_threadsafe_function(env, core_->wake);
  // Hooks run last-in first-out: ours, which joins the threads, before the threadsafe function's own.
  napi_add_env_cleanup_hook(env, &Core::on_environment_end, core_.get());
}

Mailbox::~Mailbox() = default;

void Mailbox::post(Letter letter) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  if (!core_->open) return;
  core_->letters.push_back(std::move(letter));
  if (core_->woken) return;
  core_->woken = napi_call_threadsafe_function(core_->wake, nullptr, napi_tsfn_nonblocking) == napi_ok;
}

void Mailbox::await() {
  if (core_->awaited++ == 0) napi_ref_threadsafe_function(core_->env, core_->wake);
}

void Mailbox::arrived() {
  if (--core_->awaited == 0) napi_unref_threadsafe_function(core_->env, core_->wake);
}

int64_t Mailbox::awaited() const { return core_->awaited; }

void Mailbox::close() {
  core_->shut();
  napi_remove_env_cleanup_hook(core_->env, &Core::on_environment_end, core_.get());
  core_->on_teardown = nullptr;
  napi_release_threadsafe_function(core_->wake, napi_tsfn_release);
}

}  // namespace openclaw
