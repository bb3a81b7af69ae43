// A request inside the engine (engine.h); seen only by the engine's own files.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>

#include "native/model/engine.h"

namespace openclaw {

inline double ms_between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

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

}  // namespace openclaw
