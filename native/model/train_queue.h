// The train thread: runs jobs one at a time in the order in which they came, at low priority, yielding to
// requests (lanes.h). Thread and lane start with the first job: a policy that only serves has neither.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "native/base/error.h"
#include "native/model/forward.h"

namespace openclaw {

class TrainQueue {
 public:
  static constexpr size_t kMostJobs = 256;

  // What a job works with; belongs to the train thread.
  struct Tools {
    Lane& lane;
    Workspace& workspace;
  };
  // Called once with tools, or with null when the queue was closed before its turn. Must not throw.
  using Job = std::function<void(Tools*)>;

  TrainQueue(int threads, ServeGate& gate);
  ~TrainQueue();  // close()

  // Any thread. E_BUSY when kMostJobs wait, E_DISPOSED after close().
  void post(Job job);
  // Stops the job under way at its next piece (it sees E_ABORTED from the gate, which is cancelled for good),
  // tells those that wait, joins the thread. Any thread but the train thread; a second call waits too.
  void close();

 private:
  void run();
  bool next(Job& job, bool& closing);

  const int threads_;
  ServeGate& gate_;
  std::mutex mutex_, close_mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace openclaw
