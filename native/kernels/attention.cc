// Attention.
#include "native/kernels/nn.h"

#include <cmath>
#include <vector>

#include "native/base/error.h"

namespace openclaw {
namespace {

// One query against `length` keys and values; kv head g.
void attend(const float* q, const KvView& kv, int64_t length, int64_t g, int64_t E, float scale, float* out,
            float* lse) {
  std::vector<double> p((size_t)length), sum((size_t)E);
  double most = -INFINITY, total = 0;
  auto row = [&](float* const* side, int64_t t) {
    return side[t / kv.block] + (g * kv.block + t % kv.block) * E;
  };
  for (int64_t t = 0; t < length; t++) {
    double s = 0;
    for (int64_t e = 0; e < E; e++) s += (double)q[e] * row(kv.k, t)[e];
    p[(size_t)t] = s * scale;
    most = std::fmax(most, p[(size_t)t]);
  }
  for (int64_t t = 0; t < length; t++) {
    double weight = std::exp(p[(size_t)t] - most);
    total += weight;
    for (int64_t e = 0; e < E; e++) sum[(size_t)e] += weight * row(kv.v, t)[e];
  }
  for (int64_t e = 0; e < E; e++) out[e] = (float)(sum[(size_t)e] / total);
  if (lse) *lse = (float)(most + std::log(total));
}

}  // namespace

void attention(const float* q, int64_t ldq, const KvView& kv, int64_t start, int64_t count, int64_t H,
               int64_t G, int64_t E, float scale, float* out, int64_t ldo, float* lse, Lane&) {
  for (int64_t i = 0; i < count; i++)
    for (int64_t h = 0; h < H; h++)
      attend(q + i * ldq + h * E, kv, start + i + 1, h / (H / G), E, scale, out + i * ldo + h * E,
             lse ? lse + i * H + h : nullptr);
}

// P = exp(S - lse), dV = P^T dO, dP = dO V^T, dS = P * (dP - rowsum(dO * O)), dQ = scale dS K, dK = scale
// dS^T Q.
void attention_backward(const float* q, int64_t ldq, const float* k, int64_t ldk, const float* v, int64_t ldv,
                        const float* out, int64_t ldo, const float* dout, int64_t lddo, const float* lse,
                        int64_t T, int64_t H, int64_t G, int64_t E, float scale, float* dq, int64_t lddq,
                        float* dk, int64_t lddk, float* dv, int64_t lddv, Lane&) {
  std::vector<double> gk((size_t)(T * G * E)), gv((size_t)(T * G * E)), gq((size_t)E);
  for (int64_t i = 0; i < T; i++)
    for (int64_t h = 0; h < H; h++) {
      int64_t g = h / (H / G);
      const float *qi = q + i * ldq + h * E, *oi = out + i * ldo + h * E, *doi = dout + i * lddo + h * E;
      double delta = 0;
      for (int64_t e = 0; e < E; e++) delta += (double)doi[e] * oi[e], gq[(size_t)e] = 0;
      for (int64_t t = 0; t <= i; t++) {
        const float *kt = k + t * ldk + g * E, *vt = v + t * ldv + g * E;
        double s = 0, dp = 0;
        for (int64_t e = 0; e < E; e++) s += (double)qi[e] * kt[e], dp += (double)doi[e] * vt[e];
        double p = std::exp(s * scale - lse[i * H + h]), ds = p * (dp - delta) * scale;
        for (int64_t e = 0; e < E; e++) {
          gq[(size_t)e] += ds * kt[e];
          gk[(size_t)((t * G + g) * E + e)] += ds * qi[e];
          gv[(size_t)((t * G + g) * E + e)] += p * doi[e];
        }
      }
      for (int64_t e = 0; e < E; e++) dq[i * lddq + h * E + e] = (float)gq[(size_t)e];
    }
  for (int64_t t = 0; t < T; t++)
    for (int64_t e = 0; e < G * E; e++) {
      dk[t * lddk + e] = (float)gk[(size_t)(t * G * E + e)];
      dv[t * lddv + e] = (float)gv[(size_t)(t * G * E + e)];
    }
}

void attention_decode(const DecodeQuery* queries, int64_t n, int64_t H, int64_t G, int64_t E, float scale,
                      Lane& lane) {
  lane.parallel_for(n * H, 1, [&](int64_t i, int64_t, int) {
    const DecodeQuery& d = queries[i / H];
    int64_t h = i % H;
    attend(d.q + h * E, d.kv, d.length, h / (H / G), E, scale, d.out + h * E, nullptr);
  });
}

}  // namespace openclaw
