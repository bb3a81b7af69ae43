// The layers being trained, over one pack of rows. Activations of all of them are kept; or only their inputs
// are, and each layer is run again before its backward pass. Both ways the same arithmetic gives the same
// bits.
#pragma once
#include "native/model/train_layer.h"

namespace openclaw {

class TrainedLayers {
 public:
  // Layers first..L-1. kept: the rows read after the last layer (S of the M; null: all). Memory comes from
  // `ws`.
  TrainedLayers(const Weights& weights, const Adapter* adapter, const PackedRows& rows, const KeptRows* kept,
                int64_t first, bool recompute, Workspace& ws, Lane& lane);

  float* input() { return inputs_.front(); }              // [M, D], to be filled before forward()
  const float* output() const { return inputs_.back(); }  // [S, D]
  void forward();
  // gradient [S, D] of the output, destroyed; spare: [M, D], and so is the room of `gradient`. Returns the
  // gradient of the input, in one of the two, or null when it is not wanted.
  float* backward(float* gradient, float* spare, bool input_wanted, const Gradients& g);

 private:
  const KeptRows* kept_in(int64_t layer) const { return layer + 1 == layers_ ? kept_ : nullptr; }
  LayerActivations& activations(int64_t layer);
  void forward(int64_t layer);

  TrainLayer layer_;
  const KeptRows* kept_;
  const int64_t first_, layers_;
  const bool recompute_;
  std::vector<float*> inputs_;  // of each layer, and the output of the last
  std::vector<LayerActivations> activations_;
};

}  // namespace openclaw
