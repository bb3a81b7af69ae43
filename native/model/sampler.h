// From logits to one token: temperature, top-k, top-p, in that order (as Hugging Face's warpers are ordered),
// and the log-prob that is recorded for it.
//
// The recorded log-prob is that of the full softmax at temperature 1 over all V rows of the head, whatever
// the sampling parameters, padding rows included: l(id) - logsumexp(l). It is what the trainer computes again
// (method.md §10.5). Rows >= sampleable are never chosen.
//
// Randomness is a counter: token `index` of a request uses a hash of (seed, index), so a request gives the
// same tokens whoever else is in the batch, and after it was interrupted and taken up again.
#pragma once
#include <cstdint>
#include <vector>

namespace openclaw {

struct Sampling {
  float temperature = 1;  // >= 0; 0 = the most likely id, ties to the lowest
  float top_p = 1;        // (0, 1]; the smallest set of most likely ids whose probability reaches it (1: all)
  int64_t top_k = 0;      // the k most likely ids (0: all)
  uint64_t seed = 0;
};
// Throws E_ARGUMENT naming the field.
void validate(const Sampling& sampling);

struct Sampled {
  int32_t id;
  float logprob;
};

// Buffers kept between calls; one per thread.
struct SamplerScratch {
  std::vector<float> weights;
  std::vector<int32_t> order;
};

// logits [V]; 1 <= sampleable <= V. Throws E_NOT_FINITE when the logits have a NaN or +infinity.
Sampled sample(const float* logits, int64_t vocab, int64_t sampleable, const Sampling& sampling,
               uint64_t index, SamplerScratch& scratch);

// Uniform in [0, 1), 53 bits.
double counter_uniform(uint64_t seed, uint64_t index);

}  // namespace openclaw
