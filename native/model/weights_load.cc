// Reading weights from files: first everything is checked, then allocated, then converted.
#include <map>

#include "native/base/error.h"
#include "native/model/weights_storage.h"

namespace openclaw {
namespace {

// One parameter, where its bytes are and where they go.
struct Plan {
  Slot slot;
  const TensorSource* source = nullptr;
  const uint8_t* bytes = nullptr;  // in the mapped file
  int64_t rows = 0, cols = 0;      // a vector is one row, unless its entries are to be reordered
  DType dtype = DType::F32;
  void* to = nullptr;  // null: used where it lies
};

// Values converted by one piece of work, about: small enough to share a big embedding out.
constexpr int64_t kPieceValues = 1 << 18;

[[noreturn]] void bad(const TensorSource& s, const std::string& what) {
  fail(Code::E_FILE, "%s: tensor %s: %s", s.file.c_str(), s.name.c_str(), what.c_str());
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// Throws E_UNSUPPORTED for a type this build does not read.
int64_t block_values(const TensorSource& s) {
  switch (s.type) {
    case Ggml::F32:
    case Ggml::F16:
    case Ggml::Q4_0:
    case Ggml::Q4_1:
    case Ggml::Q5_0:
    case Ggml::Q5_1:
    case Ggml::Q8_0:
    case Ggml::Q4_K:
    case Ggml::Q6_K:
    case Ggml::BF16:
      return ggml_block_values(s.type);
  }
  fail(Code::E_UNSUPPORTED, "%s: tensor %s: storage type %d is not read by this build", s.file.c_str(),
       s.name.c_str(), (int)s.type);
}

void check_place(const TensorSource& s, const Slot& slot, const FileMap& file) {
  if (s.shape != slot.shape)
    bad(s, "expected shape " + shape_text(slot.shape) + ", got " + shape_text(s.shape));
  const int64_t in_block = block_values(s);
  if (s.shape.back() % in_block != 0)
    bad(s, "rows of " + std::to_string(s.shape.back()) + " do not divide into blocks of " +
               std::to_string(in_block));
  const uint64_t bytes = (uint64_t)(slot.values() / in_block * ggml_block_bytes(s.type));
  if (s.bytes != bytes)
    bad(s, "expected " + std::to_string(bytes) + " bytes, got " + std::to_string(s.bytes));
  if (s.offset > file.size() || bytes > file.size() - s.offset)
    bad(s, "bytes " + std::to_string(s.offset) + " to " + std::to_string(s.offset) + " + " +
               std::to_string(bytes) + " lie beyond the end of the file (" + std::to_string(file.size()) +
               " bytes)");
  if (s.unpermute_heads < 0 || (s.unpermute_heads > 0 && s.shape[0] % (2 * s.unpermute_heads) != 0))
    bad(s, std::to_string(s.shape[0]) + " rows do not divide into " + std::to_string(s.unpermute_heads) +
               " heads of pairs");
}

bool usable_in_place(const Plan& p) {
  const TensorSource& s = *p.source;
  if (s.unpermute_heads > 0) return false;
  if (p.dtype == DType::F32) return s.type == Ggml::F32 && (uintptr_t)p.bytes % sizeof(float) == 0;
  return s.type == Ggml::BF16 && (uintptr_t)p.bytes % sizeof(uint16_t) == 0;
}

// Which stored row becomes row r. GGUF keeps each head's rotary pairs as neighbours (2i, 2i+1); the rotation
// here wants halves (i, i + E/2).
int64_t stored_row(const Plan& p, int64_t r) {
  if (p.source->unpermute_heads == 0) return r;
  const int64_t head_rows = p.rows / p.source->unpermute_heads, half = head_rows / 2;
  const int64_t in_head = r % head_rows;
  return r - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
}

void convert_rows(const Plan& p, int64_t begin, int64_t end) {
  const Ggml type = p.source->type;
  const int64_t row_bytes = p.cols / ggml_block_values(type) * ggml_block_bytes(type);
  std::vector<float> row(p.dtype == DType::F32 ? 0 : (size_t)p.cols);
  for (int64_t r = begin; r < end; r++) {
    const uint8_t* from = p.bytes + stored_row(p, r) * row_bytes;
    if (p.dtype == DType::F32) {
      dequantize(type, from, p.cols, (float*)p.to + r * p.cols);
      continue;
    }
    dequantize(type, from, p.cols, row.data());
    for (int64_t i = 0; i < p.cols; i++) ((uint16_t*)p.to)[r * p.cols + i] = f32_to_bf16(row[(size_t)i]);
  }
}

void convert_all(const std::vector<Plan>& plans, Lane& lane) {
  struct Piece {
    const Plan* plan;
    int64_t begin, end;
  };
  std::vector<Piece> pieces;
  for (const Plan& p : plans) {
    if (!p.to) continue;
    const int64_t step = std::max<int64_t>(1, kPieceValues / p.cols);
    for (int64_t r = 0; r < p.rows; r += step) pieces.push_back({&p, r, std::min(p.rows, r + step)});
  }
  lane.parallel_for((int64_t)pieces.size(), 1, [&](int64_t i, int64_t, int) {
    const Piece& piece = pieces[(size_t)i];
    convert_rows(*piece.plan, piece.begin, piece.end);
  });
}

// Tensors some files carry that follow from the config, or that a tied head makes superfluous.
bool known_superfluous(const std::string& name, const ModelConfig& config) {
  return name.ends_with("rotary_emb.inv_freq") || (config.tied_head && name == "lm_head.weight");
}

using Sources = std::map<std::string, const TensorSource*>;

Sources by_name(const std::vector<TensorSource>& sources) {
  Sources out;
  for (const TensorSource& s : sources)
    if (!out.emplace(s.name, &s).second) bad(s, "is there twice");
  return out;
}

// Opens files as they are met, each once.
class Files {
 public:
  explicit Files(Weights::Storage& storage) : storage_(storage) {}
  const FileMap& open(const std::string& path) {
    const FileMap*& file = files_[path];
    if (!file) {
      storage_.files.push_back(std::make_unique<FileMap>(path));
      file = storage_.files.back().get();
    }
    return *file;
  }

 private:
  Weights::Storage& storage_;
  std::map<std::string, const FileMap*> files_;
};

Plan make_plan(const Slot& slot, const TensorSource& source, Files& files, DType dtype) {
  const FileMap& file = files.open(source.file);
  check_place(source, slot, file);
  Plan p;
  p.slot = slot;
  p.source = &source;
  p.bytes = file.data() + source.offset;
  p.dtype = slot.matrix ? dtype : DType::F32;
  p.cols = slot.matrix ? slot.shape[1] : source.unpermute_heads > 0 ? 1 : slot.shape[0];
  p.rows = slot.values() / p.cols;
  return p;
}

std::vector<Plan> make_plans(Weights& w, Sources sources, Files& files, DType dtype,
                             const std::string& where) {
  std::vector<Plan> plans;
  for (const Slot& slot : parameter_slots(w)) {
    const auto found = sources.find(slot.name);
    OC_CHECK(found != sources.end(), Code::E_FILE, "%s: tensor %s: is missing", where.c_str(),
             slot.name.c_str());
    plans.push_back(make_plan(slot, *found->second, files, dtype));
    sources.erase(found);
  }
  for (const auto& [name, source] : sources)
    OC_CHECK(known_superfluous(name, w.config), Code::E_UNSUPPORTED,
             "%s: tensor %s: this decoder has no place for it", source->file.c_str(), name.c_str());
  return plans;
}

}  // namespace

std::shared_ptr<Weights> Weights::load(const ModelConfig& config, const std::vector<TensorSource>& sources,
                                       DType dtype, Lane& lane) {
  config.validate();
  OC_CHECK(dtype != DType::F16, Code::E_UNSUPPORTED,
           "weights: dtype f16 is not computed with; use f32 or bf16");
  OC_CHECK(!sources.empty(), Code::E_FILE, "weights: no tensors were named");
  auto out = std::make_shared<Weights>();
  out->config = config;
  Files files(*out->storage_);
  std::vector<Plan> plans = make_plans(*out, by_name(sources), files, dtype, sources.front().file);
  for (Plan& p : plans) {
    const uint64_t bytes = (uint64_t)p.slot.values() * (uint64_t)dtype_bytes(p.dtype);
    if (!usable_in_place(p)) p.to = out->storage_->allocate(bytes);
    p.slot.set(p.to ? p.to : p.bytes, p.dtype);
    out->resident_bytes += bytes;
  }
  convert_all(plans, lane);
  out->finish();
  return out;
}

}  // namespace openclaw
