// The serving pass: every chunk's rows go through each matrix together, attention is done per sequence.
#include "native/model/forward.h"

#include <cstring>

#include "native/base/error.h"
#include "native/model/layer.h"

namespace openclaw {
namespace {

void check(const ModelConfig& c, const Chunk& chunk) {
  OC_CHECK(chunk.ids && chunk.count >= 1 && chunk.start >= 0 && chunk.blocks && chunk.block >= 1,
           Code::E_ARGUMENT, "chunk: expected ids, a count >= 1, a start >= 0 and blocks");
  OC_CHECK(chunk.want_from >= 0 && chunk.want_from <= chunk.count, Code::E_ARGUMENT,
           "chunk.want_from: expected 0..%lld, got %lld", (long long)chunk.count, (long long)chunk.want_from);
  OC_CHECK(chunk.start + chunk.count <= c.context, Code::E_CONTEXT,
           "chunk: %lld tokens do not fit a context of %lld", (long long)(chunk.start + chunk.count),
           (long long)c.context);
}

int64_t largest_rank(const Adapter* adapter) { return adapter ? adapter->rank : 0; }

// One pass. Buffers hold M rows each; in the last layer only the `wanted` rows go on after attention, since
// nothing else is read from there.
class ForwardPass {
 public:
  ForwardPass(const Snapshot& s, const Chunk* chunks, int64_t n, Workspace& ws, Lane& lane)
      : weights_(*s.weights),
        adapter_(s.adapter.get()),
        config_(weights_.config),
        chunks_(chunks),
        n_(n),
        lane_(lane) {
    for (int64_t i = 0; i < n; i++) {
      check(config_, chunks[i]);
      rows_ += chunks[i].count;
      wanted_ += chunks[i].count - chunks[i].want_from;
    }
    take_buffers(ws);
  }

  void run(float* hidden) {
    embed();
    for (int64_t l = 0; l < config_.layers; l++) layer(l);
    if (wanted_ > 0)
      rms_norm(x_, weights_.final_norm, config_.norm_eps, wanted_, config_.hidden, hidden, nullptr, lane_);
  }

 private:
  void take_buffers(Workspace& ws) {
    x_ = ws.take(rows_ * config_.hidden);
    normed_ = ws.take(rows_ * config_.hidden);
    q_ = ws.take(rows_ * q_width());
    k_ = ws.take(rows_ * kv_width());
    v_ = ws.take(rows_ * kv_width());
    attended_ = ws.take(rows_ * q_width());
    gate_ = ws.take(rows_ * config_.ffn);
    up_ = ws.take(rows_ * config_.ffn);
    low_rank_ = ws.take(rows_ * largest_rank(adapter_));
  }
  int64_t q_width() const { return config_.heads * config_.head_dim; }
  int64_t kv_width() const { return config_.kv_heads * config_.head_dim; }

  void embed() {
    positions_.reserve((size_t)rows_);
    float* at = x_;
    for (int64_t i = 0; i < n_; i++) {
      embed_rows(weights_.embed, chunks_[i].ids, chunks_[i].count, at, config_.hidden);
      at += chunks_[i].count * config_.hidden;
      for (int64_t t = 0; t < chunks_[i].count; t++) positions_.push_back((int32_t)(chunks_[i].start + t));
    }
  }

  void layer(int64_t l) {
    const LayerWeights& w = weights_.layers[(size_t)l];
    const LayerLora lora = layer_lora(adapter_, l);
    rms_norm(x_, w.attn_norm, config_.norm_eps, rows_, config_.hidden, normed_, nullptr, lane_);
    queries_keys_values(w, lora);
    store(l);
    int64_t rows = rows_;
    if (l + 1 == config_.layers) {
      rows = wanted_;
      if (rows == 0) return;  // keys and values are stored: nothing else was asked for
    }
    attend(l);
    if (rows < rows_) keep_wanted();
    project(w, lora, O, attended_, rows, x_, true, low_rank_, lane_);
    feed_forward(w, lora, rows);
  }

  void queries_keys_values(const LayerWeights& w, const LayerLora& lora) {
    float* const low_rank[3] = {low_rank_, low_rank_, low_rank_};
    project_qkv(w, lora, normed_, rows_, q_, k_, v_, low_rank, lane_);
    const int64_t H = config_.heads, G = config_.kv_heads, E = config_.head_dim;
    if (w.q_norm) {
      rms_norm(q_, w.q_norm, config_.norm_eps, rows_ * H, E, q_, nullptr, lane_);
      rms_norm(k_, w.k_norm, config_.norm_eps, rows_ * G, E, k_, nullptr, lane_);
    }
    rope(q_, q_width(), rows_, H, E, weights_.cos_sin.data(), positions_.data(), false, lane_);
    rope(k_, kv_width(), rows_, G, E, weights_.cos_sin.data(), positions_.data(), false, lane_);
  }

  // Puts the new keys and values where the chunks' blocks want them.
  void store(int64_t l) {
    const float *k = k_, *v = v_;
    for (int64_t i = 0; i < n_; i++) {
      const Chunk& chunk = chunks_[i];
      for (int64_t t = 0; t < chunk.count; t++, k += kv_width(), v += kv_width()) {
        store_token(chunk.blocks[l * 2], chunk, chunk.start + t, k);
        store_token(chunk.blocks[l * 2 + 1], chunk, chunk.start + t, v);
      }
    }
  }
  void store_token(float* const* blocks, const Chunk& chunk, int64_t position, const float* from) {
    const int64_t E = config_.head_dim, B = chunk.block;
    float* block = blocks[position / B];
    for (int64_t g = 0; g < config_.kv_heads; g++)
      memcpy(block + (g * B + position % B) * E, from + g * E, (size_t)E * sizeof(float));
  }

  // Single new tokens of many sequences share one parallel loop; longer chunks are parallel inside.
  void attend(int64_t l) {
    const int64_t H = config_.heads, G = config_.kv_heads, E = config_.head_dim;
    const float scale = weights_.attention_scale;
    decode_.clear();
    int64_t row = 0;
    for (int64_t i = 0; i < n_; i++) {
      const Chunk& chunk = chunks_[i];
      const KvView kv{chunk.blocks[l * 2], chunk.blocks[l * 2 + 1], chunk.block};
      const float* q = q_ + row * q_width();
      float* out = attended_ + row * q_width();
      row += chunk.count;
      if (chunk.count == 1)
        decode_.push_back({q, out, kv, chunk.start + 1});
      else
        attention(q, q_width(), kv, chunk.start, chunk.count, H, G, E, scale, out, q_width(), nullptr, lane_);
    }
    if (!decode_.empty()) attention_decode(decode_.data(), (int64_t)decode_.size(), H, G, E, scale, lane_);
  }

  void keep_wanted() {
    int64_t from = 0, to = 0;
    for (int64_t i = 0; i < n_; i++) {
      for (int64_t t = chunks_[i].want_from; t < chunks_[i].count; t++, to++) {
        memmove(x_ + to * config_.hidden, x_ + (from + t) * config_.hidden,
                (size_t)config_.hidden * sizeof(float));
        memmove(attended_ + to * q_width(), attended_ + (from + t) * q_width(),
                (size_t)q_width() * sizeof(float));
      }
      from += chunks_[i].count;
    }
  }

  void feed_forward(const LayerWeights& w, const LayerLora& lora, int64_t rows) {
    rms_norm(x_, w.ffn_norm, config_.norm_eps, rows, config_.hidden, normed_, nullptr, lane_);
    project(w, lora, Gate, normed_, rows, gate_, false, low_rank_, lane_);
    project(w, lora, Up, normed_, rows, up_, false, low_rank_, lane_);
    swiglu(gate_, up_, rows * config_.ffn, gate_, lane_);
    project(w, lora, Down, gate_, rows, x_, true, low_rank_, lane_);
  }

  const Weights& weights_;
  const Adapter* adapter_;
  const ModelConfig& config_;
  const Chunk* chunks_;
  const int64_t n_;
  Lane& lane_;
  int64_t rows_ = 0, wanted_ = 0;
  std::vector<int32_t> positions_;
  std::vector<DecodeQuery> decode_;
  float *x_, *normed_, *q_, *k_, *v_, *attended_, *gate_, *up_, *low_rank_;
};

}  // namespace

void forward(const Snapshot& s, const Chunk* chunks, int64_t n, float* hidden, Workspace& ws, Lane& lane) {
  ws.reset();
  ForwardPass(s, chunks, n, ws, lane).run(hidden);
}

void head_logits(const Weights& w, const float* hidden, int64_t rows, float* logits, Lane& lane) {
  linear(hidden, w.config.hidden, rows, w.head, logits, w.config.vocab, false, lane);
}

}  // namespace openclaw
