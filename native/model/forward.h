// The forward pass over KV-cached chunks: what serving and scoring use. Training has its own pass that keeps
// activations (train.h); both call the same layer code where they can.
#pragma once
#include "native/model/weights.h"

namespace openclaw {

// One sequence's new tokens. KV blocks for positions 0..start+count-1 must exist; the pass writes K and V for
// the new positions and reads those before. kv.k/kv.v of layer l are blocks[l*2], blocks[l*2+1] as arrays of
// block pointers.
struct Chunk {
  const int32_t* ids = nullptr;
  int64_t count = 0;  // new tokens, >= 1
  int64_t start = 0;  // position of ids[0]
  // [layers][2] arrays of block pointers (k at [l][0], v at [l][1]); token t of kv head g lies at block[t /
  // B] + (g*B + t % B)*E
  float* const* const* blocks = nullptr;
  int64_t block = 0;      // B
  int64_t want_from = 0;  // rows of final hidden states wanted: chunk-local indices want_from..count-1
                          // (want_from == count: none)
};

// Scratch that grows to the largest pass seen and is then reused; one per calling thread.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();
  float* take(int64_t floats);  // 64-byte aligned, not initialised, valid until reset(); throws E_MEMORY
  void reset();
  void release();  // reset, and give the memory back

 private:
  void add_slab(int64_t floats);
  std::vector<std::pair<float*, int64_t>> slabs_;
  size_t slab_ = 0;
  int64_t used_ = 0;
};

// Runs all chunks as one batch of M = sum(count) rows. hidden: [sum(count - want_from), D] out, final-normed,
// in chunk order (may be null when nothing is wanted). The workspace is reset first. Throws E_ARGUMENT,
// E_TOKEN_ID, E_CONTEXT (a position beyond config.context), E_MEMORY.
void forward(const Snapshot& s, const Chunk* chunks, int64_t n, float* hidden, Workspace& ws, Lane& lane);

// logits [rows, V] = hidden [rows, D] head^T.
void head_logits(const Weights& w, const float* hidden, int64_t rows, float* logits, Lane& lane);

}  // namespace openclaw
