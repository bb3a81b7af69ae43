#include <cstdlib>

#include "native/base/error.h"
#include "native/model/forward.h"

namespace openclaw {
namespace {

constexpr int64_t kLine = 16;                  // floats of 64 bytes
constexpr int64_t kSmallestSlab = 256 * 1024;  // floats

}  // namespace

float* Workspace::take(int64_t floats) {
  const int64_t n = (floats + kLine - 1) / kLine * kLine;
  while (slab_ < slabs_.size() && used_ + n > slabs_[slab_].second) slab_++, used_ = 0;
  if (slab_ == slabs_.size()) add_slab(n > kSmallestSlab ? n : kSmallestSlab);
  float* at = slabs_[slab_].first + used_;
  used_ += n;
  return at;
}

void Workspace::add_slab(int64_t floats) {
  float* data = (float*)aligned_alloc(64, (size_t)floats * sizeof(float));
  OC_CHECK(data, Code::E_MEMORY, "working memory: %lld bytes could not be had", (long long)floats * 4);
  slabs_.emplace_back(data, floats);
}

// Several slabs become one, so that the next pass of this size finds room in one piece.
void Workspace::reset() {
  slab_ = 0;
  used_ = 0;
  if (slabs_.size() < 2) return;
  int64_t all = 0;
  for (const auto& slab : slabs_) all += slab.second;
  release();
  add_slab(all);
}

void Workspace::release() {
  for (const auto& slab : slabs_) free(slab.first);
  slabs_.clear();
  slab_ = 0;
  used_ = 0;
}

Workspace::~Workspace() { release(); }

}  // namespace openclaw
