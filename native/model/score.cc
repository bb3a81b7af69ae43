#include "native/model/score.h"

#include <algorithm>

#include "native/base/error.h"
#include "native/kernels/logit_stats.h"
#include "native/model/kv_cache.h"
#include "native/model/token_ids.h"

namespace openclaw {
namespace {

// Tokens computed at a time on the train lane: enough rows to use every weight often, little enough scratch.
constexpr int64_t kChunk = 256;

}  // namespace

void validate(const ScoreRequest& request, const ModelConfig& config) {
  const int64_t n = (int64_t)request.ids.size();
  OC_CHECK(n >= 2, Code::E_ARGUMENT, "ids: expected at least 2 tokens, got %lld", (long long)n);
  OC_CHECK(n <= config.context, Code::E_CONTEXT, "ids: the context holds %lld tokens, got %lld",
           (long long)config.context, (long long)n);
  OC_CHECK(request.from >= 1 && request.from < n, Code::E_ARGUMENT, "from: expected 1..%lld, got %lld",
           (long long)n - 1, (long long)request.from);
  OC_CHECK(request.top_k >= 0 && request.top_k <= config.vocab, Code::E_ARGUMENT,
           "topK: expected 0..%lld, got %lld", (long long)config.vocab, (long long)request.top_k);
  check_token_ids(request.ids, config.vocab, "ids");
  const int64_t rows = request.rows(), gathered = (int64_t)request.gather.size();
  OC_CHECK(gathered % rows == 0, Code::E_SHAPE,
           "gather: expected a multiple of the %lld scored positions, got %lld ids", (long long)rows,
           (long long)gathered);
  check_token_ids(request.gather, config.vocab, "gather");
}

ScorePass::ScorePass(ScoreRequest request, VersionPtr version)
    : request_(std::move(request)), version_(std::move(version)) {
  const size_t rows = (size_t)request_.rows(), k = (size_t)request_.top_k;
  out_.logprobs.resize(rows);
  out_.entropy.resize(rows);
  out_.top_ids.resize(rows * k);
  out_.top_logprobs.resize(rows * k);
  out_.gathered.resize(request_.gather.size());
  out_.version = version_->snapshot.version;
}

void ScorePass::take(const float* hidden, int64_t rows, std::vector<float>& logits, Lane& lane) {
  const Weights& weights = *version_->snapshot.weights;
  for (int64_t first = 0; first < rows; first += kRows)
    take_rows(weights, hidden + first * weights.config.hidden, std::min(kRows, rows - first), logits, lane);
}

// The scored token's own log-prob is gathered beside the ids asked for, so that one pass over the logits
// gives all.
void ScorePass::take_rows(const Weights& weights, const float* hidden, int64_t rows,
                          std::vector<float>& logits, Lane& lane) {
  const int64_t V = weights.config.vocab, k = request_.top_k, g = request_.gather_width();
  logits.resize((size_t)(rows * V));
  head_logits(weights, hidden, rows, logits.data(), lane);

  gather_ids_.resize((size_t)(rows * (g + 1)));
  for (int64_t r = 0; r < rows; r++) {
    int32_t* ids = gather_ids_.data() + r * (g + 1);
    ids[0] = request_.ids[(size_t)(request_.from + done_ + r)];
    std::copy_n(request_.gather.begin() + (done_ + r) * g, g, ids + 1);
  }
  gathered_.resize(gather_ids_.size());
  flags_.resize((size_t)rows);

  LogitStatsRequest in;
  in.logits = {logits.data(), DType::F32, rows, V, V};
  in.k = k;
  in.g = g + 1;
  in.gather_ids = gather_ids_.data();
  LogitStatsOut out;
  out.entropy = out_.entropy.data() + done_;
  out.top_ids = out_.top_ids.data() + done_ * k;
  out.top_logprobs = out_.top_logprobs.data() + done_ * k;
  out.gathered = gathered_.data();
  out.flags = flags_.data();
  logit_stats(in, out, lane);

  for (int64_t r = 0; r < rows; r++) {
    OC_CHECK(!(flags_[(size_t)r] & (kRowNaN | kRowInf | kRowEmpty)), Code::E_NOT_FINITE,
             "logits of position %lld: expected finite numbers", (long long)(first_wanted() + r));
    const float* from = gathered_.data() + r * (g + 1);
    out_.logprobs[(size_t)(done_ + r)] = from[0];
    std::copy_n(from + 1, g, out_.gathered.begin() + (done_ + r) * g);
  }
  done_ += rows;
}

Scored score(ScoreRequest request, VersionPtr version, Workspace& workspace, Lane& lane) {
  const ModelConfig& config = version->snapshot.weights->config;
  validate(request, config);
  ScorePass pass(std::move(request), version);
  KvCache cache(config, KvCache::pages_for(pass.tokens()) * KvCache::page_bytes(config));
  KvTable table(cache, version->root);
  OC_CHECK(table.grow(pass.tokens()), Code::E_MEMORY, "no memory for the keys and values of %lld tokens",
           (long long)pass.tokens());
  std::vector<float> hidden, logits;
  for (int64_t start = 0; start < pass.tokens(); start += kChunk) {
    Chunk chunk;
    chunk.ids = pass.request().ids.data() + start;
    chunk.count = std::min(kChunk, pass.tokens() - start);
    chunk.start = start;
    chunk.blocks = table.blocks();
    chunk.block = KvCache::kBlock;
    chunk.want_from = std::clamp<int64_t>(pass.first_wanted() - start, 0, chunk.count);
    const int64_t rows = chunk.count - chunk.want_from;
    hidden.resize((size_t)(rows * config.hidden));
    forward(version->snapshot, &chunk, 1, hidden.data(), workspace, lane);
    pass.take(hidden.data(), rows, logits, lane);
  }
  return pass.result();
}

}  // namespace openclaw
