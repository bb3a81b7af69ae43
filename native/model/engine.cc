// The engine's doors, its thread, and who is let in; a step of the thread is engine_step.cc.
#include <limits>

#include "native/model/engine_sequence.h"
#include "native/model/token_ids.h"

namespace openclaw {
Engine::Engine(Versions& versions, const EngineOptions& options, ServeGate& gate, Lane& lane)
    : versions_(versions),
      options_(options),
      gate_(gate),
      lane_(lane),
      config_(versions.base()->snapshot.weights->config),
      cache_(config_, options.kv_bytes),
      scratch_((size_t)lane.threads()) {
  OC_CHECK(options.max_in_flight >= 1, Code::E_ARGUMENT, "maxInFlight: expected an integer >= 1, got %lld",
           (long long)options.max_in_flight);
  OC_CHECK(options.max_waiting >= 0, Code::E_ARGUMENT, "maxWaiting: expected an integer >= 0, got %lld",
           (long long)options.max_waiting);
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() { close(); }

std::shared_ptr<Engine::Ticket> Engine::generate(GenerateRequest request,
                                                 std::shared_ptr<Receiver> receiver) {
  OC_CHECK(!request.ids.empty(), Code::E_ARGUMENT, "ids: expected at least one token, got none");
  OC_CHECK(request.max_tokens >= 1, Code::E_ARGUMENT, "maxTokens: expected an integer >= 1, got %lld",
           (long long)request.max_tokens);
  OC_CHECK(request.deadline_ms >= 0, Code::E_ARGUMENT, "deadlineMs: expected a number >= 0, got %lld",
           (long long)request.deadline_ms);
  validate(request.sampling);
  check_token_ids(request.ids, config_.vocab, "ids");
  check_token_ids(request.stop_ids, config_.vocab, "stopIds");
  const int64_t room = std::min(config_.context, cache_.capacity_tokens()),
                prompt = (int64_t)request.ids.size();
  OC_CHECK(prompt < room, Code::E_CONTEXT,
           "ids: expected at most %lld tokens, so that one can follow (context %lld, key/value memory for "
           "%lld), got %lld",
           (long long)room - 1, (long long)config_.context, (long long)cache_.capacity_tokens(),
           (long long)prompt);

  auto sequence = std::make_unique<Sequence>();
  request.max_tokens = std::min(request.max_tokens, room - prompt);
  if (request.deadline_ms > 0)
    sequence->deadline = sequence->submitted + std::chrono::milliseconds(request.deadline_ms);
  sequence->ids = std::move(request.ids);
  sequence->prompt = prompt;
  sequence->request = std::move(request);
  sequence->receiver = std::move(receiver);
  return submit(std::move(sequence));
}

std::shared_ptr<Engine::Ticket> Engine::score(ScoreRequest request, VersionPtr version,
                                              std::shared_ptr<Receiver> receiver) {
  validate(request, config_);
  const int64_t tokens = (int64_t)request.ids.size() - 1;
  OC_CHECK(tokens <= cache_.capacity_tokens(), Code::E_CONTEXT,
           "ids: the key/value memory holds %lld tokens, got %lld", (long long)cache_.capacity_tokens(),
           (long long)tokens);
  auto sequence = std::make_unique<Sequence>();
  sequence->ids.assign(request.ids.begin(), request.ids.end() - 1);
  sequence->prompt = tokens;
  sequence->version = version;
  sequence->pass = std::make_unique<ScorePass>(std::move(request), std::move(version));
  sequence->receiver = std::move(receiver);
  return submit(std::move(sequence));
}

std::shared_ptr<Engine::Ticket> Engine::submit(SequencePtr sequence) {
  auto ticket = sequence->ticket;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    OC_CHECK(!closing_, Code::E_DISPOSED, "the policy is closed");
    OC_CHECK(accepted_ < options_.max_in_flight + options_.max_waiting, Code::E_BUSY,
             "%lld requests are under way or waiting, which is the limit (maxInFlight %lld, maxWaiting %lld)",
             (long long)accepted_, (long long)options_.max_in_flight, (long long)options_.max_waiting);
    accepted_++;
    gate_.enter();
    arrivals_.push_back(std::move(sequence));
  }
  wake_.notify_one();
  return ticket;
}

EngineStats Engine::stats() const {
  EngineStats s;
  s.in_flight = in_flight_;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    s.waiting = std::max<int64_t>(0, accepted_ - s.in_flight);
  }
  s.kv_bytes = cache_.allocated_bytes();
  s.kv_bytes_limit = cache_.capacity_pages() * KvCache::page_bytes(config_);
  s.cached_tokens = cached_tokens_;
  s.generated_tokens = generated_tokens_;
  s.prompt_tokens = prompt_tokens_;
  return s;
}

void Engine::close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  std::lock_guard<std::mutex> lock(close_mutex_);
  if (thread_.joinable()) thread_.join();
}

// --- the serve thread
// -----------------------------------------------------------------------------------------------

void Engine::run() {
  while (wait_for_work()) {
    end_cancelled();
    try {
      admit();
      step();
    } catch (...) {  // memory for the step itself could not be had
      if (active_.empty() && !waiting_.empty()) fail_sequence(*waiting_.front(), std::current_exception());
      for (auto& sequence : active_) fail_sequence(*sequence, std::current_exception());
    }
    remove_ended();
  }
}

// Takes in what arrived; sleeps only when there is nothing at all to do. False when closing and everything
// has ended.
bool Engine::wait_for_work() {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait(lock, [&] { return closing_ || !arrivals_.empty() || !waiting_.empty() || !active_.empty(); });
  for (auto& sequence : arrivals_) waiting_.push_back(std::move(sequence));
  arrivals_.clear();
  return !(closing_ && waiting_.empty() && active_.empty());
}

void Engine::end_cancelled() {
  bool closing;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing = closing_;
  }
  const auto now = Clock::now();
  auto look_at = [&](Sequence& sequence) {
    if (closing || sequence.ticket->aborted_.load(std::memory_order_relaxed))
      finish(sequence, Finish::Abort);
    else if (sequence.deadline && now >= *sequence.deadline)
      finish(sequence, Finish::Deadline);
  };
  for (auto& sequence : waiting_) look_at(*sequence);
  for (auto& sequence : active_) look_at(*sequence);
  remove_ended();
}

// Waiting requests become active in order while there are places and pages. One that would read the same
// beginning as a sequence that is reading it now is passed over until that can be borrowed: many requests
// under one system prompt read it once.
void Engine::admit() {
  VersionPtr live = versions_.live();
  if (live->root != kept_root_) cache_.keep_only(kept_root_ = live->root);
  for (auto it = waiting_.begin();
       it != waiting_.end() && (int64_t)active_.size() < options_.max_in_flight;) {
    Sequence& sequence = **it;
    const bool fresh = !sequence.version;
    if (fresh) sequence.version = live;
    const Admission outcome = try_admit(sequence);
    if (outcome == Admission::Admitted) {
      active_.push_back(std::move(*it));
      it = waiting_.erase(it);
      in_flight_ = (int64_t)active_.size();
      continue;
    }
    sequence.table.reset();
    if (fresh) sequence.version = nullptr;  // may still start under a newer one
    if (outcome == Admission::NoPages) return;
    ++it;
  }
}

// Pages must suffice for what is to be read, and one more for every sequence that is growing.
Engine::Admission Engine::try_admit(Sequence& sequence) {
  sequence.table.emplace(cache_, sequence.version->root);
  const int64_t reused = sequence.table->reuse(sequence.ids.data(), sequence.reusable());
  if (is_being_read(sequence, reused)) return Admission::PrefixUnderWay;
  const int64_t needed =
      KvCache::pages_for(sequence.known()) - sequence.table->pages() + (int64_t)active_.size();
  if (!active_.empty() && needed > cache_.available_pages()) return Admission::NoPages;
  sequence.computed = reused;
  if (sequence.counted) return Admission::Admitted;  // put back before: its prompt is in the sums already
  sequence.counted = true;
  sequence.cached = reused;
  cached_tokens_ += reused;
  prompt_tokens_ += sequence.prompt;
  return Admission::Admitted;
}

// Whether an active sequence is on its way to pages that this one could borrow beyond the `reused` tokens.
bool Engine::is_being_read(const Sequence& sequence, int64_t reused) const {
  for (const SequencePtr& other : active_) {
    if (other->version != sequence.version || other->decoding()) continue;
    const int64_t most = std::min(sequence.reusable(), other->known());
    const auto apart =
        std::mismatch(sequence.ids.begin(), sequence.ids.begin() + most, other->ids.begin()).first;
    const int64_t common = (apart - sequence.ids.begin()) / KvCache::kBlock * KvCache::kBlock;
    if (common > std::max(reused, other->computed)) return true;
  }
  return false;
}

void Engine::finish(Sequence& s, Finish why) {
  if (s.ended()) return;
  if (s.pass)
    return fail_sequence(s, std::make_exception_ptr(Error(Code::E_ABORTED, "the scoring pass was aborted")));
  GenerateReport report;
  report.finish = why;
  report.version = (s.version ? s.version : versions_.live())->snapshot.version;
  report.cached_tokens = s.cached;
  report.ms_to_first =
      s.first_token ? ms_between(s.submitted, *s.first_token) : std::numeric_limits<double>::quiet_NaN();
  report.ms = ms_between(s.submitted, Clock::now());
  s.outcome = [report](Receiver& receiver) { receiver.finished(report); };
}

void Engine::fail_sequence(Sequence& s, std::exception_ptr error) {
  if (s.ended()) return;
  s.outcome = [error](Receiver& receiver) { receiver.failed(error); };
}

void Engine::remove_ended() {
  std::vector<SequencePtr> ended;
  auto take = [&ended](auto& from) {
    for (auto it = from.begin(); it != from.end();) {
      if (!(*it)->ended()) {
        ++it;
        continue;
      }
      ended.push_back(std::move(*it));
      it = from.erase(it);
    }
  };
  take(waiting_);
  take(active_);
  if (ended.empty()) return;
  in_flight_ = (int64_t)active_.size();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    accepted_ -= (int64_t)ended.size();
  }
  for (auto& sequence : ended) {
    sequence->table.reset();
    sequence->pass.reset();
    sequence->version = nullptr;
    gate_.leave();
    sequence->outcome(*sequence->receiver);
  }
}

}  // namespace openclaw
