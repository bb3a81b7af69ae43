#include "native/model/layer.h"

namespace openclaw {
namespace {

void scale_values(float* x, int64_t n, float scale) {
  for (int64_t i = 0; i < n; i++) x[i] *= scale;
}

}  // namespace

LayerLora layer_lora(const Adapter* adapter, int64_t layer) {
  if (!adapter) return {};
  return {&adapter->layers[(size_t)layer], adapter->scale()};
}

void project(const LayerWeights& w, const LayerLora& lora, int target, const float* x, int64_t M, float* y,
             bool accumulate, float* xa, Lane& lane) {
  const Matrix& m = w.w[(size_t)target];
  linear(x, m.cols, M, m, y, m.rows, accumulate, lane);
  const LoraPair* pair = lora.pair(target);
  if (!pair) return;
  const int64_t rank = pair_rank(*pair);
  linear(x, m.cols, M, matrix_a(*pair, rank), xa, rank, false, lane);
  scale_values(xa, M * rank, lora.scale);
  linear(xa, rank, M, matrix_b(*pair, rank), y, m.rows, true, lane);
}

void project_qkv(const LayerWeights& w, const LayerLora& lora, const float* x, int64_t M, float* q, float* k,
                 float* v, float* const* xa, Lane& lane) {
  project(w, lora, Q, x, M, q, false, xa[0], lane);
  project(w, lora, K, x, M, k, false, xa[1], lane);
  project(w, lora, V, x, M, v, false, xa[2], lane);
  if (!w.q_bias) return;
  add_rows(q, w.w[Q].rows, w.q_bias, M, w.w[Q].rows);
  add_rows(k, w.w[K].rows, w.k_bias, M, w.w[K].rows);
  add_rows(v, w.w[V].rows, w.v_bias, M, w.w[V].rows);
}

}  // namespace openclaw
