// Two lanes of native threads (design.md §7): `serve` preempts `train`.
//
// A Lane runs a loop body over [0, n) in pieces. Pieces never split a reduction, so results do not depend on
// the number of threads. The train lane asks the Gate before every piece: while a request is being served it
// waits, with a small guaranteed share so that constant traffic cannot starve learning; its threads also run
// at the lowest scheduling priority. Not a general task queue: one parallel_for at a time per lane.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace openclaw {

// Counts requests in flight on the serve lane; the train lane waits on it. Bounded waits only.
class Gate {
 public:
  void enter();  // a request starts needing the processor
  void leave();
  // Called by train-lane threads between pieces. Returns at once when nothing is served. Otherwise blocks,
  // but lets the caller through for about `share` of wall time, so that it always returns (within about 50
  // ms).
  void yield_point();
  int in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
  // From now on yield_point() throws E_ABORTED: a training step under way ends at its next piece. For
  // closing; not undone.
  void cancel();
  // How often a train-lane thread waited for requests, since the start.
  int64_t yields() const { return yields_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
  std::atomic<int64_t> yields_{0};
  std::atomic<int> in_flight_{0};
  std::atomic<int64_t> open_until_us_{0}, closed_until_us_{0};
  std::mutex mutex_;
  std::condition_variable idle_;
};

// The same class under a name that the LoRA target `Gate` (weights.h) does not hide.
using ServeGate = Gate;

class Lane {
 public:
  // threads 1..128 (clamped); the calling thread counts as one. low_priority: nice 19 for the pool's threads.
  // gate: null on the serve lane.
  Lane(int threads, bool low_priority, Gate* gate);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  int threads() const { return threads_; }
  // Calls body(begin, end, worker) over [0, n) in pieces of `grain`; worker in 0..threads-1. Rethrows the
  // first exception. Only one thread may call at a time (the lane's owner).
  void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body);
  void yield_point() {
    if (gate_) gate_->yield_point();
  }
  void set_low_priority_here();  // for the owner's own thread

 private:
  struct Shared;
  int threads_;
  Gate* gate_;
  std::unique_ptr<Shared> shared_;
  std::vector<std::thread> workers_;
};

}  // namespace openclaw
