// What stands behind Weights' pointers, and the list of its parameters: for those that make, fill or train
// them.
#pragma once
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "native/model/file_map.h"
#include "native/model/weights.h"

namespace openclaw {

struct Weights::Storage {
  struct Free {
    void operator()(void* p) const { free(p); }
  };
  std::vector<std::unique_ptr<void, Free>> buffers;
  std::vector<std::unique_ptr<FileMap>> files;

  // At a multiple of 64 bytes; not initialised. Throws E_MEMORY.
  void* allocate(uint64_t bytes);
};

// One parameter and where its pointer goes: a matrix, or a vector that is always f32.
struct Slot {
  std::string name;  // Hugging Face's
  std::vector<int64_t> shape;
  Matrix* matrix = nullptr;
  const float** vector = nullptr;
  bool residual = false;  // writes to the residual stream: o_proj, down_proj

  int64_t values() const { return shape.size() == 2 ? shape[0] * shape[1] : shape[0]; }
  const void* data() const { return matrix ? matrix->data : *vector; }
  DType dtype() const { return matrix ? matrix->dtype : DType::F32; }
  // Points the weights at `data`.
  void set(const void* data, DType dtype) const;
};

// Every parameter w.config calls for, in one fixed order; w.layers is sized. A tied head is no parameter of
// its own: after the slots are set, `tie_head` points it at the embedding.
std::vector<Slot> parameter_slots(Weights& w);
void tie_head(Weights& w);

}  // namespace openclaw
