#include "native/base/lanes.h"

#include <chrono>
#include <exception>

#include "native/base/error.h"

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace openclaw {
namespace {

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Tells the processor that this thread only waits.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The share the train lane keeps while requests are in flight: 4 ms of every 40.
constexpr int64_t kOpenUs = 4000, kClosedUs = 36000;

void lower_priority_of_this_thread() {
#if defined(__linux__)
  // On Linux setpriority acts on one thread when given its id. Failure is harmless: the gate alone still
  // preempts.
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
#endif
}

}  // namespace

void Gate::enter() { in_flight_.fetch_add(1, std::memory_order_relaxed); }

void Gate::leave() {
  if (in_flight_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.notify_all();
  }
}

void Gate::cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(mutex_);
  idle_.notify_all();
}

void Gate::yield_point() {
  if (cancelled_.load(std::memory_order_relaxed)) fail(Code::E_ABORTED, "the policy is being closed");
  if (in_flight_.load(std::memory_order_relaxed) == 0) return;
  int64_t now = now_us();
  if (now < open_until_us_.load(std::memory_order_relaxed)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  now = now_us();
  if (now >= open_until_us_ && now >= closed_until_us_) {  // the first to come sets the next window for all
    closed_until_us_ = now + kClosedUs;
    open_until_us_ = now + kClosedUs + kOpenUs;
  }
  if (now >= closed_until_us_) return;
  yields_.fetch_add(1, std::memory_order_relaxed);
  idle_.wait_for(lock, std::chrono::microseconds(closed_until_us_ - now),
                 [&] { return in_flight_.load(std::memory_order_relaxed) == 0 || cancelled_.load(); });
}

// One parallel_for is a round. The state word holds the round's number, whether it is open, and how many of
// the pool's threads have joined it. Threads join an open round when they get there; the caller works too,
// closes the round when no piece is left, and waits only for those that joined: a thread that is still waking
// up costs nothing.
struct Lane::Shared {
  static constexpr uint64_t kJoined = 0xff, kOpen = 0x100;
  static constexpr int kRoundShift = 9;

  std::atomic<uint64_t> state{0};
  std::atomic<int64_t> next{0};
  std::atomic<int> asleep{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // of sleeping and waking, and of `error`
  std::condition_variable start, done;
  // The round's work: written while it is closed and empty, read by those who joined.
  int64_t n = 0, grain = 1;
  const std::function<void(int64_t, int64_t, int)>* body = nullptr;
  std::exception_ptr error;

  void work(int worker, Gate* gate) {
    try {
      for (;;) {
        int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= n) return;
        if (gate) gate->yield_point();
        (*body)(begin, begin + grain < n ? begin + grain : n, worker);
      }
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
      next.store(n, std::memory_order_relaxed);
    }
  }

  void open_round() {
    const uint64_t round = (state.load() >> kRoundShift) + 1;
    next.store(0, std::memory_order_relaxed);
    state.store(round << kRoundShift | kOpen);
    // A thread counts itself asleep before it looks at the state for the last time: one of the two sees the
    // other.
    if (asleep.load() == 0) return;
    { std::lock_guard<std::mutex> lock(mutex); }
    start.notify_all();
  }

  void close_round() {
    state.fetch_and(~kOpen);
    if (spin([&] { return (state.load() & kJoined) == 0; })) return;
    std::unique_lock<std::mutex> lock(mutex);
    done.wait(lock, [&] { return (state.load() & kJoined) == 0; });
  }

  // False when the round closed meanwhile.
  bool join_round() {
    uint64_t seen = state.load();
    while (seen & kOpen)
      if (state.compare_exchange_weak(seen, seen + 1)) return true;
    return false;
  }

  void leave_round() {
    const uint64_t left = state.fetch_sub(1) - 1;
    if ((left & (kJoined | kOpen)) != 0) return;
    { std::lock_guard<std::mutex> lock(mutex); }
    done.notify_one();
  }

  // Waits for a round after `round`, or for the end. Returns its number.
  uint64_t wait_for_round(uint64_t round, bool may_spin) {
    auto ready = [&] { return stop.load() || state.load() >> kRoundShift != round; };
    if (!may_spin || !spin(ready)) {
      std::unique_lock<std::mutex> lock(mutex);
      asleep.fetch_add(1);
      start.wait(lock, ready);
      asleep.fetch_sub(1);
    }
    return state.load() >> kRoundShift;
  }

  // Looks again and again for a short while: the operations of a small model follow each other within
  // microseconds, and going to sleep and back takes tens of them.
  template <typename Ready>
  static bool spin(const Ready& ready) {
    constexpr int64_t kSpinUs = 30;
    const int64_t until = now_us() + kSpinUs;
    do {
      for (int i = 0; i < 32; i++) {
        if (ready()) return true;
        relax();
      }
    } while (now_us() < until);
    return false;
  }
};

Lane::Lane(int threads, bool low_priority, Gate* gate)
    : threads_(threads < 1     ? 1
               : threads > 128 ? 128
                               : threads),
      gate_(gate),
      shared_(new Shared) {
  for (int w = 1; w < threads_; w++)
    workers_.emplace_back([this, w, low_priority] {
      if (low_priority) lower_priority_of_this_thread();
      for (uint64_t round = 0;;) {
        round = shared_->wait_for_round(round, !gate_ || gate_->in_flight() == 0);
        if (shared_->stop.load()) return;
        if (!shared_->join_round()) continue;
        shared_->work(w, gate_);
        shared_->leave_round();
      }
    });
}

Lane::~Lane() {
  {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->stop.store(true);
  }
  shared_->start.notify_all();
  for (auto& worker : workers_) worker.join();
}

void Lane::set_low_priority_here() { lower_priority_of_this_thread(); }

void Lane::parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  Shared& s = *shared_;
  if (threads_ == 1 || n <= grain) {
    for (int64_t begin = 0; begin < n; begin += grain) {
      if (gate_) gate_->yield_point();
      body(begin, begin + grain < n ? begin + grain : n, 0);
    }
    return;
  }
  s.n = n;
  s.grain = grain;
  s.body = &body;
  s.error = nullptr;
  s.open_round();
  s.work(0, gate_);
  s.close_round();
  if (s.error) std::rethrow_exception(s.error);
}

}  // namespace openclaw
