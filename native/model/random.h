// Random numbers by counter: value `index` of a stream depends on (seed, stream, index) alone, so weights and
// adapters are the same on every machine, whatever the order they are filled in. The mixer is SplitMix64's
// (Steele et al., 2014).
#pragma once
#include <cmath>
#include <cstdint>

namespace openclaw {

inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t stream) : key_(mix64(mix64(seed) ^ stream)) {}

  // In (0, 1), 53 bits.
  double uniform(uint64_t index) const { return ((double)(mix64(key_ ^ index) >> 11) + 0.5) * 0x1p-53; }

  // Standard normal (Box and Muller).
  double normal(uint64_t index) const {
    return std::sqrt(-2 * std::log(uniform(2 * index))) *
           std::cos(6.283185307179586 * uniform(2 * index + 1));
  }

 private:
  uint64_t key_;
};

}  // namespace openclaw
