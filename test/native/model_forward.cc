// Weights and the serving pass: files in and their faults, every architecture against the decoder written in
// double, and that cutting, batching and threads change nothing.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include "native/base/cpu.h"
#include "test/native/check.h"
#include "test/native/fixture_model.h"
#include "test/native/tiny_model.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

Lane& lane() {
  static Lane two(2, false, nullptr);
  return two;
}

// A file of tensors that is deleted with the object.
class TensorFile {
 public:
  TensorFile() {
    std::string path = (std::filesystem::temp_directory_path() / "openclaw-weights-XXXXXX").string();
    const int fd = mkstemp(path.data());
    OC_CHECK(fd >= 0, Code::E_FILE, "%s: could not be made", path.c_str());
    close(fd);
    path_ = path;
  }
  ~TensorFile() { std::remove(path_.c_str()); }

  void add(const std::string& name, Ggml type, std::vector<int64_t> shape, const void* data, uint64_t bytes) {
    TensorSource s;
    s.name = name;
    s.type = type;
    s.shape = std::move(shape);
    s.file = path_;
    s.offset = bytes_.size();
    s.bytes = bytes;
    bytes_.insert(bytes_.end(), (const char*)data, (const char*)data + bytes);
    sources.push_back(s);
  }
  void pad(size_t n) { bytes_.resize(bytes_.size() + n); }
  void write() const {
    std::ofstream(path_, std::ios::binary).write(bytes_.data(), (std::streamsize)bytes_.size());
  }
  TensorSource& source(const std::string& name) {
    for (TensorSource& s : sources)
      if (s.name == name) return s;
    fail(Code::E_INTERNAL, "no source %s", name.c_str());
  }

  std::vector<TensorSource> sources;

 private:
  std::string path_;
  std::vector<char> bytes_;
};

uint64_t values_of(const Weights::Named& p) {
  uint64_t n = 1;
  for (int64_t d : p.shape) n *= (uint64_t)d;
  return n;
}

void fill_f32(TensorFile& file, const Weights& w) {
  for (const Weights::Named& p : w.named()) file.add(p.name, Ggml::F32, p.shape, p.data, values_of(p) * 4);
}

bool same_values(const Weights& a, const Weights& b) {
  const auto x = a.named(), y = b.named();
  for (size_t i = 0; i < x.size(); i++) {
    if (x[i].name != y[i].name || x[i].dtype != y[i].dtype || x[i].shape != y[i].shape) return false;
    if (memcmp(x[i].data, y[i].data, values_of(x[i]) * (size_t)dtype_bytes(x[i].dtype)) != 0) return false;
  }
  return x.size() == y.size();
}

// The rows of each head, halves (i, i + E/2) put next to one another: what a GGUF holds.
std::vector<float> interleaved(const float* halves, int64_t heads, int64_t E, int64_t cols) {
  std::vector<float> out;
  for (int64_t h = 0; h < heads; h++)
    for (int64_t r = 0; r < E; r++) {
      const int64_t from = h * E + (r % 2 == 0 ? r / 2 : E / 2 + r / 2);
      out.insert(out.end(), halves + from * cols, halves + (from + 1) * cols);
    }
  return out;
}

void refuses(const char* what, Code code, const std::function<void(ModelConfig&)>& damage) {
  ModelConfig c = tiny_config(Arch::Llama);
  damage(c);
  try {
    c.validate();
    failure(__FILE__, __LINE__, what);
  } catch (const Error& e) {
    CHECK(e.code == code);
    if (!strstr(e.what(), what)) failure(__FILE__, __LINE__, e.what());
  }
}

// The message of the error that loading gives.
std::string load_error(const ModelConfig& c, const TensorFile& file, Code code) {
  try {
    Weights::load(c, file.sources, DType::F32, lane());
  } catch (const Error& e) {
    CHECK(e.code == code);
    return e.what();
  }
  return "loaded";
}

bool mentions(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

void test_config() {
  test("config: what does not fit together is refused by name", [] {
    for (Arch a : kArchs) tiny_config(a).validate();
    refuses("vocab", Code::E_ARGUMENT, [](ModelConfig& c) { c.vocab = 0; });
    refuses("sampleable", Code::E_ARGUMENT, [](ModelConfig& c) { c.sampleable = c.vocab + 1; });
    refuses("layers", Code::E_ARGUMENT, [](ModelConfig& c) { c.layers = 0; });
    refuses("heads", Code::E_ARGUMENT, [](ModelConfig& c) { c.heads = 5; });
    refuses("head_dim", Code::E_ARGUMENT, [](ModelConfig& c) { c.head_dim = 7; });
    refuses("hidden", Code::E_ARGUMENT, [](ModelConfig& c) { c.hidden = 1ll << 40; });
    refuses("norm_eps", Code::E_ARGUMENT, [](ModelConfig& c) { c.norm_eps = NAN; });
    refuses("rope_theta", Code::E_ARGUMENT, [](ModelConfig& c) { c.rope_theta = 0; });
    refuses("qk_norm", Code::E_ARGUMENT, [](ModelConfig& c) { c.arch = Arch::Qwen3; });
    refuses("qkv_bias", Code::E_ARGUMENT, [](ModelConfig& c) { c.arch = Arch::Qwen2; });
    refuses("original_context", Code::E_ARGUMENT, [](ModelConfig& c) { c.rope.kind = RopeScaling::Yarn; });
  });
}

void test_weights() {
  test("weights: f32 files are mapped, and give the same weights", [] {
    for (Arch a : kArchs) {
      const auto w = tiny_weights(tiny_config(a), 1);
      TensorFile file;
      fill_f32(file, *w);
      file.write();
      CHECK(same_values(*w, *Weights::load(w->config, file.sources, DType::F32, lane())));
    }
  });
  test("weights: unaligned tensors, bf16 and f16 storage are converted", [] {
    const auto w = tiny_weights(tiny_config(Arch::Qwen2), 2);
    const auto half = w->copy(DType::BF16);
    TensorFile file;
    file.pad(3);
    for (const Weights::Named& p : half->named())
      file.add(p.name, p.dtype == DType::F32 ? Ggml::F32 : Ggml::BF16, p.shape, p.data,
               values_of(p) * (uint64_t)dtype_bytes(p.dtype));
    file.write();
    CHECK(same_values(*half, *Weights::load(w->config, file.sources, DType::BF16, lane())));
    CHECK(same_values(*half->copy(DType::F32), *Weights::load(w->config, file.sources, DType::F32, lane())));
    CHECK_THROWS(E_UNSUPPORTED, Weights::load(w->config, file.sources, DType::F16, lane()));
  });
  test("weights: q and k rows of neighbouring pairs are put into halves", [] {
    const auto w = tiny_weights(tiny_config(Arch::Llama), 3);
    const ModelConfig& c = w->config;
    TensorFile file;
    for (const Weights::Named& p : w->named()) {
      const bool q = p.name.ends_with("q_proj.weight"), k = p.name.ends_with("k_proj.weight");
      if (!q && !k) {
        file.add(p.name, Ggml::F32, p.shape, p.data, values_of(p) * 4);
        continue;
      }
      const int64_t heads = q ? c.heads : c.kv_heads;
      const auto rows = interleaved((const float*)p.data, heads, c.head_dim, c.hidden);
      file.add(p.name, Ggml::F32, p.shape, rows.data(), rows.size() * 4);
      file.sources.back().unpermute_heads = heads;
    }
    file.write();
    CHECK(same_values(*w, *Weights::load(c, file.sources, DType::F32, lane())));
  });
  test("weights: faults of a file are named, with file and tensor", [] {
    const auto w = tiny_weights(tiny_config(Arch::Llama), 4);
    const char* q = "model.layers.1.self_attn.q_proj.weight";
    TensorFile file;
    fill_f32(file, *w);
    file.write();
    const auto with = [&](Code code, const std::function<void(TensorSource&)>& damage) {
      TensorSource& s = file.source(q);
      const TensorSource before = s;
      damage(s);
      const std::string message = load_error(w->config, file, code);
      s = before;
      if (!mentions(message, q) || !mentions(message, s.file.c_str()))
        failure(__FILE__, __LINE__, message.c_str());
    };
    with(Code::E_FILE, [](TensorSource& s) { s.shape = {s.shape[1], s.shape[0]}; });
    with(Code::E_FILE, [](TensorSource& s) { s.offset = 1ull << 62; });
    with(Code::E_FILE, [](TensorSource& s) { s.offset = ~0ull - 8; });
    with(Code::E_FILE, [](TensorSource& s) { s.bytes -= 4; });
    with(Code::E_FILE, [](TensorSource& s) { s.type = Ggml::F16; });
    with(Code::E_FILE, [](TensorSource& s) { s.unpermute_heads = 5; });
    with(Code::E_UNSUPPORTED, [](TensorSource& s) { s.type = (Ggml)99; });
    file.source(q).name = "model.layers.1.self_attn.q_proj.weights";
    CHECK(mentions(load_error(w->config, file, Code::E_FILE), "is missing"));
    file.source("model.layers.1.self_attn.q_proj.weights").name = q;
    file.sources.push_back(file.source(q));
    CHECK(mentions(load_error(w->config, file, Code::E_FILE), "twice"));
    file.sources.back().name = "model.layers.1.self_attn.q_proj.bias";
    CHECK(mentions(load_error(w->config, file, Code::E_UNSUPPORTED), "no place"));
    file.sources.back().name = "lm_head.weight";  // superfluous when tied
    CHECK(load_error(w->config, file, Code::E_FILE) == "loaded");
    for (TensorSource& s : file.sources) s.file += ".gone";
    CHECK(mentions(load_error(w->config, file, Code::E_FILE), "could not be opened"));
  });
  test("weights: random ones have the spread asked for", [] {
    ModelConfig c = tiny_config(Arch::Llama);
    c.hidden = 64;
    c.vocab = 500;
    const auto w = Weights::random(c, 5, 0.02f);
    const auto spread = [](const Matrix& m) {
      double squares = 0;
      for (int64_t i = 0; i < m.rows * m.cols; i++) squares += std::pow((double)((const float*)m.data)[i], 2);
      return std::sqrt(squares / (double)(m.rows * m.cols));
    };
    CHECK_NEAR(spread(w->embed), 0.02, 0.001);
    CHECK_NEAR(spread(w->layers[1].w[Down]), 0.02 / std::sqrt(6.0), 0.001);
    CHECK(same_values(*w, *Weights::random(c, 5, 0.02f)));
    CHECK(!same_values(*w, *Weights::random(c, 6, 0.02f)));
  });
}

void test_forward() {
  for (Arch a : kArchs) {
    const std::string name = arch_name(a);
    test((name + ": log-probs of the decoder in double, base and adapter, f32 and bf16").c_str(), [a] {
      const ModelConfig c = tiny_config(a);
      const auto w = tiny_weights(c, 11);
      const auto ids = tiny_ids(37, c.vocab, 1);
      const auto adapter = tiny_adapter(c, *w, 12);
      const auto half = w->copy(DType::BF16);
      CHECK_NEAR(
          worst_difference(whole_logprobs({w, nullptr, ""}, ids, lane()), ReferenceModel(*w).logprobs(ids)),
          0, 3e-5);
      CHECK_NEAR(worst_difference(whole_logprobs({w, adapter, ""}, ids, lane()),
                                  ReferenceModel(*w, adapter.get()).logprobs(ids)),
                 0, 3e-5);
      CHECK_NEAR(worst_difference(whole_logprobs({half, nullptr, ""}, ids, lane()),
                                  ReferenceModel(*half).logprobs(ids)),
                 0, 3e-5);
    });
    test((name + ": in pieces through the cache, and batched with others, as in one go").c_str(), [a] {
      const ModelConfig c = tiny_config(a);
      const auto w = tiny_weights(c, 13);
      const Snapshot s{w, tiny_adapter(c, *w, 14), ""};
      const auto first = tiny_ids(45, c.vocab, 2), second = tiny_ids(40, c.vocab, 3);
      const auto whole_first = whole_forward(s, first, lane()),
                 whole_second = whole_forward(s, second, lane());
      TestKv kv_first(c, 45, 8), kv_second(c, 40, 32);
      Workspace ws;
      std::vector<float> hidden((size_t)(85 * c.hidden));
      double worst = 0;
      const auto compare = [&](const float* got, const std::vector<float>& whole, int64_t row, int64_t rows) {
        for (int64_t i = 0; i < rows * c.hidden; i++)
          worst = std::fmax(worst, std::fabs((double)got[i] - (double)whole[(size_t)(row * c.hidden + i)]));
      };
      // first: 20 tokens of which the last 5 are wanted, then 1, 1, 23; second: 37, 1, 1, 1.
      const int64_t cuts[][4] = {{0, 20, 0, 37}, {20, 1, 37, 1}, {21, 1, 38, 1}, {22, 23, 39, 1}};
      for (const auto& cut : cuts) {
        const int64_t want = cut[1] > 5 ? cut[1] - 5 : 0;
        const Chunk chunks[] = {kv_first.chunk(first.data(), cut[0], cut[1], want),
                                kv_second.chunk(second.data(), cut[2], cut[3], 0)};
        forward(s, chunks, 2, hidden.data(), ws, lane());
        const int64_t rows = cut[1] - want;
        compare(hidden.data(), whole_first, cut[0] + want, rows);
        compare(hidden.data() + rows * c.hidden, whole_second, cut[2], cut[3]);
      }
      CHECK_NEAR(worst, 0, 3e-5);
    });
  }
  test("forward: nothing wanted still fills the cache", [] {
    const ModelConfig c = tiny_config(Arch::Qwen3);
    const Snapshot s{tiny_weights(c, 15), nullptr, ""};
    const auto ids = tiny_ids(20, c.vocab, 4);
    const auto whole = whole_forward(s, ids, lane());
    TestKv kv(c, 20, 8);
    Workspace ws;
    Chunk chunk = kv.chunk(ids.data(), 0, 19, 19);
    forward(s, &chunk, 1, nullptr, ws, lane());
    std::vector<float> hidden((size_t)c.hidden);
    chunk = kv.chunk(ids.data(), 19, 1, 0);
    forward(s, &chunk, 1, hidden.data(), ws, lane());
    for (int64_t d = 0; d < c.hidden; d++)
      CHECK_NEAR(hidden[(size_t)d], whole[(size_t)(19 * c.hidden + d)], 3e-5);
  });
  test("forward: the same bits with one thread and with two", [] {
    const ModelConfig c = tiny_config(Arch::Qwen2);
    const auto w = tiny_weights(c, 16);
    const Snapshot s{w, tiny_adapter(c, *w, 17), ""};
    const auto ids = tiny_ids(100, c.vocab, 5);
    Lane one(1, false, nullptr);
    CHECK(whole_forward(s, ids, one) == whole_forward(s, ids, lane()));
  });
  test("forward: ids and positions out of range are refused", [] {
    const ModelConfig c = tiny_config(Arch::Llama);
    const Snapshot s{tiny_weights(c, 18), nullptr, ""};
    auto ids = tiny_ids(129, c.vocab, 6);
    TestKv kv(c, 129, 8);
    Workspace ws;
    std::vector<float> hidden((size_t)(129 * c.hidden));
    const Chunk beyond = kv.chunk(ids.data(), 0, 129, 0);
    CHECK_THROWS(E_CONTEXT, forward(s, &beyond, 1, hidden.data(), ws, lane()));
    ids[3] = (int32_t)c.vocab;
    const Chunk chunk = kv.chunk(ids.data(), 0, 10, 0);
    CHECK_THROWS(E_TOKEN_ID, forward(s, &chunk, 1, hidden.data(), ws, lane()));
  });
}

// fixtures/make_qwen.py: transformers in double.
void test_transformers() {
  for (const char* name : {"llama", "llama3", "linear", "yarn", "qwen2", "qwen3"})
    test((std::string("transformers, ") + name + ": frequencies and logits").c_str(), [name] {
      const FixtureModel fixture = read_fixture(std::string("qwen-") + name + ".json");
      const std::vector<double> frequency = rope_frequencies(fixture.config);
      for (size_t i = 0; i < frequency.size(); i++)  // theirs are float32
        CHECK_NEAR(frequency[i], fixture.json.numbers("invFreq").at(i), 1e-6 * frequency[i]);
      CHECK_NEAR(rope_attention_scale(fixture.config), fixture.json.number("attentionScale"), 1e-12);
      const std::vector<double>& expected = fixture.json.numbers("logprobs");
      const Rows got = whole_logprobs({fixture.weights, nullptr, ""}, fixture.ids, lane());
      CHECK(got.size() * got[0].size() == expected.size());
      for (size_t t = 0; t < got.size(); t++)
        for (size_t j = 0; j < got[t].size(); j++)
          CHECK_NEAR(got[t][j], expected[t * got[t].size() + j], 5e-5);
    });
}

}  // namespace

int main() {
  printf("model_forward on %s\n", isa_name(cpu_isa()));
  test_config();
  test_weights();
  test_forward();
  test_transformers();
  return summary();
}
