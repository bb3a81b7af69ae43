// How native threads reach JavaScript: letters put into a box, read on the event loop.
//
// One box per policy, over one napi threadsafe function. A letter is a function to run on the event loop.
// Posting never blocks; at most one wake-up is under way however many letters lie in the box, and what fills
// the box is bounded by its users (a request has at most one token letter and one closing letter in it, a
// queued job one).
//
// The box holds the process open exactly while something is awaited. When the environment goes away (process
// end, worker terminated), `on_teardown` runs while JavaScript is already off, and must stop every thread
// that posts; letters still in the box are then dropped unread.
#pragma once
#include <napi.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace openclaw {

class Mailbox {
 public:
  using Letter = std::function<void(Napi::Env)>;

  // Event-loop thread. on_teardown is called at most once, on the event-loop thread, and never after close().
  Mailbox(Napi::Env env, const char* name, std::function<void()> on_teardown);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Any thread. Dropped when the box is closed.
  void post(Letter letter);

  // Event-loop thread: something is awaited / has arrived. The process stays up while the count is above
  // zero.
  void await();
  void arrived();
  int64_t awaited() const;

  // Event-loop thread, once nothing posts any more: releases the function and forgets the teardown hook.
  void close();

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace openclaw
