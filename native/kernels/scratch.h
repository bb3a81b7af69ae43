// Working memory of a driver: one buffer per thread and place of use, grown on demand and kept. Callers bound
// the size they ask for, so a thread keeps a few MiB at most.
#pragma once
#include <cstdint>
#include <cstdlib>

#include "native/base/error.h"

namespace openclaw {

class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least n floats, at a multiple of 64 bytes; what was in them is lost when the buffer grows.
  float* floats(int64_t n) {
    if (n <= size_) return data_;
    free(data_);
    data_ = nullptr, size_ = 0;
    const size_t bytes = ((size_t)n * sizeof(float) + 4095) / 4096 * 4096;
    data_ = (float*)aligned_alloc(64, bytes);
    OC_CHECK(data_, Code::E_MEMORY, "working memory: %zu bytes could not be had", bytes);
    size_ = (int64_t)(bytes / sizeof(float));
    return data_;
  }

 private:
  float* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace openclaw
