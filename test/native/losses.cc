// The losses against the formulas of the method written out anew, finite differences, and their properties.
#include "native/kernels/hybrid_loss.h"
#include "test/native/check.h"
#include "test/native/rl_random.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

// --- the formulas, as functions of the current log-probs alone

double clamp(double x, double lo, double hi) { return std::min(std::max(x, lo), hi); }

double ppo_formula(double l_cur, double l_old, double A, const Clip& c) {
  const double rho = std::exp(clamp(l_cur - l_old, -20, 20));
  return std::max(-A * rho, -A * clamp(rho, 1 - (double)c.eps_low, 1 + (double)c.eps_high));
}

double k3_formula(double l_cur, double l_ref) {
  const double d = clamp(l_ref - l_cur, -20, 20);
  return std::exp(d) - 1 - d;
}

double opd_formula(const std::vector<double>& l_cur, const std::vector<float>& l_old,
                   const std::vector<float>& l_T, const std::vector<int32_t>& ids, const OpdParams& p) {
  double sum = 0, loss = 0;
  for (size_t v = 0; v < ids.size(); v++)
    if (ids[v] >= 0) sum += std::exp((double)l_old[v]);
  for (size_t v = 0; v < ids.size(); v++) {
    if (ids[v] < 0) continue;
    const double delta = clamp((double)l_T[v] - l_old[v], -p.delta_clip, p.delta_clip);
    loss += ppo_formula(l_cur[v], l_old[v], delta * std::exp((double)l_old[v]) / sum, p.clip);
  }
  return loss;
}

std::vector<float> logprobs(int64_t n, Random& random) {
  std::vector<float> out((size_t)n);
  for (float& x : out) x = -random.uniform(0.01f, 6);
  return out;
}

// Near what it was, as after one step; now and then far off.
std::vector<float> moved(const std::vector<float>& from, Random& random) {
  std::vector<float> out = from;
  for (float& x : out) x = std::min(-0.001f, x + random.normal(random.chance(10) ? 10.f : 0.3f));
  return out;
}

bool near_a_kink(double l_cur, double l_old, const Clip& c) {
  const double d = l_cur - l_old;
  const double kinks[] = {std::log(1 - (double)c.eps_low), std::log(1 + (double)c.eps_high), 20, -20};
  for (double kink : kinks)
    if (std::fabs(d - kink) < 1e-3) return true;
  return false;
}

void check_gradient(double gradient, const std::function<double(double)>& loss, double at, double scale = 1) {
  const double h = 1e-6, slope = (loss(at + h) - loss(at - h)) / (2 * h);
  CHECK_NEAR(gradient, slope, 1e-5 * std::max({1.0, std::fabs(slope), scale}));
}

// --- ppo

void test_ppo() {
  Random random(1);
  const int64_t T = 400;
  const std::vector<float> l_old = logprobs(T, random), l_cur = moved(l_old, random), A = random.normals(T);
  std::vector<float> loss((size_t)T), grad((size_t)T);
  const Clip clip;
  const PpoReport r =
      ppo_loss({T, l_cur.data(), l_old.data(), A.data(), nullptr}, clip, {loss.data(), grad.data()});
  double mean = 0;
  for (size_t t = 0; t < (size_t)T; t++) {
    mean += ppo_formula(l_cur[t], l_old[t], A[t], clip) / T;
    CHECK_NEAR(loss[t], ppo_formula(l_cur[t], l_old[t], A[t], clip),
               1e-6 * std::max(1.f, std::fabs(loss[t])));
    if (!near_a_kink(l_cur[t], l_old[t], clip))
      check_gradient(
          grad[t], [&](double l) { return ppo_formula(l, l_old[t], A[t], clip); }, l_cur[t]);
  }
  CHECK_NEAR(r.loss, mean, 1e-9 * std::max(1.0, std::fabs(mean)));
  CHECK(r.tokens == T);
}

void test_ppo_cases() {
  const Clip clip;
  ClipCounts n;
  CHECK(ppo_term(-1, -1, 2, clip, n).grad == -2);  // ratio 1: REINFORCE
  CHECK(ppo_term(-1, -1, -2, clip, n).grad == 2);
  CHECK(ppo_term(-0.5, -1, 1, clip, n).grad == 0);  // up beyond the clip, praised
  CHECK(n.high == 1 && n.low == 0);
  CHECK(ppo_term(-1.5, -1, -1, clip, n).grad == 0);  // down beyond the clip, blamed
  CHECK(n.low == 1);
  CHECK(ppo_term(-0.5, -1, -1, clip, n).grad > 0);  // up, blamed: pushed back
  CHECK(ppo_term(-1.5, -1, 1, clip, n).grad < 0);
  CHECK(n.low == 1 && n.high == 1 && n.exponent_clamped == 0);
  const PpoTerm far = ppo_term(-1, -40, -1, clip, n);  // the exponent is clamped: flat
  CHECK(far.grad == 0 && n.exponent_clamped == 1);
  CHECK_NEAR(far.ratio / std::exp(20.0), 1, 1e-12);
  CHECK(ppo_term(-3, -1, 0, clip, n).grad == 0);
}

void test_k3() {
  Random random(2);
  for (int i = 0; i < 200; i++) {
    const double l_cur = -random.uniform(0.01f, 8), l_ref = -random.uniform(0.01f, 8);
    const K3Term term = k3_term(l_cur, l_ref);
    CHECK_NEAR(term.loss, k3_formula(l_cur, l_ref), 1e-12 * std::max(1.0, term.loss));
    CHECK(term.loss >= 0);
    check_gradient(
        term.grad, [&](double l) { return k3_formula(l, l_ref); }, l_cur, term.loss);
  }
  CHECK(k3_term(-2, -2).loss == 0 && k3_term(-2, -2).grad == 0);
  CHECK(k3_term(-1e-9, 0).loss >= 0);  // no cancellation
}

// --- opd

struct Row {
  std::vector<int32_t> ids;
  std::vector<float> l_cur, l_old, l_T;
};

Row random_row(int64_t k, Random& random) {
  Row row;
  row.ids = random.ids(k, 1000, -200);
  row.l_old = logprobs(k, random), row.l_cur = moved(row.l_old, random), row.l_T = logprobs(k, random);
  return row;
}

double opd_of(const Row& row, const OpdParams& p, std::vector<float>* grad = nullptr,
              OpdCounts* counts = nullptr) {
  OpdCounts mine;
  if (grad) grad->assign(row.ids.size(), -9);
  return opd_row(row.ids.data(), row.l_cur.data(), row.l_old.data(), row.l_T.data(), (int64_t)row.ids.size(),
                 p, 1, grad ? grad->data() : nullptr, counts ? *counts : mine);
}

void test_opd() {
  Random random(3);
  for (int i = 0; i < 100; i++) {
    const Row row = random_row(1 + random.below(20), random);
    const OpdParams p{Clip{}, random.chance(2) ? 1.f : 2.f};
    std::vector<float> grad;
    const double loss = opd_of(row, p, &grad);
    const std::vector<double> l_cur(row.l_cur.begin(), row.l_cur.end());
    const double expected = opd_formula(l_cur, row.l_old, row.l_T, row.ids, p);
    CHECK_NEAR(loss, expected, 1e-9 * std::max(1.0, std::fabs(expected)));
    for (size_t v = 0; v < row.ids.size(); v++) {
      if (row.ids[v] < 0) CHECK(grad[v] == 0);
      if (near_a_kink(row.l_cur[v], row.l_old[v], p.clip)) continue;
      auto at = [&](double l) {
        std::vector<double> changed = l_cur;
        changed[v] = l;
        return opd_formula(changed, row.l_old, row.l_T, row.ids, p);
      };
      check_gradient(grad[v], at, row.l_cur[v], std::fabs(expected));
    }
  }
}

void test_opd_properties() {
  Random random(4);
  const OpdParams p;
  for (int i = 0; i < 50; i++) {
    Row row = random_row(8, random);
    const double loss = opd_of(row, p);
    Row reversed = row;
    for (auto* list : {&reversed.l_cur, &reversed.l_old, &reversed.l_T})
      std::reverse(list->begin(), list->end());
    std::reverse(reversed.ids.begin(), reversed.ids.end());
    CHECK_NEAR(opd_of(reversed, p), loss, 1e-12 * std::max(1.0, std::fabs(loss)));
    Row padded = row;
    padded.ids.push_back(-1), padded.l_cur.push_back(NAN), padded.l_old.push_back(NAN),
        padded.l_T.push_back(NAN);
    CHECK(opd_of(padded, p) == loss);
    Row agreeing = row;
    agreeing.l_T = agreeing.l_old;
    CHECK(opd_of(agreeing, p) == 0);
  }
  Row nothing = random_row(4, random);
  nothing.ids.assign(4, -1);
  CHECK(opd_of(nothing, p) == 0);
}

void test_opd_counts() {
  const Row row{{1, 2, -1}, {-1, -1, -1}, {-1, -1, -1}, {-5, -1.5f, -1}};
  OpdCounts counts;
  opd_of(row, OpdParams{}, nullptr, &counts);
  CHECK(counts.entries == 2 && counts.delta_clipped == 1);
}

// --- hybrid

struct Batch {
  std::vector<int32_t> offsets, ids;
  std::vector<uint8_t> reward, hint;
  std::vector<float> mask, l_cur, l_old, A, l_ref, top_cur, top_old, top_T;
  int64_t k = 4;

  explicit Batch(Random& random) {
    offsets = {0};
    for (int n = 0; n < 6; n++) {
      offsets.push_back(offsets.back() + (int32_t)random.below(7));  // empty turns among them
      reward.push_back(!random.chance(3)), hint.push_back(random.chance(2));
    }
    if (offsets.back() == 0) offsets.back() = 1;
    const int64_t T = offsets.back();
    for (int64_t t = 0; t < T; t++) mask.push_back(random.chance(4) ? 0.f : 1.f);
    l_old = logprobs(T, random), l_cur = moved(l_old, random), A = random.normals(T),
    l_ref = moved(l_old, random);
    ids = random.ids(T * k, 100, -10);
    top_old = logprobs(T * k, random), top_cur = moved(top_old, random), top_T = logprobs(T * k, random);
  }
  HybridBatch request() const {
    HybridBatch b;
    b.turns = (int64_t)reward.size(), b.k = k, b.offsets = offsets.data();
    b.has_reward = reward.data(), b.has_hint = hint.data();
    HybridRows& p = b.positions;
    p.rows = offsets.back(), p.k = k, p.mask = mask.data();
    p.l_cur = l_cur.data(), p.l_old = l_old.data(), p.advantage = A.data(), p.l_ref = l_ref.data();
    p.ids = ids.data(), p.top_cur = top_cur.data(), p.top_old = top_old.data(), p.top_teacher = top_T.data();
    b.w_rl = 0.7, b.w_opd = 1.3, b.beta = 0.05;
    return b;
  }
};

// Mean over a turn's tokens, then over the turns that have the term.
double turn_mean(const Batch& b, const std::function<bool(size_t)>& has,
                 const std::function<double(size_t)>& term) {
  double total = 0;
  int turns = 0;
  for (size_t n = 0; n < b.reward.size(); n++) {
    double sum = 0;
    int tokens = 0;
    for (auto t = (size_t)b.offsets[n]; t < (size_t)b.offsets[n + 1]; t++)
      if (b.mask[t] != 0) sum += term(t), tokens++;
    if (has(n) && tokens) total += sum / tokens, turns++;
  }
  return turns ? total / turns : 0;
}

void test_hybrid() {
  Random random(5);
  for (int i = 0; i < 60; i++) {
    const Batch b(random);
    const HybridParams p;
    const auto T = (size_t)b.offsets.back();
    std::vector<float> loss(T), g_y(T), g_v(T * 4);
    const HybridReport r = hybrid_loss(b.request(), p, {loss.data(), g_y.data(), g_v.data()});
    auto opd_at = [&](size_t t) {
      const size_t a = t * 4;
      auto part = [&](const std::vector<float>& v) {
        return std::vector<float>(v.begin() + (int64_t)a, v.begin() + (int64_t)a + 4);
      };
      const std::vector<float> cur = part(b.top_cur);
      return opd_formula({cur.begin(), cur.end()}, part(b.top_old), part(b.top_T),
                         {b.ids.begin() + (int64_t)a, b.ids.begin() + (int64_t)a + 4},
                         {p.clip, p.delta_clip});
    };
    const double rl =
        0.7 * turn_mean(
                  b, [&](size_t n) { return b.reward[n]; },
                  [&](size_t t) { return ppo_formula(b.l_cur[t], b.l_old[t], b.A[t], p.clip); });
    const double opd = 1.3 * turn_mean(
                                 b, [&](size_t n) { return b.hint[n]; }, opd_at);
    const double k3 = 0.05 * turn_mean(
                                 b, [](size_t) { return true; },
                                 [&](size_t t) { return k3_formula(b.l_cur[t], b.l_ref[t]); });
    CHECK_NEAR(r.sums.rl, rl, 1e-9 * std::max(1.0, std::fabs(rl)));
    CHECK_NEAR(r.sums.opd, opd, 1e-9 * std::max(1.0, std::fabs(opd)));
    CHECK_NEAR(r.sums.k3, k3, 1e-9 * std::max(1.0, std::fabs(k3)));
    double sum = 0;
    for (float l : loss) sum += l;
    CHECK_NEAR(sum, r.loss(), 1e-5 * std::max(1.0, std::fabs(r.loss())));
  }
}

void test_masked_and_absent_do_not_matter() {
  Random random(6);
  Batch b(random);
  const auto T = (size_t)b.offsets.back();
  auto run = [&] {
    std::vector<float> out(T * 6);
    const HybridReport r = hybrid_loss(b.request(), HybridParams{}, {&out[0], &out[T], &out[2 * T]});
    out.push_back((float)r.loss());
    return out;
  };
  const std::vector<float> before = run();
  for (size_t n = 0; n < b.reward.size(); n++)
    for (auto t = (size_t)b.offsets[n]; t < (size_t)b.offsets[n + 1]; t++) {
      if (b.mask[t] == 0) b.l_cur[t] = b.l_ref[t] = NAN;
      if (b.mask[t] == 0 || !b.reward[n]) b.A[t] = b.l_old[t] = NAN;
      for (size_t v = t * 4; v < t * 4 + 4; v++)
        if (b.mask[t] == 0 || !b.hint[n] || b.ids[v] < 0) b.top_cur[v] = b.top_old[v] = b.top_T[v] = NAN;
    }
  CHECK(run() == before);
}

void test_aggregations() {
  Random random(7);
  Batch b(random);
  b.offsets = {0, 2, 6}, b.reward = {1, 1}, b.hint = {0, 0};
  for (auto* list : {&b.l_cur, &b.l_old}) list->assign(6, -1);
  b.mask = {1, 1, 1, 1, 1, 0};
  b.A = {1, 1, 2, 2, 2, 2};
  b.l_ref.resize(6, -1), b.ids.resize(24), b.top_cur.resize(24), b.top_old.resize(24), b.top_T.resize(24);
  HybridBatch in = b.request();
  in.w_rl = 1, in.beta = 0;
  auto total = [&](Aggregate how, double divisor) {
    in.aggregate = how, in.divisor = divisor;
    return hybrid_loss(in, HybridParams{}, {}).sums.rl;
  };
  CHECK_NEAR(total(Aggregate::TurnMean, 1), -1.5, 1e-12);
  CHECK_NEAR(total(Aggregate::TokenMean, 1), -8.0 / 5, 1e-12);
  CHECK_NEAR(total(Aggregate::Fixed, 16), -0.5, 1e-12);
}

void test_parts_of_a_term() {
  const float x[4] = {-1, -1, -1, -1};
  const int32_t id[4] = {0, 1, 2, 3};
  HybridRows rows;
  rows.rows = 1, rows.k = 4, rows.l_cur = x, rows.advantage = x;
  CHECK_THROWS(E_ARGUMENT, hybrid_rows(rows, HybridParams{}, {}));
  rows.advantage = nullptr, rows.ids = id, rows.top_cur = x;
  CHECK_THROWS(E_ARGUMENT, hybrid_rows(rows, HybridParams{}, {}));
}

}  // namespace

int main() {
  test("ppo: formula and finite differences", test_ppo);
  test("ppo: ratio 1, both clips, both pushes back, the clamped exponent", test_ppo_cases);
  test("k3: formula, never negative, finite differences", test_k3);
  test("opd: formula and finite differences", test_opd);
  test("opd: order and padding do not matter; agreement is silence", test_opd_properties);
  test("opd: counts", test_opd_counts);
  test("hybrid: each term over its own turns", test_hybrid);
  test("hybrid: what is masked or absent may hold anything", test_masked_and_absent_do_not_matter);
  test("hybrid: turn mean, token mean, fixed divisor", test_aggregations);
  test("hybrid: a term in part is refused", test_parts_of_a_term);
  return summary();
}
