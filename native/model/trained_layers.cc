#include "native/model/trained_layers.h"

#include <utility>

namespace openclaw {

TrainedLayers::TrainedLayers(const Weights& weights, const Adapter* adapter, const PackedRows& rows,
                             const KeptRows* kept, int64_t first, bool recompute, Workspace& ws, Lane& lane)
    : layer_(weights, adapter, rows, ws, lane),
      kept_(kept),
      first_(first),
      layers_(weights.config.layers),
      recompute_(recompute) {
  const int64_t D = weights.config.hidden, M = rows.rows(), S = kept ? (int64_t)kept->size() : M;
  for (int64_t l = first; l <= layers_; l++) inputs_.push_back(ws.take((l == layers_ ? S : M) * D));
  for (int64_t l = first; l < layers_; l++)
    if (!recompute || l == first || l + 1 == layers_) activations_.push_back(layer_.allocate(ws, kept_in(l)));
}

// When recomputing, one set serves all layers but the last, whose rows may be fewer.
LayerActivations& TrainedLayers::activations(int64_t layer) {
  if (!recompute_) return activations_[(size_t)(layer - first_)];
  return layer + 1 == layers_ ? activations_.back() : activations_.front();
}

void TrainedLayers::forward(int64_t layer) {
  const size_t n = (size_t)(layer - first_);
  LayerActivations& a = activations(layer);
  a.x = inputs_[n];
  layer_.forward(layer, a, kept_in(layer), inputs_[n + 1]);
}

void TrainedLayers::forward() {
  for (int64_t l = first_; l < layers_; l++) forward(l);
}

float* TrainedLayers::backward(float* gradient, float* spare, bool input_wanted, const Gradients& g) {
  for (int64_t l = layers_ - 1; l >= first_; l--) {
    // The last layer ran last: what it kept is still there.
    if (recompute_ && l + 1 < layers_) forward(l);
    float* dx = l > first_ || input_wanted ? spare : nullptr;
    layer_.backward(l, activations(l), kept_in(l), gradient, dx, g.layers[(size_t)l]);
    spare = std::exchange(gradient, dx);
  }
  return gradient;
}

}  // namespace openclaw
