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
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The share the train lane keeps while requests are in flight: 4 ms of every 40.
constexpr int64_t kOpenUs = 4000, kClosedUs = 36000;

void lower_priority_of_this_thread() {
#if defined(__linux__)
  // On Linux setpriority acts on one thread when given its id. Failure is harmless: the gate alone still preempts.
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

struct Lane::Shared {
  std::mutex mutex;
  std::condition_variable start, done;
  uint64_t round = 0;
  bool stop = false;
  int running = 0;
  int64_t n = 0, grain = 1;
  std::atomic<int64_t> next{0};
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
};

Lane::Lane(int threads, bool low_priority, Gate* gate)
    : threads_(threads < 1 ? 1 : threads), gate_(gate), shared_(new Shared) {
  for (int w = 1; w < threads_; w++)
    workers_.emplace_back([this, w, low_priority] {
      if (low_priority) lower_priority_of_this_thread();
      uint64_t seen = 0;
      for (;;) {
        {
          std::unique_lock<std::mutex> lock(shared_->mutex);
          shared_->start.wait(lock, [&] { return shared_->stop || shared_->round != seen; });
          if (shared_->stop) return;
          seen = shared_->round;
        }
        shared_->work(w, gate_);
        std::lock_guard<std::mutex> lock(shared_->mutex);
        if (--shared_->running == 0) shared_->done.notify_one();
      }
    });
}

Lane::~Lane() {
  {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->stop = true;
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
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.n = n;
    s.grain = grain;
    s.body = &body;
    s.error = nullptr;
    s.next.store(0, std::memory_order_relaxed);
    s.running = threads_ - 1;
    s.round++;
  }
  s.start.notify_all();
  s.work(0, gate_);
  std::unique_lock<std::mutex> lock(s.mutex);
  s.done.wait(lock, [&] { return s.running == 0; });
  if (s.error) std::rethrow_exception(s.error);
}

}  // namespace openclaw
