#include "native/model/new_adapter.h"

#include <cmath>

#include "native/model/random.h"

namespace openclaw {
namespace {

LoraPair new_pair(const Matrix& w, int64_t rank, const RandomStream& random) {
  LoraPair p;
  p.in = w.cols;
  p.out = w.rows;
  p.a.resize((size_t)(rank * w.cols));
  p.b.resize((size_t)(w.rows * rank));
  const double bound = 1 / std::sqrt((double)w.cols);
  for (size_t i = 0; i < p.a.size(); i++) p.a[i] = (float)(bound * (2 * random.uniform(i) - 1));
  return p;
}

}  // namespace

std::shared_ptr<Adapter> new_adapter(const Weights& base, const TrainOptions& o) {
  auto out = std::make_shared<Adapter>();
  out->rank = o.rank;
  out->alpha = o.alpha;
  out->layers.resize(base.layers.size());
  for (size_t l = (size_t)o.first_layer; l < base.layers.size(); l++)
    for (int t : o.targets)
      out->layers[l][(size_t)t] =
          new_pair(base.layers[l].w[(size_t)t], o.rank, RandomStream(o.seed, l * kTargets + (size_t)t));
  return out;
}

}  // namespace openclaw
