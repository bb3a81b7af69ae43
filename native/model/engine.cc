#include "native/model/engine.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

namespace openclaw {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

// While streams are decoding, prompt chunks are cut so that a step takes about this long: a reader sees no
// stutter.
constexpr double kStepMs = 80;
// Chunks below this waste the pass over the weights that every step pays.
constexpr int64_t kLeastPrefill = 32;

void check_ids(const std::vector<int32_t>& ids, int64_t vocab, const char* argument) {
  for (size_t i = 0; i < ids.size(); i++)
    OC_CHECK(ids[i] >= 0 && ids[i] < vocab, Code::E_TOKEN_ID,
             "%s[%zu]: expected a token id in 0..%lld, got %d", argument, i, (long long)vocab - 1, ids[i]);
}

}  // namespace

// A request on its way. `ids` are all tokens known so far, prompt and reply; `computed` of them have keys and
// values.
struct Engine::Sequence {
  GenerateRequest request;
  std::unique_ptr<ScorePass> pass;  // null: a generation
  std::shared_ptr<Receiver> receiver;
  std::shared_ptr<Ticket> ticket = std::make_shared<Ticket>();

  std::vector<int32_t> ids;
  int64_t prompt = 0, computed = 0;
  int64_t planned = 0;  // tokens of the step being run
  VersionPtr version;   // from admission on
  std::optional<KvTable> table;

  Clock::time_point submitted = Clock::now();
  std::optional<Clock::time_point> deadline, first_token;
  int64_t cached = 0;
  bool counted = false;  // in the engine's sums of prompt tokens
  // Set when the sequence has ended; told to the receiver once its place and pages are free again.
  std::function<void(Receiver&)> outcome;
  bool ended() const { return (bool)outcome; }

  int64_t known() const { return (int64_t)ids.size(); }
  int64_t left() const { return known() - computed; }
  int64_t generated() const { return known() - prompt; }
  bool decoding() const { return !pass && left() == 1 && generated() > 0; }
  // The longest prefix that may come from the cache: at least one token is computed, for its hidden state.
  int64_t reusable() const { return pass ? pass->first_wanted() : known() - 1; }
  int64_t wanted_from() const {
    if (pass) return std::clamp<int64_t>(pass->first_wanted() - computed, 0, planned);
    return computed + planned == known() ? planned - 1 : planned;
  }
};

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
  check_ids(request.ids, config_.vocab, "ids");
  check_ids(request.stop_ids, config_.vocab, "stopIds");
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
    admit();
    try {
      step();
    } catch (...) {  // memory for the step itself could not be had
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

int64_t Engine::prefill_budget() const {
  bool decoding =
      std::any_of(active_.begin(), active_.end(), [](const SequencePtr& s) { return s->decoding(); });
  if (!decoding || ms_per_prefill_token_ == 0) return kPrefillTokens;
  return std::clamp((int64_t)(kStepMs / ms_per_prefill_token_), kLeastPrefill, kPrefillTokens);
}

void Engine::step() {
  std::vector<Sequence*> planned = plan();
  while (!planned.empty()) {
    const uint64_t root = planned.front()->version->root;
    auto others = std::stable_partition(planned.begin(), planned.end(),
                                        [root](const Sequence* s) { return s->version->root == root; });
    std::vector<Sequence*> group(planned.begin(), others);
    planned.erase(planned.begin(), others);
    run_group(group);
  }
}

// How many tokens each sequence computes in this step: one where it decodes; of the prompt tokens half go to
// the oldest reader, so that nobody starves, and the rest to those who have least left to read, so that a
// short prompt does not wait for a long one.
void Engine::share_step() {
  int64_t budget = prefill_budget();
  std::vector<Sequence*> readers;
  for (const SequencePtr& sequence : active_) {
    sequence->planned = sequence->decoding() ? 1 : 0;
    if (!sequence->decoding()) readers.push_back(sequence.get());
  }
  if (readers.empty()) return;
  auto give = [&budget](Sequence& reader, int64_t most) {
    const int64_t tokens = std::min({reader.left() - reader.planned, most, budget});
    reader.planned += tokens;
    budget -= tokens;
  };
  give(*readers.front(), budget / 2);
  std::stable_sort(readers.begin(), readers.end(),
                   [](const Sequence* a, const Sequence* b) { return a->left() < b->left(); });
  for (Sequence* reader : readers) give(*reader, budget);
}

// The sequences of this step, oldest first, each with pages for what it computes.
std::vector<Engine::Sequence*> Engine::plan() {
  share_step();
  std::vector<Sequence*> planned;
  for (const SequencePtr& sequence : active_) {
    if (sequence->ended() || !sequence->table || sequence->planned == 0)
      continue;  // no table: put back a moment ago
    if (make_room(*sequence)) planned.push_back(sequence.get());
  }
  // Those put back wait first in line, in the order they had.
  for (auto it = active_.end(); it != active_.begin();) {
    --it;
    if ((*it)->table || (*it)->ended()) continue;
    waiting_.push_front(std::move(*it));
    it = active_.erase(it);
  }
  in_flight_ = (int64_t)active_.size();
  return planned;
}

// Pages for the planned tokens, taken from the youngest sequences if need be. False when the sequence itself
// had to give way.
bool Engine::make_room(Sequence& sequence) {
  while (!sequence.table->grow(sequence.computed + sequence.planned)) {
    auto holds_pages = [](const SequencePtr& s) { return s->table && !s->ended(); };
    Sequence& youngest = **std::find_if(active_.rbegin(), active_.rend(), holds_pages);
    bool alone = &youngest == active_.front().get();
    if (alone) {
      out_of_room(sequence);
      return false;
    }
    youngest.table.reset();
    youngest.computed = 0;
    if (&youngest == &sequence) return false;
  }
  return true;
}

// The only sequence left fills the whole pool (or the machine has no memory for the pool's pages).
void Engine::out_of_room(Sequence& sequence) {
  if (sequence.generated() > 0) return finish(sequence, Finish::Length);
  fail_sequence(sequence, std::make_exception_ptr(
                              Error(Code::E_MEMORY, "no memory for the keys and values of " +
                                                        std::to_string(sequence.known()) + " tokens")));
}

void Engine::run_group(const std::vector<Sequence*>& group) {
  try {
    run_forward(group);
    take_hidden(group);
  } catch (...) {
    for (Sequence* sequence : group) fail_sequence(*sequence, std::current_exception());
  }
}

void Engine::run_forward(const std::vector<Sequence*>& group) {
  std::vector<Chunk> chunks;
  int64_t rows = 0, tokens = 0;
  for (Sequence* s : group) {
    Chunk chunk;
    chunk.ids = s->ids.data() + s->computed;
    chunk.count = s->planned;
    chunk.start = s->computed;
    chunk.blocks = s->table->blocks();
    chunk.block = KvCache::kBlock;
    chunk.want_from = s->wanted_from();
    rows += chunk.count - chunk.want_from;
    tokens += chunk.count;
    chunks.push_back(chunk);
  }
  hidden_.resize((size_t)(rows * config_.hidden));
  const auto begin = Clock::now();
  forward(group.front()->version->snapshot, chunks.data(), (int64_t)chunks.size(), hidden_.data(), workspace_,
          lane_);
  if (tokens >= 2 * kLeastPrefill) {
    double now = ms_between(begin, Clock::now()) / (double)tokens;
    ms_per_prefill_token_ = ms_per_prefill_token_ == 0 ? now : 0.8 * ms_per_prefill_token_ + 0.2 * now;
  }
}

// Hands each sequence its rows of hidden_: to the scoring pass, or to the sampler when the prompt is
// complete.
void Engine::take_hidden(const std::vector<Sequence*>& group) {
  const int64_t D = config_.hidden;
  std::vector<Sequence*> sampling;
  std::vector<const float*> row_of;
  const float* row = hidden_.data();
  for (Sequence* s : group) {
    const int64_t rows = s->planned - s->wanted_from();
    if (s->pass && rows > 0) s->pass->take(row, rows, logits_, lane_);
    if (!s->pass && rows > 0) {
      sampling.push_back(s);
      row_of.push_back(row);
    }
    s->computed += s->planned;
    s->table->commit(s->ids.data(), s->computed);
    row += rows * D;
  }
  // Sampled rows move together, so that one product with the head serves all (each moves forward: memmove
  // order is safe).
  float* packed = hidden_.data();
  for (const float* from : row_of) {
    if (from != packed) std::copy(from, from + D, packed);
    packed += D;
  }
  for (Sequence* s : group)
    if (s->pass && s->pass->complete()) {
      auto scored = std::make_shared<Scored>(s->pass->result());
      s->outcome = [scored](Receiver& receiver) { receiver.scored(std::move(*scored)); };
    }
  if (!sampling.empty()) sample_rows(sampling, hidden_.data());
}

void Engine::sample_rows(const std::vector<Sequence*>& sequences, const float* hidden) {
  const int64_t V = config_.vocab;
  const Weights& weights = *sequences.front()->version->snapshot.weights;
  std::vector<Sampled> sampled(sequences.size());
  std::vector<std::exception_ptr> errors(sequences.size());
  for (size_t first = 0; first < sequences.size(); first += ScorePass::kRows) {
    const int64_t rows = std::min<int64_t>(ScorePass::kRows, (int64_t)(sequences.size() - first));
    logits_.resize((size_t)(rows * V));
    head_logits(weights, hidden + (int64_t)first * config_.hidden, rows, logits_.data(), lane_);
    lane_.parallel_for(rows, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t r = begin; r < end; r++) {
        const Sequence& s = *sequences[first + (size_t)r];
        try {
          sampled[first + (size_t)r] =
              sample(logits_.data() + r * V, V, config_.sampleable, s.request.sampling,
                     (uint64_t)s.generated(), scratch_[(size_t)worker]);
        } catch (...) {
          errors[first + (size_t)r] = std::current_exception();
        }
      }
    });
  }
  for (size_t i = 0; i < sequences.size(); i++) {
    if (errors[i])
      fail_sequence(*sequences[i], errors[i]);
    else
      accept(*sequences[i], sampled[i]);
  }
}

void Engine::accept(Sequence& s, Sampled sampled) {
  if (!s.first_token) s.first_token = Clock::now();
  s.ids.push_back(sampled.id);
  generated_tokens_++;
  s.receiver->token(sampled.id, sampled.logprob);
  const auto& stops = s.request.stop_ids;
  if (std::find(stops.begin(), stops.end(), sampled.id) != stops.end()) return finish(s, Finish::Stop);
  if (s.generated() >= s.request.max_tokens) return finish(s, Finish::Length);
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
