// What is being trained: parameters by name, each with its gradient and the optimiser's moments, and the same
// gradients by the place in the decoder where the backward pass adds to them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "native/model/weights.h"

namespace openclaw {

struct Parameter {
  std::string name;
  float* value = nullptr;  // borrowed from the adapter or the masters
  int64_t size = 0;
  std::vector<float> gradient, m, v;
};

// Null where nothing is trained.
struct LayerGradients {
  std::array<float*, kTargets> w{}, a{}, b{};
  float *attn_norm = nullptr, *ffn_norm = nullptr;
  float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr;
  float *q_norm = nullptr, *k_norm = nullptr;
};
struct Gradients {
  float *embed = nullptr, *head = nullptr, *final_norm = nullptr;  // embed == head when tied: both add to it
  std::vector<LayerGradients> layers;
};

class Parameters {
 public:
  using Arrays = std::map<std::string, std::vector<float>>;

  // Every pair of the adapter: "layers.3.q_proj.A" and ".B". The adapter outlives this.
  explicit Parameters(Adapter& adapter);
  // Every parameter of `masters`, f32 and not shared with anyone, by its Hugging Face name.
  explicit Parameters(Weights& masters);

  std::vector<Parameter>& list() { return list_; }
  const Gradients& gradients() const { return gradients_; }
  void zero_gradients();
  double gradient_norm(Lane& lane) const;  // over all parameters together

  Arrays export_values(bool moments) const;
  Arrays export_gradients() const;
  // Nothing is changed unless everything fits. Moments that are not given become zero. Throws E_ARGUMENT
  // naming what is missing or unknown, E_SHAPE.
  void import_values(const Arrays& arrays);

 private:
  float* add(const std::string& name, float* value, int64_t size);
  void check_import(const Arrays& arrays) const;

  std::vector<Parameter> list_;
  Gradients gradients_;
};

}  // namespace openclaw
