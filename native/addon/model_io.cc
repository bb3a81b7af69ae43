#include "native/addon/model_io.h"

#include <cmath>
#include <cstring>
#include <thread>

namespace openclaw {
namespace {

constexpr int64_t kLargestInteger = (1ll << 53) - 1;  // exact in a JavaScript number
constexpr int64_t kLargestDimension = 1 << 24;

RopeScaling read_scaling(const Fields& fields) {
  RopeScaling s;
  s.kind = (RopeScaling::Kind)fields.choice("kind", {"none", "linear", "llama3", "yarn"});
  s.factor = fields.number("factor", 0, 1e6);
  s.low_freq_factor = fields.number("lowFreqFactor", 0, 1e6, s.low_freq_factor);
  s.high_freq_factor = fields.number("highFreqFactor", 0, 1e6, s.high_freq_factor);
  s.original_context = fields.number("originalContext", 0, 1e9, s.original_context);
  s.attention_factor = fields.number("attentionFactor", 0, 1e6, s.attention_factor);
  s.beta_fast = fields.number("betaFast", 0, 1e6, s.beta_fast);
  s.beta_slow = fields.number("betaSlow", 0, 1e6, s.beta_slow);
  return s;
}

TensorSource read_tensor(const Fields& fields) {
  TensorSource t;
  t.name = fields.text("name");
  t.type = (Ggml)fields.integer("type", 0,
                                255);  // an unknown one is refused by the loader, which names file and tensor
  t.file = fields.text("file");
  t.offset = (uint64_t)fields.integer("offset", 0, kLargestInteger);
  t.bytes = (uint64_t)fields.integer("bytes", 0, kLargestInteger);
  t.unpermute_heads = fields.integer("unpermuteHeads", 0, kLargestDimension, 0);
  Napi::Array shape = fields.array("shape");
  OC_CHECK(shape.Length() >= 1 && shape.Length() <= 4, Code::E_SHAPE, "%s: expected 1..4 dimensions, got %u",
           fields.path("shape").c_str(), shape.Length());
  for (uint32_t i = 0; i < shape.Length(); i++) {
    Napi::Value size = shape.Get(i);
    double number = size.IsNumber() ? size.As<Napi::Number>().DoubleValue() : NAN;
    OC_CHECK(number == std::floor(number) && number >= 1 && number <= (double)kLargestInteger, Code::E_SHAPE,
             "%s[%u]: expected an integer >= 1, got %s", fields.path("shape").c_str(), i,
             describe(size).c_str());
    t.shape.push_back((int64_t)number);
  }
  return t;
}

struct Shape {
  int64_t in, out;
};

Shape shape_of(const ModelConfig& c, int target) {
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  switch (target) {
    case Q:
      return {c.hidden, q};
    case K:
    case V:
      return {c.hidden, kv};
    case O:
      return {q, c.hidden};
    case Down:
      return {c.ffn, c.hidden};
    default:
      return {c.hidden, c.ffn};
  }
}

// "layers.3.q_proj.A" -> 3, Q, 'A'. False when it is none such.
bool parse_name(const std::string& name, const ModelConfig& c, int64_t& layer, int& target, char& part) {
  int consumed = 0;
  long long number = 0;
  if (sscanf(name.c_str(), "layers.%lld.%n", &number, &consumed) != 1 || consumed == 0) return false;
  if (number < 0 || number >= c.layers) return false;
  for (int t = 0; t < kTargets; t++) {
    const std::string stem = target_name(t) + std::string(".");
    if (name.compare((size_t)consumed, stem.size(), stem) != 0) continue;
    const std::string rest = name.substr((size_t)consumed + stem.size());
    if (rest != "A" && rest != "B") return false;
    layer = number, target = t, part = rest[0];
    return true;
  }
  return false;
}

void take_tensor(Adapter& adapter, const ModelConfig& c, const std::string& name, std::vector<float> values) {
  int64_t layer = 0;
  int target = 0;
  char part = 0;
  OC_CHECK(parse_name(name, c, layer, target, part), Code::E_ARGUMENT,
           "adapter.tensors: expected names like 'layers.0.q_proj.A' with layers below %lld, got '%s'",
           (long long)c.layers, name.substr(0, 80).c_str());
  const Shape shape = shape_of(c, target);
  const int64_t expected = adapter.rank * (part == 'A' ? shape.in : shape.out);
  OC_CHECK((int64_t)values.size() == expected, Code::E_SHAPE,
           "adapter.tensors['%s']: expected %lld values, got %zu", name.c_str(), (long long)expected,
           values.size());
  for (float value : values)
    OC_CHECK(std::isfinite(value), Code::E_NOT_FINITE,
             "adapter.tensors['%s']: expected finite numbers, got %g", name.c_str(), (double)value);
  LoraPair& pair = adapter.layers[(size_t)layer][(size_t)target];
  pair.in = shape.in, pair.out = shape.out;
  (part == 'A' ? pair.a : pair.b) = std::move(values);
}

void check_pairs(const Adapter& adapter) {
  for (size_t l = 0; l < adapter.layers.size(); l++)
    for (int t = 0; t < kTargets; t++) {
      const LoraPair& pair = adapter.layers[l][(size_t)t];
      OC_CHECK(pair.a.empty() == pair.b.empty(), Code::E_ARGUMENT,
               "adapter.tensors: 'layers.%zu.%s' has only one of A and B", l, target_name(t));
    }
}

}  // namespace

ModelConfig read_config(Napi::Value value) {
  Fields fields(value, "config");
  ModelConfig c;
  c.arch = (Arch)fields.choice("arch", {"llama", "qwen2", "qwen3"});
  c.vocab = fields.integer("vocab", 1, kLargestDimension);
  c.sampleable = fields.integer("sampleable", 1, c.vocab);
  c.hidden = fields.integer("hidden", 1, kLargestDimension);
  c.layers = fields.integer("layers", 1, 4096);
  c.heads = fields.integer("heads", 1, 65536);
  c.kv_heads = fields.integer("kvHeads", 1, 65536);
  c.head_dim = fields.integer("headDim", 1, 65536);
  c.ffn = fields.integer("ffn", 1, kLargestDimension);
  c.norm_eps = (float)fields.number("normEps", 0, 1);
  c.rope_theta = fields.number("ropeTheta", 1, 1e12);
  if (fields.has("ropeScaling")) c.rope = read_scaling(fields.object("ropeScaling"));
  c.tied_head = fields.boolean("tiedHead");
  c.qkv_bias = fields.boolean("qkvBias");
  c.qk_norm = fields.boolean("qkNorm");
  c.context = fields.integer("context", 2, 1 << 24);
  c.validate();
  return c;
}

std::vector<TensorSource> read_tensors(Napi::Value value) {
  OC_CHECK(value.IsArray(), Code::E_ARGUMENT, "tensors: expected an array, got %s", describe(value).c_str());
  Napi::Array list = value.As<Napi::Array>();
  std::vector<TensorSource> out;
  for (uint32_t i = 0; i < list.Length(); i++) {
    Napi::HandleScope scope(value.Env());
    out.push_back(read_tensor(Fields(list.Get(i), "tensors[" + std::to_string(i) + "]")));
  }
  return out;
}

std::shared_ptr<const Adapter> read_adapter(Napi::Value value, const ModelConfig& config) {
  Fields fields(value, "adapter");
  auto adapter = std::make_shared<Adapter>();
  adapter->rank = fields.integer("rank", 1, config.hidden);
  adapter->alpha = (float)fields.number("alpha", 0, 1e6);
  adapter->layers.resize((size_t)config.layers);
  Fields tensors = fields.object("tensors");
  for (const std::string& name : tensors.keys()) {
    Napi::HandleScope scope(value.Env());
    take_tensor(*adapter, config, name, tensors.floats(name.c_str()));
  }
  check_pairs(*adapter);
  return adapter;
}

DType read_dtype(const Fields& fields, const char* key) {
  return fields.choice(key, {"f32", "bf16"}) == 0 ? DType::F32 : DType::BF16;
}

PolicyOptions read_options(Napi::Value value, const ModelConfig& config) {
  Fields fields(value, "options");
  PolicyOptions o;
  o.dtype = read_dtype(fields, "dtype");
  o.threads = (int)fields.integer("threads", 0, 1024);
  if (o.threads == 0) o.threads = std::max(1, (int)std::thread::hardware_concurrency());
  o.engine.kv_bytes = fields.integer("kvBytes", 1, kLargestInteger);
  o.engine.max_in_flight = fields.integer("maxInFlight", 1, 4096);
  o.engine.max_waiting = fields.integer("maxWaiting", 0, 1 << 20);
  o.version = fields.text("version");
  if (fields.has("adapter")) o.adapter = read_adapter(fields.get("adapter"), config);
  OC_CHECK(o.engine.kv_bytes >= KvCache::page_bytes(config), Code::E_ARGUMENT,
           "options.kvBytes: expected at least %lld, the keys and values of %lld tokens, got %lld",
           (long long)KvCache::page_bytes(config), (long long)KvCache::kBlock, (long long)o.engine.kv_bytes);
  return o;
}

// --- weights out
// ----------------------------------------------------------------------------------------------------

namespace {

struct Exported {
  std::string name;
  std::vector<int64_t> shape;
  std::unique_ptr<char[]> bytes;
  size_t size = 0;
};

Exported export_one(const Weights::Named& named, DType dtype) {
  Exported out{named.name, named.shape, nullptr, 0};
  int64_t n = 1;
  for (int64_t size : named.shape) n *= size;
  out.size = (size_t)(n * dtype_bytes(dtype));
  out.bytes.reset(new char[out.size]);
  if (named.dtype == dtype) {
    memcpy(out.bytes.get(), named.data, out.size);
  } else if (dtype == DType::F32) {
    for (int64_t i = 0; i < n; i++)
      ((float*)out.bytes.get())[i] = bf16_to_f32(((const uint16_t*)named.data)[i]);
  } else {
    for (int64_t i = 0; i < n; i++)
      ((uint16_t*)out.bytes.get())[i] = f32_to_bf16(((const float*)named.data)[i]);
  }
  return out;
}

// Gives memory to JavaScript. Runtimes with a sandboxed heap take no foreign memory; they get a copy.
Napi::ArrayBuffer adopt(Napi::Env env, std::unique_ptr<char[]> bytes, size_t size) {
  napi_value buffer;
  auto release = [](napi_env, void* data, void*) { delete[] (char*)data; };
  if (size > 0 &&
      napi_create_external_arraybuffer(env, bytes.get(), size, release, nullptr, &buffer) == napi_ok) {
    bytes.release();
    return Napi::ArrayBuffer(env, buffer);
  }
  Napi::ArrayBuffer copy = Napi::ArrayBuffer::New(env, size);
  if (size > 0) memcpy(copy.Data(), bytes.get(), size);
  return copy;
}

Napi::Value js_exported(Napi::Env env, Exported& tensor, DType dtype) {
  Napi::Object out = Napi::Object::New(env);
  out.Set("name", tensor.name);
  Napi::Array shape = Napi::Array::New(env, tensor.shape.size());
  for (size_t i = 0; i < tensor.shape.size(); i++) shape.Set((uint32_t)i, (double)tensor.shape[i]);
  out.Set("shape", shape);
  Napi::ArrayBuffer buffer = adopt(env, std::move(tensor.bytes), tensor.size);
  const size_t n = tensor.size / (size_t)dtype_bytes(dtype);
  if (dtype == DType::F32)
    out.Set("data", Napi::Float32Array::New(env, n, buffer, 0));
  else
    out.Set("data", Napi::Uint16Array::New(env, n, buffer, 0));
  return out;
}

}  // namespace

PolicyHost::Reply export_weights(const Weights& weights, DType dtype) {
  auto tensors = std::make_shared<std::vector<Exported>>();
  for (const Weights::Named& named : weights.named()) tensors->push_back(export_one(named, dtype));
  return [tensors, dtype](Napi::Env env) -> Napi::Value {
    Napi::Array out = Napi::Array::New(env, tensors->size());
    for (size_t i = 0; i < tensors->size(); i++) {
      Napi::HandleScope scope(env);
      out.Set((uint32_t)i, js_exported(env, (*tensors)[i], dtype));
    }
    return out;
  };
}

}  // namespace openclaw
