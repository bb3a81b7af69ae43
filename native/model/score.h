// Scoring: how likely given tokens are under a version, what else it considered, and how sure it was. The
// teacher's and the old policy's passes of the method (method.md §2, §3).
//
// log p(ids[i]) for i = from..n-1 needs the hidden states of positions from-1..n-2; the last token is never
// computed. Logits exist for at most kRows positions at a time: [R, V] is never held (pains.md E: out of
// memory at 14k tokens).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "native/model/forward.h"
#include "native/model/versions.h"

namespace openclaw {

struct ScoreRequest {
  std::vector<int32_t> ids;     // n >= 2 tokens
  int64_t from = 1;             // first scored position, 1..n-1; R = n - from
  int64_t top_k = 0;            // 0..V
  std::vector<int32_t> gather;  // [R, g] ids whose log-probs are wanted, or empty
  int64_t gather_width() const { return gather.empty() ? 0 : (int64_t)gather.size() / rows(); }
  int64_t rows() const { return (int64_t)ids.size() - from; }
};
// Throws E_ARGUMENT, E_SHAPE, E_TOKEN_ID, E_CONTEXT.
void validate(const ScoreRequest& request, const ModelConfig& config);

struct Scored {
  std::vector<float> logprobs, entropy;  // [R], nats, full softmax at temperature 1
  std::vector<int32_t> top_ids;          // [R, top_k], most likely first
  std::vector<float> top_logprobs;       // [R, top_k]
  std::vector<float> gathered;           // [R, g]
  std::string version;
};

// Takes the hidden states of one request as they are computed, in order, and keeps only the statistics.
class ScorePass {
 public:
  static constexpr int64_t kRows = 64;

  ScorePass(ScoreRequest request, VersionPtr version);
  const ScoreRequest& request() const { return request_; }
  const VersionPtr& version() const { return version_; }
  // Tokens to compute: n - 1.
  int64_t tokens() const { return (int64_t)request_.ids.size() - 1; }
  // Positions below this are needed only as context.
  int64_t first_wanted() const { return request_.from - 1 + done_; }
  bool complete() const { return done_ == request_.rows(); }
  // hidden [rows, D] of positions first_wanted().. ; logits is scratch.
  void take(const float* hidden, int64_t rows, std::vector<float>& logits, Lane& lane);
  // Once, when complete().
  Scored result() { return std::move(out_); }

 private:
  void take_rows(const Weights& weights, const float* hidden, int64_t rows, std::vector<float>& logits,
                 Lane& lane);

  ScoreRequest request_;
  VersionPtr version_;
  int64_t done_ = 0;
  Scored out_;
  std::vector<int32_t> gather_ids_;  // of the rows being taken: the scored token, then those asked for
  std::vector<float> gathered_;
  std::vector<uint8_t> flags_;
};

// The whole pass at once on the calling thread, in chunks, with keys and values of its own. For the train
// lane.
Scored score(ScoreRequest request, VersionPtr version, Workspace& workspace, Lane& lane);

}  // namespace openclaw
