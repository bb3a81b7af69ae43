#include "native/model/train_layer.h"

#include <cstring>

namespace openclaw {
namespace {

// [count, G, E] in rows -> [G][count][E] in one block, as attention() reads keys and values.
void to_heads(const float* rows, int64_t count, int64_t G, int64_t E, float* heads) {
  for (int64_t t = 0; t < count; t++)
    for (int64_t g = 0; g < G; g++)
      memcpy(heads + (g * count + t) * E, rows + (t * G + g) * E, (size_t)E * sizeof(float));
}

void gather_rows(const float* from, const KeptRows& kept, int64_t width, float* to) {
  for (size_t i = 0; i < kept.size(); i++)
    memcpy(to + (int64_t)i * width, from + kept[i] * width, (size_t)width * sizeof(float));
}

// The rows not named become zero.
void scatter_rows(const float* from, const KeptRows& kept, int64_t width, int64_t M, float* to) {
  memset(to, 0, (size_t)(M * width) * sizeof(float));
  for (size_t i = 0; i < kept.size(); i++)
    memcpy(to + kept[i] * width, from + (int64_t)i * width, (size_t)width * sizeof(float));
}

void copy_rows(const float* from, int64_t n, float* to) { memcpy(to, from, (size_t)n * sizeof(float)); }

}  // namespace

TrainLayer::TrainLayer(const Weights& weights, const Adapter* adapter, const PackedRows& rows, Workspace& ws,
                       Lane& lane)
    : weights_(weights),
      config_(weights.config),
      adapter_(adapter),
      rows_(rows),
      ws_(ws),
      lane_(lane),
      rank_(adapter ? adapter->rank : 0),
      D_(config_.hidden),
      F_(config_.ffn),
      H_(config_.heads),
      G_(config_.kv_heads),
      E_(config_.head_dim),
      q_width_(H_ * E_),
      kv_width_(G_ * E_) {
  const int64_t M = rows.rows();
  normed_ = ws.take(M * D_);
  hidden_ = ws.take(M * F_);
  k_heads_ = ws.take(M * kv_width_);
  v_heads_ = ws.take(M * kv_width_);
}

int64_t TrainLayer::floats_per_row(const ModelConfig& c, int64_t rank) {
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const int64_t raw = c.qk_norm ? q + kv + c.heads + c.kv_heads : 0;
  return 2 * c.hidden + 2 * (q + kv) + c.heads + 2 * c.ffn + 2 + raw + kTargets * rank;
}

LayerActivations TrainLayer::allocate(Workspace& ws, const KeptRows* kept) const {
  const int64_t M = rows_.rows(), S = count(kept);
  LayerActivations a;
  a.inv1 = ws.take(M);
  a.q = ws.take(M * q_width_);
  a.k = ws.take(M * kv_width_);
  a.v = ws.take(M * kv_width_);
  if (config_.qk_norm) {
    a.q_raw = ws.take(M * q_width_);
    a.k_raw = ws.take(M * kv_width_);
    a.inv_q = ws.take(M * H_);
    a.inv_k = ws.take(M * G_);
  }
  a.attended = ws.take(M * q_width_);
  a.lse = ws.take(M * H_);
  a.kept_attended = kept ? ws.take(S * q_width_) : a.attended;
  a.mid = ws.take(S * D_);
  a.inv2 = ws.take(S);
  a.gate = ws.take(S * F_);
  a.up = ws.take(S * F_);
  for (size_t t = 0; t < kTargets; t++)
    if (rank_ > 0) a.xa[t] = ws.take((t <= V ? M : S) * rank_);
  return a;
}

void TrainLayer::forward(int64_t layer, LayerActivations& a, const KeptRows* kept, float* out) {
  const int64_t M = rows_.rows(), S = count(kept);
  const LayerWeights& w = weights_.layers[(size_t)layer];
  const LayerLora lora = layer_lora(adapter_, layer);
  rms_norm(a.x, w.attn_norm, config_.norm_eps, M, D_, normed_, a.inv1, lane_);
  float *q = w.q_norm ? a.q_raw : a.q, *k = w.q_norm ? a.k_raw : a.k;
  project_qkv(w, lora, normed_, M, q, k, a.v, a.xa.data(), lane_);
  if (w.q_norm) {
    rms_norm(q, w.q_norm, config_.norm_eps, M * H_, E_, a.q, a.inv_q, lane_);
    rms_norm(k, w.k_norm, config_.norm_eps, M * G_, E_, a.k, a.inv_k, lane_);
  }
  attend(a);
  if (kept) {
    gather_rows(a.attended, *kept, q_width_, a.kept_attended);
    gather_rows(a.x, *kept, D_, a.mid);
  } else {
    copy_rows(a.x, M * D_, a.mid);
  }
  project(w, lora, O, a.kept_attended, S, a.mid, true, a.xa[O], lane_);
  feed_forward(w, lora, a, S, out);
}

void TrainLayer::attend(LayerActivations& a) {
  const int64_t M = rows_.rows();
  const float* table = weights_.cos_sin.data();
  rope(a.q, q_width_, M, H_, E_, table, rows_.positions.data(), false, lane_);
  rope(a.k, kv_width_, M, G_, E_, table, rows_.positions.data(), false, lane_);
  for (const PackedRows::Span& s : rows_.sequences) {
    to_heads(a.k + s.start * kv_width_, s.count, G_, E_, k_heads_);
    to_heads(a.v + s.start * kv_width_, s.count, G_, E_, v_heads_);
    const KvView kv{&k_heads_, &v_heads_, s.count};
    attention(a.q + s.start * q_width_, q_width_, kv, 0, s.count, H_, G_, E_, weights_.attention_scale,
              a.attended + s.start * q_width_, q_width_, a.lse + s.start * H_, lane_);
  }
}

void TrainLayer::feed_forward(const LayerWeights& w, const LayerLora& lora, LayerActivations& a, int64_t S,
                              float* out) {
  rms_norm(a.mid, w.ffn_norm, config_.norm_eps, S, D_, normed_, a.inv2, lane_);
  project(w, lora, Gate, normed_, S, a.gate, false, a.xa[Gate], lane_);
  project(w, lora, Up, normed_, S, a.up, false, a.xa[Up], lane_);
  swiglu(a.gate, a.up, S * F_, hidden_, lane_);
  copy_rows(a.mid, S * D_, out);
  project(w, lora, Down, hidden_, S, out, true, a.xa[Down], lane_);
}

void TrainLayer::take_backward_scratch() {
  if (d_normed_) return;
  const int64_t M = rows_.rows();
  d_normed_ = ws_.take(M * D_);
  d_hidden_ = ws_.take(M * F_);
  d_q_ = ws_.take(M * q_width_);
  d_k_ = ws_.take(M * kv_width_);
  d_v_ = ws_.take(M * kv_width_);
  d_attended_ = ws_.take(M * q_width_);
  d_all_ = ws_.take(M * q_width_);
  d_raw_ = config_.qk_norm ? ws_.take(M * q_width_) : nullptr;
  d_low_ = ws_.take(M * rank_);
}

void TrainLayer::backward(int64_t layer, LayerActivations& a, const KeptRows* kept, float* gradient,
                          float* dx, const LayerGradients& g) {
  take_backward_scratch();
  const int64_t M = rows_.rows(), S = count(kept);
  const LayerWeights& w = weights_.layers[(size_t)layer];
  const LayerLora lora = layer_lora(adapter_, layer);
  feed_forward_backward(w, lora, a, S, gradient, g);  // gradient is now that of mid
  project_backward(w, lora, O, a.kept_attended, gradient, S, d_attended_, false, a, g);
  if (kept) scatter_rows(d_attended_, *kept, q_width_, M, d_all_);
  attention_block_backward(a, kept ? d_all_ : d_attended_);
  queries_keys_backward(w, a, g);
  rms_norm(a.x, w.attn_norm, config_.norm_eps, M, D_, normed_, nullptr, lane_);
  float* d_normed = dx || g.attn_norm ? d_normed_ : nullptr;
  project_backward(w, lora, Q, normed_, d_q_, M, d_normed, false, a, g);
  project_backward(w, lora, K, normed_, d_k_, M, d_normed, true, a, g);
  project_backward(w, lora, V, normed_, d_v_, M, d_normed, true, a, g);
  if (!dx) return;
  if (kept)
    scatter_rows(gradient, *kept, D_, M, dx);
  else
    copy_rows(gradient, M * D_, dx);
  rms_norm_backward(d_normed_, a.x, w.attn_norm, a.inv1, M, D_, dx, true, g.attn_norm, lane_);
}

void TrainLayer::feed_forward_backward(const LayerWeights& w, const LayerLora& lora, LayerActivations& a,
                                       int64_t S, float* gradient, const LayerGradients& g) {
  swiglu(a.gate, a.up, S * F_, hidden_, lane_);
  project_backward(w, lora, Down, hidden_, gradient, S, d_hidden_, false, a, g);
  swiglu_backward(d_hidden_, a.gate, a.up, S * F_, a.gate, a.up, lane_);
  rms_norm(a.mid, w.ffn_norm, config_.norm_eps, S, D_, normed_, nullptr, lane_);
  project_backward(w, lora, Gate, normed_, a.gate, S, d_normed_, false, a, g);
  project_backward(w, lora, Up, normed_, a.up, S, d_normed_, true, a, g);
  rms_norm_backward(d_normed_, a.mid, w.ffn_norm, a.inv2, S, D_, gradient, true, g.ffn_norm, lane_);
}

// Per sequence: d_q, d_k, d_v of the rotated queries and keys.
void TrainLayer::attention_block_backward(const LayerActivations& a, const float* d_attended) {
  for (const PackedRows::Span& s : rows_.sequences) {
    const int64_t q = s.start * q_width_, kv = s.start * kv_width_;
    attention_backward(a.q + q, q_width_, a.k + kv, kv_width_, a.v + kv, kv_width_, a.attended + q, q_width_,
                       d_attended + q, q_width_, a.lse + s.start * H_, s.count, H_, G_, E_,
                       weights_.attention_scale, d_q_ + q, q_width_, d_k_ + kv, kv_width_, d_v_ + kv,
                       kv_width_, lane_);
  }
}

// Back through rotation, q/k norm and biases; d_q and d_k are then those of the products.
void TrainLayer::queries_keys_backward(const LayerWeights& w, LayerActivations& a, const LayerGradients& g) {
  const int64_t M = rows_.rows();
  const float* table = weights_.cos_sin.data();
  rope(d_q_, q_width_, M, H_, E_, table, rows_.positions.data(), true, lane_);
  rope(d_k_, kv_width_, M, G_, E_, table, rows_.positions.data(), true, lane_);
  if (w.q_norm) {
    rms_norm_backward(d_q_, a.q_raw, w.q_norm, a.inv_q, M * H_, E_, d_raw_, false, g.q_norm, lane_);
    std::swap(d_q_, d_raw_);
    rms_norm_backward(d_k_, a.k_raw, w.k_norm, a.inv_k, M * G_, E_, d_raw_, false, g.k_norm, lane_);
    copy_rows(d_raw_, M * kv_width_, d_k_);
  }
  if (!g.q_bias) return;
  sum_rows(d_q_, q_width_, M, q_width_, g.q_bias);
  sum_rows(d_k_, kv_width_, M, kv_width_, g.k_bias);
  sum_rows(d_v_, kv_width_, M, kv_width_, g.v_bias);
}

// y = x W^T + scale l B^T with l = x A^T (scale l is kept as xa):
//   dl = scale dy B      dx = dy W + dl A      dW = dy^T x      dA = dl^T x      dB = dy^T (scale l)
void TrainLayer::project_backward(const LayerWeights& w, const LayerLora& lora, int target, const float* x,
                                  const float* dy, int64_t M, float* dx, bool accumulate,
                                  const LayerActivations& a, const LayerGradients& g) {
  const size_t t = (size_t)target;
  const Matrix& m = w.w[t];
  if (dx) linear_dx(dy, m.rows, M, m, dx, m.cols, accumulate, lane_);
  if (g.w[t]) linear_dw(dy, m.rows, x, m.cols, M, m.rows, m.cols, g.w[t], lane_);
  const LoraPair* pair = lora.pair(target);
  if (!pair) return;
  linear_dx(dy, m.rows, M, matrix_b(*pair, rank_), d_low_, rank_, false, lane_);
  for (int64_t i = 0; i < M * rank_; i++) d_low_[i] *= lora.scale;
  linear_dw(d_low_, rank_, x, m.cols, M, rank_, m.cols, g.a[t], lane_);
  linear_dw(dy, m.rows, a.xa[t], rank_, M, m.rows, rank_, g.b[t], lane_);
  if (dx) linear_dx(d_low_, rank_, M, matrix_a(*pair, rank_), dx, m.cols, true, lane_);
}

}  // namespace openclaw
