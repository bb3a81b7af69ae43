// Attention against the double reference: every head width, grouping, block size and length; decoding; the
// backward pass.
#include "test/native/nn_reference.h"
#include "test/native/nn_support.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

// Keys and values in blocks, filled with NaN where there is no token: a read beyond the length shows.
struct Cache {
  std::vector<Floats> blocks;
  std::vector<float*> k, v;
  KvView view;
};

Cache make_cache(const Floats& k, const Floats& v, int64_t T, int64_t G, int64_t E, int64_t B) {
  Cache c;
  const int64_t n = (T + B - 1) / B;
  c.blocks.assign((size_t)(2 * n), Floats((size_t)(B * G * E), NAN));
  for (int64_t b = 0; b < n; b++)
    c.k.push_back(c.blocks[2 * b].data()), c.v.push_back(c.blocks[2 * b + 1].data());
  for (int64_t t = 0; t < T; t++)
    for (int64_t g = 0; g < G; g++)
      for (int64_t e = 0; e < E; e++) {
        const int64_t at = (g * B + t % B) * E + e;
        c.k[t / B][at] = k[(t * G + g) * E + e];
        c.v[t / B][at] = v[(t * G + g) * E + e];
      }
  c.view = {c.k.data(), c.v.data(), B};
  return c;
}

struct Shape {
  int64_t T, H, G, E;
  float scale() const { return 1 / std::sqrt((float)E); }
};

void check_forward(const Shape& s, const Cache& c, const Floats& q, int64_t start) {
  const int64_t count = s.T - start, width = s.H * s.E, ldq = width + 1;
  Floats expected(count * width), expected_lse(count * s.H), lse(count * s.H);
  reference::attention(q.data(), ldq, c.view, start, count, s.H, s.G, s.E, s.scale(), expected.data(), width,
                       expected_lse.data());
  const Floats out = same_bits(expected, [&](Floats& o, Lane& lane) {
    std::fill(o.begin(), o.end(), NAN);
    attention(q.data(), ldq, c.view, start, count, s.H, s.G, s.E, s.scale(), o.data(), width, lse.data(),
              lane);
  });
  CHECK_NEAR(worst(out, expected), 0, 1e-5);
  CHECK_NEAR(worst(lse, expected_lse), 0, 1e-5);

  Floats decoded(count * width, NAN);
  std::vector<DecodeQuery> queries;
  for (int64_t i = 0; i < count; i++)
    queries.push_back({q.data() + i * ldq, decoded.data() + i * width, c.view, start + i + 1});
  attention_decode(queries.data(), count, s.H, s.G, s.E, s.scale(), two_threads());
  CHECK_NEAR(worst(decoded, expected), 0, 1e-5);
}

void check_shape(const Shape& s, const std::vector<int64_t>& block_sizes) {
  const Floats q = normals(s.T * (s.H * s.E + 1)), k = normals(s.T * s.G * s.E), v = normals(s.T * s.G * s.E);
  for (int64_t B : block_sizes) {
    const Cache c = make_cache(k, v, s.T, s.G, s.E, B);
    check_forward(s, c, q, 0);
    if (s.T > 1) check_forward(s, c, q, s.T / 2);
  }
}

struct Gradients {
  Floats dq, dk, dv;
};

Gradients gradients(const Shape& s, const Floats& q, const Floats& k, const Floats& v, const Floats& out,
                    const Floats& dout, const Floats& lse, Lane* lane) {
  const int64_t a = s.H * s.E, b = s.G * s.E;
  Gradients r{Floats(s.T * (a + 1), 7.f), Floats(s.T * (b + 2), 7.f), Floats(s.T * (b + 3), 7.f)};
  if (lane)
    attention_backward(q.data(), a, k.data(), b, v.data(), b, out.data(), a, dout.data(), a, lse.data(), s.T,
                       s.H, s.G, s.E, s.scale(), r.dq.data(), a + 1, r.dk.data(), b + 2, r.dv.data(), b + 3,
                       *lane);
  else
    reference::attention_backward(q.data(), a, k.data(), b, v.data(), b, out.data(), a, dout.data(), a,
                                  lse.data(), s.T, s.H, s.G, s.E, s.scale(), r.dq.data(), a + 1, r.dk.data(),
                                  b + 2, r.dv.data(), b + 3);
  return r;
}

void check_backward(const Shape& s) {
  const int64_t a = s.H * s.E, b = s.G * s.E;
  const Floats q = normals(s.T * a), k = normals(s.T * b), v = normals(s.T * b), dout = normals(s.T * a);
  Floats out(s.T * a), lse(s.T * s.H);
  const Cache c = make_cache(k, v, s.T, s.G, s.E, s.T);
  reference::attention(q.data(), a, c.view, 0, s.T, s.H, s.G, s.E, s.scale(), out.data(), a, lse.data());
  const Gradients expected = gradients(s, q, k, v, out, dout, lse, nullptr);
  const Gradients one = gradients(s, q, k, v, out, dout, lse, &one_thread());
  const Gradients two = gradients(s, q, k, v, out, dout, lse, &two_threads());
  CHECK(one.dq == two.dq && one.dk == two.dk && one.dv == two.dv);
  CHECK_NEAR(worst(one.dq, expected.dq), 0, 5e-5);
  CHECK_NEAR(worst(one.dk, expected.dk), 0, 5e-5);
  CHECK_NEAR(worst(one.dv, expected.dv), 0, 5e-5);
}

void test_forward() {
  test_levels("forward and decoding: every head width", [] {
    for (int64_t E : {16, 20, 24, 32, 48, 64, 80, 96, 128}) check_shape({70, 4, 2, E}, {16, 512});
  });
  test_levels("forward and decoding: groupings", [] {
    for (int64_t G : {1, 3})
      for (int64_t group : {1, 2, 5, 9}) check_shape({21, G * group, G, 16}, {8, 64});
  });
  test_levels("forward and decoding: lengths around the tiles, odd blocks", [] {
    for (int64_t T : {1, 2, 4, 5, 47, 48, 49, 97, 230}) check_shape({T, 2, 1, 24}, {7, 16, 256});
  });
  test_levels("scores far apart and infinite weights do not spoil the sum", [] {
    Shape s{40, 1, 1, 16};
    Floats q = normals(40 * 17, 60), k = normals(40 * 16, 60), v = normals(40 * 16);
    check_forward(s, make_cache(k, v, 40, 1, 16, 16), q, 0);
  });
  test_levels("a NaN key reaches only the queries that see it", [] {
    Shape s{20, 1, 1, 16};
    Floats q = normals(20 * 16), k = normals(20 * 16), v = normals(20 * 16), out(20 * 16);
    k[10 * 16] = NAN;
    const Cache c = make_cache(k, v, 20, 1, 16, 32);
    attention(q.data(), 16, c.view, 0, 20, 1, 1, 16, s.scale(), out.data(), 16, nullptr, one_thread());
    for (int64_t i = 0; i < 20 * 16; i++) CHECK(std::isnan(out[i]) == (i >= 10 * 16));
  });
}

void test_backward() {
  test_levels("backward: head widths and groupings", [] {
    for (int64_t E : {16, 20, 24, 48, 64, 128}) check_backward({60, 4, 2, E});
    check_backward({30, 9, 3, 16});
    check_backward({30, 5, 1, 16});
  });
  test_levels("backward: lengths around the tiles", [] {
    for (int64_t T : {1, 2, 47, 48, 49, 95, 97, 200}) check_backward({T, 2, 1, 16});
  });
  test("backward is the slope of attention", [] {
    const Shape s{9, 2, 1, 6};
    const int64_t a = s.H * s.E, b = s.G * s.E;
    Floats q = normals(s.T * a), k = normals(s.T * b), v = normals(s.T * b), out(s.T * a), lse(s.T * s.H);
    const Floats dout = normals(s.T * a);
    auto loss = [&] {
      const Cache c = make_cache(k, v, s.T, s.G, s.E, 16);
      attention(q.data(), a, c.view, 0, s.T, s.H, s.G, s.E, s.scale(), out.data(), a, lse.data(),
                one_thread());
      return dot(out, dout);
    };
    loss();
    Gradients d{Floats(s.T * a), Floats(s.T * b), Floats(s.T * b)};
    attention_backward(q.data(), a, k.data(), b, v.data(), b, out.data(), a, dout.data(), a, lse.data(), s.T,
                       s.H, s.G, s.E, s.scale(), d.dq.data(), a, d.dk.data(), b, d.dv.data(), b,
                       one_thread());
    for (size_t i = 0; i < q.size(); i += 5) CHECK_NEAR(slope(q, i, loss), d.dq[i], 3e-3);
    for (size_t i = 0; i < k.size(); i += 3) CHECK_NEAR(slope(k, i, loss), d.dk[i], 3e-3);
    for (size_t i = 0; i < v.size(); i += 3) CHECK_NEAR(slope(v, i, loss), d.dv[i], 3e-3);
  });
}

}  // namespace

int main() {
  test_forward();
  test_backward();
  test("bad shapes are refused", [] {
    Floats x(64);
    float* block = x.data();
    const KvView kv{&block, &block, 1};
    CHECK_THROWS(E_SHAPE, attention(x.data(), 4, kv, 0, 1, 3, 2, 4, 1, x.data(), 4, nullptr, one_thread()));
    const DecodeQuery empty{x.data(), x.data(), kv, 0};
    CHECK_THROWS(E_SHAPE, attention_decode(&empty, 1, 1, 1, 4, 1, one_thread()));
  });
  return summary();
}
