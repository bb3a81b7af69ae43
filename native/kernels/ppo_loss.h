// The clipped policy-gradient loss on log-probs, and the k3 estimate of a KL divergence.
//
//   d = clamp(l_cur - l_old, -20, 20)    ρ = exp(d)
//   L = max(u, c)    u = -A ρ    c = -A clip(ρ, 1 - ε_lo, 1 + ε_hi) (method.md §3, §4) ∂L/∂l_cur = u where u
//   >= c, else 0; and 0 where the exponent was clamped (ρ is constant there).
// The clip bites (c > u) exactly when ρ < 1 - ε_lo and A < 0, or ρ > 1 + ε_hi and A > 0; only then it is
// counted. With ρ = 1 the gradient is -A: REINFORCE.
//
//   k3 = exp(d) - 1 - d,  d = clamp(l_ref - l_cur, -20, 20);   ∂k3/∂l_cur = 1 - exp(d), 0 where clamped
//   (Schulman; method.md §5)
//
// Arithmetic is double inside, f32 at the borders: these touch T or T k numbers, exactness is what matters,
// and the plain code is the only code.
//
// Properties tested: against the formulas written out; finite differences; ρ = 1; masked positions; clip
// counts by case.
#pragma once
#include <cmath>
#include <cstdint>

namespace openclaw {

constexpr double kMaxExponent = 20;  // every ratio clamps its exponent to ±20

struct Clip {
  float eps_low = 0.2f, eps_high = 0.28f;
};

struct ClipCounts {
  int64_t low = 0, high = 0;     // the clip bit: ρ < 1 - ε_lo (A < 0), ρ > 1 + ε_hi (A > 0)
  int64_t exponent_clamped = 0;  // |l_cur - l_old| > 20
  void add(const ClipCounts& o) { low += o.low, high += o.high, exponent_clamped += o.exponent_clamped; }
};

struct PpoTerm {
  double loss, grad, ratio;
};

// One position (or one id of the top k, with A = A_v).
inline PpoTerm ppo_term(double l_cur, double l_old, double A, const Clip& clip, ClipCounts& counts) {
  double d = l_cur - l_old;
  const bool clamped = d > kMaxExponent || d < -kMaxExponent;
  if (clamped) d = d > 0 ? kMaxExponent : -kMaxExponent, counts.exponent_clamped++;
  const double ratio = std::exp(d), lowest = 1 - (double)clip.eps_low, highest = 1 + (double)clip.eps_high;
  const double bounded = ratio < lowest ? lowest : ratio > highest ? highest : ratio;
  const double u = -A * ratio, c = -A * bounded;
  if (c > u) {
    (ratio < lowest ? counts.low : counts.high)++;
    return {c, 0, ratio};
  }
  return {u, clamped ? 0 : u, ratio};
}

struct K3Term {
  double loss, grad;
};

inline K3Term k3_term(double l_cur, double l_ref) {
  double d = l_ref - l_cur;
  const bool clamped = d > kMaxExponent || d < -kMaxExponent;
  if (clamped) d = d > 0 ? kMaxExponent : -kMaxExponent;
  const double e = std::expm1(d);  // exp(d) - 1 without cancellation near d = 0
  return {e - d, clamped ? 0 : -e};
}

struct PpoBatch {
  int64_t rows = 0;
  const float *l_cur = nullptr, *l_old = nullptr, *advantage = nullptr;  // [T]
  const float* mask = nullptr;  // [T] 0 = counts nowhere; null = all count
};
struct PpoOut {
  float *loss = nullptr,
        *grad = nullptr;  // [T], unscaled: ∂L_i/∂l_cur(y_i); 0 where masked; null = not wanted
};
struct PpoReport {
  double loss = 0, ratio = 0;  // means over unmasked positions; 0 without any
  int64_t tokens = 0;
  ClipCounts clip;
};
PpoReport ppo_loss(const PpoBatch& in, const Clip& clip, const PpoOut& out);

}  // namespace openclaw
