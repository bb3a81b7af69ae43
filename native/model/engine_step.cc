// One step of the serve thread: who computes how many tokens, pages for them, the forward pass, and what its
// rows say.
#include "native/model/engine_sequence.h"

namespace openclaw {
namespace {

// While streams are decoding, prompt chunks are cut so that a step takes about this long: a reader sees no
// stutter.
constexpr double kStepMs = 80;
// Chunks below this waste the pass over the weights that every step pays.
constexpr int64_t kLeastPrefill = 32;

}  // namespace

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

}  // namespace openclaw
