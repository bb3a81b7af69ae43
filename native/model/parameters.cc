#include "native/model/parameters.h"

#include <algorithm>
#include <cmath>

#include "native/base/error.h"
#include "native/model/weights_storage.h"

namespace openclaw {
namespace {

// Weights hold their parameters const because they are shared; masters are the trainer's own.
float* writable(const void* p) { return const_cast<float*>(static_cast<const float*>(p)); }

// The layers of `at` hold pointers to gradients instead of values.
LayerGradients layer_gradients(const LayerWeights& at) {
  LayerGradients g;
  for (size_t t = 0; t < kTargets; t++) g.w[t] = writable(at.w[t].data);
  g.attn_norm = writable(at.attn_norm);
  g.ffn_norm = writable(at.ffn_norm);
  g.q_bias = writable(at.q_bias);
  g.k_bias = writable(at.k_bias);
  g.v_bias = writable(at.v_bias);
  g.q_norm = writable(at.q_norm);
  g.k_norm = writable(at.k_norm);
  return g;
}

}  // namespace

float* Parameters::add(const std::string& name, float* value, int64_t size) {
  Parameter p;
  p.name = name;
  p.value = value;
  p.size = size;
  p.gradient.resize((size_t)size);
  p.m.resize((size_t)size);
  p.v.resize((size_t)size);
  list_.push_back(std::move(p));
  return list_.back().gradient.data();
}

Parameters::Parameters(Adapter& adapter) {
  gradients_.layers.resize(adapter.layers.size());
  for (size_t l = 0; l < adapter.layers.size(); l++)
    for (size_t t = 0; t < kTargets; t++) {
      LoraPair& pair = adapter.layers[l][t];
      if (pair.empty()) continue;
      const std::string name = "layers." + std::to_string(l) + "." + target_name((int)t);
      gradients_.layers[l].a[t] = add(name + ".A", pair.a.data(), (int64_t)pair.a.size());
      gradients_.layers[l].b[t] = add(name + ".B", pair.b.data(), (int64_t)pair.b.size());
    }
}

Parameters::Parameters(Weights& masters) {
  Weights places;  // has the shape of the masters, and gradients where they have values
  places.config = masters.config;
  const std::vector<Slot> values = parameter_slots(masters), at = parameter_slots(places);
  for (size_t i = 0; i < values.size(); i++)
    at[i].set(add(values[i].name, writable(values[i].data()), values[i].values()), DType::F32);
  tie_head(places);
  for (const LayerWeights& layer : places.layers) gradients_.layers.push_back(layer_gradients(layer));
  gradients_.embed = writable(places.embed.data);
  gradients_.head = writable(places.head.data);
  gradients_.final_norm = writable(places.final_norm);
}

void Parameters::zero_gradients() {
  for (Parameter& p : list_) std::fill(p.gradient.begin(), p.gradient.end(), 0.f);
}

double Parameters::gradient_norm(Lane& lane) const {
  double squares = 0;
  for (const Parameter& p : list_) squares += sum_squares(p.gradient.data(), p.size, lane);
  return std::sqrt(squares);
}

Parameters::Arrays Parameters::export_values(bool moments) const {
  Arrays out;
  for (const Parameter& p : list_) {
    out[p.name].assign(p.value, p.value + p.size);
    if (moments) out[p.name + ".m"] = p.m, out[p.name + ".v"] = p.v;
  }
  return out;
}

Parameters::Arrays Parameters::export_gradients() const {
  Arrays out;
  for (const Parameter& p : list_) out[p.name] = p.gradient;
  return out;
}

void Parameters::check_import(const Arrays& arrays) const {
  size_t known = 0;
  for (const Parameter& p : list_) {
    OC_CHECK(arrays.count(p.name), Code::E_ARGUMENT, "state: %s is missing", p.name.c_str());
    for (const char* suffix : {"", ".m", ".v"}) {
      const auto found = arrays.find(p.name + suffix);
      if (found == arrays.end()) continue;
      known++;
      OC_CHECK((int64_t)found->second.size() == p.size, Code::E_SHAPE,
               "state: %s: expected %lld numbers, got %zu", found->first.c_str(), (long long)p.size,
               found->second.size());
    }
  }
  if (known == arrays.size()) return;
  std::map<std::string, bool> names;
  for (const Parameter& p : list_) names[p.name] = names[p.name + ".m"] = names[p.name + ".v"] = true;
  for (const auto& [name, values] : arrays)
    OC_CHECK(names.count(name), Code::E_ARGUMENT, "state: %s is not a parameter of this trainer",
             name.c_str());
}

void Parameters::import_values(const Arrays& arrays) {
  check_import(arrays);
  for (Parameter& p : list_) {
    const std::vector<float>& value = arrays.at(p.name);
    std::copy(value.begin(), value.end(), p.value);
    const auto m = arrays.find(p.name + ".m"), v = arrays.find(p.name + ".v");
    p.m = m == arrays.end() ? std::vector<float>((size_t)p.size) : m->second;
    p.v = v == arrays.end() ? std::vector<float>((size_t)p.size) : v->second;
  }
}

}  // namespace openclaw
