#include "native/model/train_queue.h"

namespace openclaw {

TrainQueue::TrainQueue(int threads, ServeGate& gate) : threads_(threads), gate_(gate) {}

TrainQueue::~TrainQueue() { close(); }

void TrainQueue::post(Job job) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    OC_CHECK(!closing_, Code::E_DISPOSED, "the policy is closed");
    OC_CHECK(jobs_.size() < kMostJobs, Code::E_BUSY, "%zu jobs wait for the train thread, which is the limit",
             jobs_.size());
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  wake_.notify_one();
}

void TrainQueue::close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  gate_.cancel();
  wake_.notify_one();
  std::lock_guard<std::mutex> lock(close_mutex_);
  if (thread_.joinable()) thread_.join();
}

bool TrainQueue::next(Job& job, bool& closing) {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
  closing = closing_;
  if (jobs_.empty()) return false;
  job = std::move(jobs_.front());
  jobs_.pop_front();
  return true;
}

void TrainQueue::run() {
  Lane lane(threads_, /*low_priority=*/true, &gate_);
  lane.set_low_priority_here();
  Workspace workspace;
  Tools tools{lane, workspace};
  Job job;
  bool closing = false;
  while (next(job, closing)) {
    job(closing ? nullptr : &tools);
    job = nullptr;  // what the job holds goes now, not when the next one comes
  }
}

}  // namespace openclaw
