// One decoder layer for training: forward with what the backward pass needs kept, and backward.
//
//   n1 = rms(x)   q, k, v = n1 W^T (+ bias) (+ q/k norm), rotated   att = attention(q, k, v)
//   mid = x + att Wo^T      n2 = rms(mid)   h = silu(n2 Wg^T) * n2 Wu^T      out = mid + h Wd^T
//
// What is cheap to make again from what is kept (n1, n2, h) is not kept. In the last layer only some rows are
// read by the loss: from `mid` on, only those S of the M rows are computed.
#pragma once
#include "native/model/forward.h"
#include "native/model/layer.h"
#include "native/model/packed_rows.h"
#include "native/model/parameters.h"

namespace openclaw {

struct LayerActivations {
  const float* x = nullptr;                        // [M, D] the layer's input, kept by the caller
  float* inv1 = nullptr;                           // [M] of the first norm
  float *q = nullptr, *k = nullptr, *v = nullptr;  // [M, H E], [M, G E] as attention sees them
  float *q_raw = nullptr, *k_raw = nullptr;        // before q/k norm, where there is one
  float *inv_q = nullptr, *inv_k = nullptr;        // [M, H], [M, G]
  float *attended = nullptr, *lse = nullptr;       // [M, H E], [M, H]
  float* kept_attended = nullptr;                  // [S, H E]; == attended when all rows are kept
  float *mid = nullptr, *inv2 = nullptr;           // [S, D], [S]
  float *gate = nullptr, *up = nullptr;            // [S, F]
  std::array<float*, kTargets> xa{};               // scale x A^T of each target with a pair, [M or S, rank]
};

// Which rows go on after attention, in ascending order; null: all.
using KeptRows = std::vector<int64_t>;

class TrainLayer {
 public:
  // rank: of the adapter, 0 without one. Scratch is taken from `ws` on construction; one object serves all
  // layers of a pass, one after another.
  TrainLayer(const Weights& weights, const Adapter* adapter, const PackedRows& rows, Workspace& ws,
             Lane& lane);

  // Floats of activations per row and layer.
  static int64_t floats_per_row(const ModelConfig& config, int64_t rank);
  LayerActivations allocate(Workspace& ws, const KeptRows* kept) const;

  // a.x is set; out [S, D] gets the layer's output.
  void forward(int64_t layer, LayerActivations& a, const KeptRows* kept, float* out);
  // gradient [S, D] of the output comes in and is destroyed. dx [M, D] gets the gradient of a.x; null: not
  // wanted. `a` is used up. Gradients of parameters are added to `g`.
  void backward(int64_t layer, LayerActivations& a, const KeptRows* kept, float* gradient, float* dx,
                const LayerGradients& g);

 private:
  int64_t count(const KeptRows* kept) const { return kept ? (int64_t)kept->size() : rows_.rows(); }
  void take_backward_scratch();
  void attend(LayerActivations& a);
  void feed_forward(const LayerWeights& w, const LayerLora& lora, LayerActivations& a, int64_t S, float* out);
  void feed_forward_backward(const LayerWeights& w, const LayerLora& lora, LayerActivations& a, int64_t S,
                             float* gradient, const LayerGradients& g);
  void attention_block_backward(const LayerActivations& a, const float* d_attended);
  void queries_keys_backward(const LayerWeights& w, LayerActivations& a, const LayerGradients& g);
  void project_backward(const LayerWeights& w, const LayerLora& lora, int target, const float* x,
                        const float* dy, int64_t M, float* dx, bool accumulate, const LayerActivations& a,
                        const LayerGradients& g);

  const Weights& weights_;
  const ModelConfig& config_;
  const Adapter* adapter_;
  const PackedRows& rows_;
  Workspace& ws_;
  Lane& lane_;
  const int64_t rank_, D_, F_, H_, G_, E_, q_width_, kv_width_;
  float *normed_, *hidden_, *k_heads_, *v_heads_;  // both passes
  float *d_normed_ = nullptr, *d_hidden_, *d_q_, *d_k_, *d_v_, *d_attended_, *d_all_, *d_raw_,
        *d_low_;  // backward
};

}  // namespace openclaw
