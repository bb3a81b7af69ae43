// Causal grouped-query attention in tiles of queries x keys (Dao et al., FlashAttention 2, arXiv 2307.08691):
// scores of a tile, weights with a running maximum and sum (Milakov & Gimelshein, arXiv 1805.02867), weighted
// values, and nothing of size T x T is ever stored. The products run on the tiles of gemm_simd.cc, the steps
// between on attention_simd.cc.
//
// A unit of work is one kv head (and, forward, one block of queries) with the H / G query heads that share
// it, so that keys and values are brought into the cache and packed once for all of them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "native/kernels/nn_simd.h"
#include "native/kernels/scratch.h"
#include "native/kernels/units.h"

namespace openclaw {
namespace {

constexpr int64_t kFewQueries = 4;   // up to here keys are not packed: dot products, as in decoding
constexpr int64_t kDecodeKeys = 64;  // keys between two updates of the running maximum in decoding
constexpr int64_t kDecodeRun = 16;   // keys taken at once: their values stay in the first-level cache

void check_heads(int64_t H, int64_t G, int64_t E) {
  OC_CHECK(H >= 1 && G >= 1 && H % G == 0, Code::E_SHAPE,
           "heads: expected H a multiple of G >= 1, got H = %lld, G = %lld", (long long)H, (long long)G);
  OC_CHECK(E >= 1, Code::E_SHAPE, "E: expected >= 1, got %lld", (long long)E);
}

// Rows that an inner product may read in whole vectors: `data` itself, or a padded copy when E is not a whole
// number of vectors.
struct Rows {
  const float* data;
  int64_t stride;
};

Rows whole_rows(const float* data, int64_t stride, int64_t n, int64_t E, float* copy, const GemmTable& t) {
  const int64_t width = round_up(E, t.lanes);
  if (width == E) return {data, stride};
  for (int64_t i = 0; i < n; i++) {
    std::copy_n(data + i * stride, E, copy + i * width);
    std::fill(copy + i * width + E, copy + (i + 1) * width, 0.f);
  }
  return {copy, width};
}

void pack_transposed(Rows rows, int64_t n, int64_t E, float* panels, const GemmTable& t) {
  for (int64_t i = 0; i < n; i += t.cols)
    t.pack_rows(rows.data + i * rows.stride, rows.stride, E, std::min<int64_t>(t.cols, n - i),
                panels + i * E);
}

// --- few queries: decoding ---------------------------------------------------------------------------------

const float* kv_row(float* const* side, const KvView& kv, int64_t t, int64_t g, int64_t E) {
  return side[t / kv.block] + (g * kv.block + t % kv.block) * E;
}

// Brings values of the next keys nearer while the scores of these are computed.
void fetch_values(const KvView& kv, int64_t from, int64_t to, int64_t g, int64_t E) {
  for (int64_t t = from; t < to; t++) {
    const float* row = kv_row(kv.v, kv, t, g, E);
    for (int64_t e = 0; e < E; e += 16) __builtin_prefetch(row + e);
  }
}

// One query's heads of group g. q, out: the group's first head. lse: of the group's first head, or null.
void decode_group(const float* q, float* out, const KvView& kv, int64_t length, int64_t group, int64_t g,
                  int64_t E, float scale, float* lse) {
  static thread_local Scratch scratch;
  const GemmTable& t = *nn_table().gemm;
  const AttentionTable& a = *nn_table().attention;
  const int64_t width = round_up(E, t.lanes);
  float* S = scratch.floats(group * (kDecodeKeys + width + E + 2) + kDecodeKeys * width);
  float *O = S + group * kDecodeKeys, *scaled = O + group * width, *m = scaled + group * E, *l = m + group,
        *copy = l + group;
  for (int64_t i = 0; i < group * E; i++) scaled[i] = q[i] * scale;
  std::fill_n(m, group, -INFINITY);
  for (int64_t t0 = 0; t0 < length; t0 += kDecodeKeys) {
    const int64_t n = std::min(kDecodeKeys, length - t0);
    auto each_run = [&](auto&& body) {  // short runs of keys inside one block of the cache
      for (int64_t i = 0; i < n;) {
        const int64_t run = std::min({n - i, kv.block - (t0 + i) % kv.block, kDecodeRun});
        body(i, run);
        i += run;
      }
    };
    each_run([&](int64_t i, int64_t run) {
      fetch_values(kv, t0 + i + kDecodeKeys, std::min(length, t0 + i + run + kDecodeKeys), g, E);
      for (int64_t h = 0; h < group; h += 8)
        t.dots_f32(scaled + h * E, E, std::min<int64_t>(8, group - h), kv_row(kv.k, kv, t0 + i, g, E), E, 0,
                   run, S + h * kDecodeKeys + i, kDecodeKeys, false);
    });
    for (int64_t h = 0; h < group; h++)
      a.softmax(S + h * kDecodeKeys, 0, 1, n, n, m + h, l + h, O + h * width, 0, width);
    each_run([&](int64_t i, int64_t run) {
      const Rows v = whole_rows(kv_row(kv.v, kv, t0 + i, g, E), E, run, E, copy, t);
      t.block(group, width, run, 1.f, S + i, kDecodeKeys, v.data, v.stride, t.cols, O, width, t0 + i > 0);
    });
  }
  a.normalise(O, width, l, group, E, out, E);
  for (int64_t h = 0; lse && h < group; h++) lse[h] = m[h] + std::log(l[h]);
}

// --- many queries ------------------------------------------------------------------------------------------

struct Tiles {
  int64_t queries, keys;
};

// Whole product tiles both ways; scores, keys and values of a tile together fit the second-level cache.
Tiles tiles_of(const GemmTable& t) { return {8 * t.rows, 96}; }

struct Forward {
  const float* q;
  int64_t ldq;
  KvView kv;
  int64_t start, count, H, G, E;
  float scale;
  float* out;
  int64_t ldo;
  float* lse;
};

// Keys or values [t0, t0 + n) of head g in one run of rows: in place, or copied when they lie in several
// blocks.
const float* one_run(float* const* side, const KvView& kv, int64_t t0, int64_t n, int64_t g, int64_t E,
                     float* copy) {
  if (t0 % kv.block + n <= kv.block) return kv_row(side, kv, t0, g, E);
  for (int64_t i = 0; i < n;) {
    const int64_t run = std::min(n - i, kv.block - (t0 + i) % kv.block);
    std::memcpy(copy + i * E, kv_row(side, kv, t0 + i, g, E), (size_t)(run * E) * sizeof(float));
    i += run;
  }
  return copy;
}

// Queries [i0, i0 + R) of all heads of group g.
void forward_block(const Forward& f, int64_t i0, int64_t R, int64_t g) {
  static thread_local Scratch scratch;
  const GemmTable& t = *nn_table().gemm;
  const AttentionTable& a = *nn_table().attention;
  const Tiles tiles = tiles_of(t);
  const int64_t group = f.H / f.G, width = round_up(f.E, t.lanes), lds = tiles.keys + t.lanes;
  float* S =
      scratch.floats(R * lds + tiles.keys * (3 * width + f.E) + t.cols * f.E + group * R * (width + 2));
  float *gathered = S + R * lds, *values = gathered + tiles.keys * f.E, *padded = values + tiles.keys * width;
  float *panels = padded + tiles.keys * width, *O = panels + (tiles.keys + t.cols) * f.E,
        *m = O + group * R * width;
  float* l = m + group * R;
  std::fill_n(m, group * R, -INFINITY);
  const int64_t end = f.start + i0 + R;  // keys the last query sees
  for (int64_t t0 = 0; t0 < end; t0 += tiles.keys) {
    const int64_t n = std::min(tiles.keys, end - t0);
    pack_transposed({one_run(f.kv.k, f.kv, t0, n, g, f.E, gathered), f.E}, n, f.E, panels, t);
    const Rows v = whole_rows(one_run(f.kv.v, f.kv, t0, n, g, f.E, values), f.E, n, f.E, padded, t);
    for (int64_t j = 0; j < group; j++) {
      float* Oj = O + j * R * width;
      t.block(R, n, f.E, f.scale, f.q + i0 * f.ldq + (g * group + j) * f.E, f.ldq, panels, t.cols,
              f.E * t.cols, S, lds, false);
      a.softmax(S, lds, R, n, f.start + i0 + 1 - t0, m + j * R, l + j * R, Oj, width, width);
      t.block(R, width, n, 1.f, S, lds, v.data, v.stride, t.cols, Oj, width, t0 > 0);
    }
  }
  for (int64_t j = 0; j < group; j++) {
    const int64_t h = g * group + j;
    a.normalise(O + j * R * width, width, l + j * R, R, f.E, f.out + i0 * f.ldo + h * f.E, f.ldo);
    for (int64_t i = 0; f.lse && i < R; i++)
      f.lse[(i0 + i) * f.H + h] = m[j * R + i] + std::log(l[j * R + i]);
  }
}

// --- backward ----------------------------------------------------------------------------------------------

struct Backward {
  const float *q, *k, *v, *out, *dout, *lse;
  int64_t ldq, ldk, ldv, ldo, lddo, T, H, G, E;
  float scale;
  float *dq, *dk, *dv;
  int64_t lddq, lddk, lddv;
};

// The tile buffers of one unit, all inside one scratch.
struct BackwardBuffers {
  float *S, *dP, *St, *dPt, *k_panels, *v_panels, *delta, *k_rows, *q_rows, *do_rows;
  int64_t lds, ldst;
};

BackwardBuffers backward_buffers(Scratch& scratch, const Tiles& tiles, const Backward& b,
                                 const GemmTable& t) {
  BackwardBuffers u;
  const int64_t width = round_up(b.E, t.lanes), group = b.H / b.G;
  u.lds = tiles.keys + t.lanes, u.ldst = tiles.queries + t.lanes;
  const int64_t sizes[] = {tiles.queries * u.lds, tiles.queries * u.lds,       tiles.keys * u.ldst,
                           tiles.keys * u.ldst,   (tiles.keys + t.cols) * b.E, (tiles.keys + t.cols) * b.E,
                           group * b.T,           tiles.keys * width,          tiles.queries * width,
                           tiles.queries * width};
  float** parts[] = {&u.S,        &u.dP,    &u.St,     &u.dPt,    &u.k_panels,
                     &u.v_panels, &u.delta, &u.k_rows, &u.q_rows, &u.do_rows};
  int64_t total = 0;
  for (int64_t size : sizes) total += round_up(size, 16);
  float* at = scratch.floats(total);
  for (int i = 0; i < 10; at += round_up(sizes[i], 16), i++) *parts[i] = at;
  return u;
}

// One tile: queries [i0, i0 + R) of head h against keys [t0, t0 + n).
//   P = exp(scale Q K^T - lse), dV += P^T dO, dP = dO V^T, dS = scale P (dP - delta), dQ += dS K, dK += dS^T
//   Q
void backward_tile(const Backward& b, const BackwardBuffers& u, Rows k, int64_t h, int64_t i0, int64_t R,
                   int64_t t0, int64_t n, const float* delta, bool first_queries, const GemmTable& t) {
  const AttentionTable& a = *nn_table().attention;
  const int64_t g = h / (b.H / b.G), E = b.E;
  const float *q = b.q + i0 * b.ldq + h * E, *dout = b.dout + i0 * b.lddo + h * E;
  t.block(R, n, E, b.scale, q, b.ldq, u.k_panels, t.cols, E * t.cols, u.S, u.lds, false);
  t.block(R, n, E, 1.f, dout, b.lddo, u.v_panels, t.cols, E * t.cols, u.dP, u.lds, false);
  a.backward(u.S, u.dP, u.lds, R, n, i0 + 1 - t0, b.lse + i0 * b.H + h, b.H, delta, b.scale);
  t.transpose(u.S, u.lds, R, n, u.St, u.ldst, false);
  t.transpose(u.dP, u.lds, R, n, u.dPt, u.ldst, false);
  const Rows do_rows = whole_rows(dout, b.lddo, R, E, u.do_rows, t),
             q_rows = whole_rows(q, b.ldq, R, E, u.q_rows, t);
  t.block(n, E, R, 1.f, u.St, u.ldst, do_rows.data, do_rows.stride, t.cols, b.dv + t0 * b.lddv + g * E,
          b.lddv, !first_queries);
  t.block(n, E, R, 1.f, u.dPt, u.ldst, q_rows.data, q_rows.stride, t.cols, b.dk + t0 * b.lddk + g * E, b.lddk,
          !first_queries);
  t.block(R, E, n, 1.f, u.dP, u.lds, k.data, k.stride, t.cols, b.dq + i0 * b.lddq + h * E, b.lddq, t0 > 0);
}

void backward_group(const Backward& b, int64_t g, Lane& lane) {
  static thread_local Scratch scratch;
  const GemmTable& t = *nn_table().gemm;
  const Tiles tiles = tiles_of(t);
  const BackwardBuffers u = backward_buffers(scratch, tiles, b, t);
  const int64_t group = b.H / b.G, E = b.E;
  for (int64_t j = 0; j < group; j++) {
    const int64_t column = (g * group + j) * E;
    nn_table().attention->row_dots(b.dout + column, b.lddo, b.out + column, b.ldo, b.T, E, u.delta + j * b.T);
  }
  for (int64_t t0 = 0; t0 < b.T; t0 += tiles.keys) {
    lane.yield_point();
    const int64_t n = std::min(tiles.keys, b.T - t0);
    const float *k = b.k + t0 * b.ldk + g * E, *v = b.v + t0 * b.ldv + g * E;
    pack_transposed({k, b.ldk}, n, E, u.k_panels, t);
    pack_transposed({v, b.ldv}, n, E, u.v_panels, t);
    const Rows k_rows = whole_rows(k, b.ldk, n, E, u.k_rows, t);
    bool first = true;
    for (int64_t i0 = t0; i0 < b.T; i0 += tiles.queries)  // earlier queries see none of these keys
      for (int64_t j = 0; j < group; j++, first = false)
        backward_tile(b, u, k_rows, g * group + j, i0, std::min(tiles.queries, b.T - i0), t0, n,
                      u.delta + j * b.T + i0, first, t);
  }
}

}  // namespace

void attention(const float* q, int64_t ldq, const KvView& kv, int64_t start, int64_t count, int64_t H,
               int64_t G, int64_t E, float scale, float* out, int64_t ldo, float* lse, Lane& lane) {
  check_heads(H, G, E);
  OC_CHECK(start >= 0 && count >= 0, Code::E_SHAPE, "start, count: expected >= 0, got %lld, %lld",
           (long long)start, (long long)count);
  if (count == 0) return;
  OC_CHECK(kv.block >= 1, Code::E_SHAPE, "kv.block: expected >= 1, got %lld", (long long)kv.block);
  const int64_t work = count * H * E * (2 * start + count);
  if (count <= kFewQueries)
    return for_units(lane, count * G, work, [&](int64_t unit) {
      const int64_t i = unit / G, g = unit % G, column = g * (H / G) * E;
      decode_group(q + i * ldq + column, out + i * ldo + column, kv, start + i + 1, H / G, g, E, scale,
                   lse ? lse + i * H + g * (H / G) : nullptr);
    });
  const Forward f{q, ldq, kv, start, count, H, G, E, scale, out, ldo, lse};
  const int64_t rows = tiles_of(*nn_table().gemm).queries, blocks = ceil_div(count, rows);
  for_units(lane, blocks * G, work, [&](int64_t unit) {
    const int64_t i0 = (blocks - 1 - unit / G) * rows;  // the longest first
    forward_block(f, i0, std::min(rows, count - i0), unit % G);
  });
}

void attention_decode(const DecodeQuery* queries, int64_t n, int64_t H, int64_t G, int64_t E, float scale,
                      Lane& lane) {
  check_heads(H, G, E);
  int64_t work = 0;
  for (int64_t i = 0; i < n; i++) {
    OC_CHECK(queries[i].length >= 1 && queries[i].kv.block >= 1, Code::E_SHAPE,
             "queries[%lld]: expected length >= 1 and a block size >= 1, got %lld and %lld", (long long)i,
             (long long)queries[i].length, (long long)queries[i].kv.block);
    work += 2 * H * E * queries[i].length;
  }
  for_units(lane, n * G, work, [&](int64_t unit) {
    const DecodeQuery& d = queries[unit / G];
    const int64_t g = unit % G, column = g * (H / G) * E;
    decode_group(d.q + column, d.out + column, d.kv, d.length, H / G, g, E, scale, nullptr);
  });
}

void attention_backward(const float* q, int64_t ldq, const float* k, int64_t ldk, const float* v, int64_t ldv,
                        const float* out, int64_t ldo, const float* dout, int64_t lddo, const float* lse,
                        int64_t T, int64_t H, int64_t G, int64_t E, float scale, float* dq, int64_t lddq,
                        float* dk, int64_t lddk, float* dv, int64_t lddv, Lane& lane) {
  check_heads(H, G, E);
  OC_CHECK(T >= 0, Code::E_SHAPE, "T: expected >= 0, got %lld", (long long)T);
  const Backward b{q, k, v, out, dout,  lse, ldq, ldk, ldv,  ldo,  lddo,
                   T, H, G, E,   scale, dq,  dk,  dv,  lddq, lddk, lddv};
  for_units(lane, G, 5 * H * E * T * T / 2, [&](int64_t g) { backward_group(b, g, lane); });
}

}  // namespace openclaw
