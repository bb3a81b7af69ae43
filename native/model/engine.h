// Serving: continuous batching of generations and scoring passes over one thread, the serve thread.
//
// Each step of the thread: take in waiting requests while there is room; run ONE forward pass per version
// over all sequences (one new token of each that is decoding, and prompt chunks of at most kPrefillTokens
// together, so that streams keep moving while a long prompt is read); sample; hand the tokens to their
// receivers. A request holds its version from its first computed token to its last, whatever is made live
// meanwhile.
//
// When the KV pool runs out, the sequence that came last gives its pages back and is read again later (its
// tokens stay; the counter-based sampler makes the continuation the same). The oldest sequence is never put
// back, so there is always progress.
//
// The engine knows nothing of JavaScript: it reports through Receiver, on the serve thread. Everything waits
// in a bounded queue.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "native/base/error.h"
#include "native/model/forward.h"
#include "native/model/kv_cache.h"
#include "native/model/sampler.h"
#include "native/model/score.h"
#include "native/model/versions.h"

namespace openclaw {

enum class Finish { Stop, Length, Abort, Deadline };
inline const char* finish_name(Finish f) {
  static const char* names[] = {"stop", "length", "abort", "deadline"};
  return names[(int)f];
}

struct GenerateRequest {
  std::vector<int32_t> ids;  // the prompt, >= 1 token
  int64_t max_tokens = 1;    // >= 1; cut to what the context and the KV pool leave
  Sampling sampling;
  std::vector<int32_t> stop_ids;  // an id of these ends the reply and is part of it
  int64_t deadline_ms = 0;        // from submission; 0: none
};

struct GenerateReport {
  Finish finish = Finish::Stop;
  std::string version;
  int64_t cached_tokens = 0;  // prompt tokens not computed because an earlier request had
  double ms_to_first = 0;     // NaN when no token came
  double ms = 0;
};

// What a request reports to. Called on the serve thread; must not block. After `finished`, `scored` or
// `failed` nothing more is called.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void token(int32_t, float) {}
  virtual void finished(const GenerateReport&) {}
  virtual void scored(Scored&&) {}
  virtual void failed(std::exception_ptr) = 0;
};

struct EngineOptions {
  int64_t kv_bytes = 256 << 20;
  int64_t max_in_flight = 16;  // sequences computed together
  int64_t max_waiting = 256;   // requests accepted beyond those
};

struct EngineStats {
  int64_t in_flight = 0, waiting = 0, kv_bytes = 0, kv_bytes_limit = 0;
  int64_t cached_tokens = 0, generated_tokens = 0, prompt_tokens = 0;  // since the start
};

class Engine {
 public:
  static constexpr int64_t kPrefillTokens = 256;

  // versions, gate and lane outlive the engine. The lane is used by the serve thread alone; the gate is held
  // while any request is in the engine. Throws E_ARGUMENT when kv_bytes is too small for one page.
  Engine(Versions& versions, const EngineOptions& options, ServeGate& gate, Lane& lane);
  ~Engine();  // close()

  // A request under way; `abort` may be called from any thread, also after the end.
  class Ticket {
   public:
    void abort() { aborted_.store(true, std::memory_order_relaxed); }  // seen before the next step

   private:
    friend class Engine;
    std::atomic<bool> aborted_{false};
  };

  // Any thread. Throws E_ARGUMENT, E_TOKEN_ID, E_CONTEXT, E_BUSY, E_DISPOSED before anything is queued.
  std::shared_ptr<Ticket> generate(GenerateRequest request, std::shared_ptr<Receiver> receiver);
  std::shared_ptr<Ticket> score(ScoreRequest request, VersionPtr version, std::shared_ptr<Receiver> receiver);

  EngineStats stats() const;
  // Aborts what is under way (finish 'abort') and joins the thread. Any thread but the serve thread; a second
  // call waits too.
  void close();

 private:
  struct Sequence;
  using SequencePtr = std::unique_ptr<Sequence>;
  using Clock = std::chrono::steady_clock;

  std::shared_ptr<Ticket> submit(SequencePtr sequence);
  void run();
  bool wait_for_work();
  void end_cancelled();
  enum class Admission { Admitted, PrefixUnderWay, NoPages };
  void admit();
  Admission try_admit(Sequence& sequence);
  bool is_being_read(const Sequence& sequence, int64_t reused) const;
  void step();
  void share_step();
  std::vector<Sequence*> plan();
  bool make_room(Sequence& sequence);
  void out_of_room(Sequence& sequence);
  void run_group(const std::vector<Sequence*>& group);
  void run_forward(const std::vector<Sequence*>& group);
  void take_hidden(const std::vector<Sequence*>& group);
  void sample_rows(const std::vector<Sequence*>& rows, const float* hidden);
  void accept(Sequence& sequence, Sampled sampled);
  void finish(Sequence& sequence, Finish why);
  void fail_sequence(Sequence& sequence, std::exception_ptr error);
  void remove_ended();
  int64_t prefill_budget() const;

  Versions& versions_;
  const EngineOptions options_;
  ServeGate& gate_;
  Lane& lane_;
  const ModelConfig config_;
  KvCache cache_;
  uint64_t kept_root_ = 0;

  // shared with callers
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<SequencePtr> arrivals_;
  int64_t accepted_ = 0;  // requests in the engine: arrived, waiting or active
  bool closing_ = false;
  std::atomic<int64_t> in_flight_{0}, cached_tokens_{0}, generated_tokens_{0}, prompt_tokens_{0};

  // the serve thread's own
  std::deque<SequencePtr> waiting_;
  std::list<SequencePtr> active_;  // oldest first
  Workspace workspace_;
  std::vector<float> hidden_, logits_;
  std::vector<SamplerScratch> scratch_;
  double ms_per_prefill_token_ = 0;  // running mean, 0 until known

  std::mutex close_mutex_;
  std::thread thread_;
};

}  // namespace openclaw
