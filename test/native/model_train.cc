// The trainer against the decoder and the objective written in double: every gradient by finite differences,
// and that packing, caching, recomputing and threads change nothing.
#include <algorithm>

#include "native/base/cpu.h"
#include "native/model/train.h"
#include "test/native/check.h"
#include "test/native/fixture_model.h"
#include "test/native/tiny_model.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

using State = std::map<std::string, std::vector<float>>;

Lane& lane() {
  static Lane two(2, false, nullptr);
  return two;
}

ModelConfig small(Arch arch) {
  ModelConfig c = tiny_config(arch);
  c.layers = 2;
  return c;
}

// --- sequences to learn from
// ------------------------------------------------------------------------------------

// One sequence with its loss and the arrays the loss borrows.
struct Example {
  std::vector<int32_t> ids, top_ids;
  std::vector<float> mask, advantage, old_logprob, ref_logprob, top_old, top_teacher;
  SequenceLoss loss;
};

std::vector<float> numbers(int64_t n, uint64_t seed, double center, double spread) {
  const RandomStream random(seed, 3);
  std::vector<float> out;
  for (int64_t i = 0; i < n; i++) out.push_back((float)(center + spread * random.normal((uint64_t)i)));
  return out;
}

Example plain(int64_t tokens, int64_t from, int64_t vocab, uint64_t seed) {
  Example e;
  e.ids = tiny_ids(tokens, vocab, seed);
  e.loss.from = from;
  return e;
}
int64_t positions(const Example& e) { return (int64_t)e.ids.size() - e.loss.from; }

void add_mask(Example& e, std::vector<int64_t> masked) {
  e.mask.assign((size_t)positions(e), 1.f);
  for (int64_t i : masked) e.mask[(size_t)i] = 0;
  e.loss.mask = e.mask.data();
}
void add_cross_entropy(Example& e, float weight) { e.loss.cross_entropy = true, e.loss.weight = weight; }
void add_rl(Example& e, float weight, uint64_t seed) {
  e.advantage = numbers(positions(e), seed, 0.3, 1);
  e.old_logprob = numbers(positions(e), seed + 1, -4, 0.6);
  e.loss.advantage = e.advantage.data();
  e.loss.old_logprob = e.old_logprob.data();
  e.loss.w_rl = weight;
}
void add_opd(Example& e, float weight, int64_t k, int64_t vocab, uint64_t seed) {
  e.top_ids = tiny_ids(positions(e) * k, vocab, seed);
  e.top_ids[0] = e.ids[(size_t)e.loss.from];  // the token itself among the top ids
  e.top_ids[(size_t)(2 * k - 1)] = -1;        // padding
  e.top_old = numbers(positions(e) * k, seed + 1, -4, 0.5);
  e.top_teacher = numbers(positions(e) * k, seed + 2, -4, 1);
  e.loss.k = k;
  e.loss.top_ids = e.top_ids.data();
  e.loss.top_old = e.top_old.data();
  e.loss.top_teacher = e.top_teacher.data();
  e.loss.w_opd = weight;
}
void add_k3(Example& e, float beta, uint64_t seed) {
  e.ref_logprob = numbers(positions(e), seed, -4, 0.5);
  e.loss.ref_logprob = e.ref_logprob.data();
  e.loss.beta = beta;
}

// Every term, alone and together, with masks. Not moved afterwards: the losses point into the examples.
std::vector<Example> every_term(int64_t vocab) {
  std::vector<Example> out;
  out.reserve(4);
  out.push_back(plain(12, 1, vocab, 21));
  add_cross_entropy(out.back(), 0.7f);
  add_mask(out.back(), {0, 4});
  out.push_back(plain(15, 6, vocab, 22));
  add_rl(out.back(), 1, 31);
  add_opd(out.back(), 0.5f, 3, vocab, 32);
  add_k3(out.back(), 0.2f, 33);
  add_mask(out.back(), {2});
  out.push_back(plain(9, 3, vocab, 23));
  out.back().loss.w_anchor = 1.5f;
  add_mask(out.back(), {5});
  out.push_back(plain(8, 4, vocab, 24));
  add_cross_entropy(out.back(), 0.5f);
  add_rl(out.back(), 0.4f, 34);
  out.back().loss.w_anchor = 0.3f;
  return out;
}

std::vector<TrainSequence> sequences(const std::vector<Example>& examples) {
  std::vector<TrainSequence> out;
  for (const Example& e : examples) out.push_back({e.ids.data(), (int64_t)e.ids.size()});
  return out;
}
std::vector<const SequenceLoss*> losses(const std::vector<Example>& examples) {
  std::vector<const SequenceLoss*> out;
  for (const Example& e : examples) out.push_back(&e.loss);
  return out;
}

// --- the objective in double, straight off the method
// -----------------------------------------------------------

double clipped(double advantage, double ratio, const SequenceLoss& l) {
  const double bounded = std::clamp(ratio, 1 - (double)l.eps_low, 1 + (double)l.eps_high);
  return std::max(-advantage * ratio, -advantage * bounded);
}

double reference_opd(const SequenceLoss& l, int64_t i, const Row& logprobs) {
  double total = 0, sum = 0;
  for (int64_t c = i * l.k; c < (i + 1) * l.k; c++)
    if (l.top_ids[c] >= 0) total += std::exp((double)l.top_old[c]);
  for (int64_t c = i * l.k; c < (i + 1) * l.k; c++) {
    if (l.top_ids[c] < 0) continue;
    const double old = (double)l.top_old[c], bound = (double)l.delta_clip;
    const double delta = std::clamp((double)l.top_teacher[c] - old, -bound, bound);
    sum += clipped(delta * std::exp(old) / total, std::exp(logprobs[(size_t)l.top_ids[c]] - old), l);
  }
  return sum;
}

double reference_position(const Example& e, int64_t i, const Row& current, const Row& base) {
  const SequenceLoss& l = e.loss;
  const double y = current[(size_t)e.ids[(size_t)(l.from + i)]];
  double sum = l.cross_entropy ? -(double)l.weight * y : 0;
  if (l.advantage)
    sum += (double)l.w_rl * clipped((double)l.advantage[i], std::exp(y - (double)l.old_logprob[i]), l);
  if (l.top_ids) sum += (double)l.w_opd * reference_opd(l, i, current);
  if (l.ref_logprob) {
    const double d = (double)l.ref_logprob[i] - y;
    sum += (double)l.beta * (std::exp(d) - 1 - d);
  }
  for (size_t j = 0; l.w_anchor != 0 && j < current.size(); j++)
    sum += (double)l.w_anchor * std::exp(base[j]) * (base[j] - current[j]);
  return sum;
}

double reference_loss(const std::vector<Example>& examples, const ReferenceModel& current,
                      const ReferenceModel& base) {
  double loss = 0;
  for (const Example& e : examples) {
    const Rows now = current.logprobs(e.ids);
    const Rows before = e.loss.w_anchor != 0 ? base.logprobs(e.ids) : now;
    double sum = 0, unmasked = 0;
    for (int64_t i = 0; i < positions(e); i++) {
      if (!e.mask.empty() && e.mask[(size_t)i] == 0) continue;
      const size_t t = (size_t)(e.loss.from + i - 1);
      sum += reference_position(e, i, now[t], before[t]);
      unmasked++;
    }
    loss += sum / unmasked;
  }
  return loss;
}

// --- trainers
// ---------------------------------------------------------------------------------------------------

State state_of(const Adapter& adapter) {
  State out;
  for (size_t l = 0; l < adapter.layers.size(); l++)
    for (size_t t = 0; t < kTargets; t++) {
      const std::string name = "layers." + std::to_string(l) + "." + target_name((int)t);
      if (adapter.layers[l][t].empty()) continue;
      out[name + ".A"] = adapter.layers[l][t].a;
      out[name + ".B"] = adapter.layers[l][t].b;
    }
  return out;
}

State state_of(const Weights& w) {
  State out;
  for (const Weights::Named& p : w.named()) {
    const int64_t n = p.shape[0] * (p.shape.size() == 2 ? p.shape[1] : 1);
    out[p.name].assign((const float*)p.data, (const float*)p.data + n);
  }
  return out;
}

TrainOptions lora_options() {
  TrainOptions o;
  o.rank = 4;
  o.alpha = 6;
  return o;
}
TrainOptions full_options() {
  TrainOptions o;
  o.full = true;
  return o;
}

// A trainer whose parameters differ from the base, so that an anchor has something to say.
std::unique_ptr<Trainer> moved_trainer(std::shared_ptr<const Weights> base, const TrainOptions& o, Lane& on) {
  auto trainer = std::make_unique<Trainer>(base, o, on);
  if (o.full) {
    State state = state_of(*base);
    uint64_t seed = 500;
    for (auto& [name, values] : state) {
      const std::vector<float> move = numbers((int64_t)values.size(), seed++, 0, 0.05);
      for (size_t i = 0; i < values.size(); i++) values[i] += move[i];
    }
    trainer->import_state(state, 0);
  } else {
    State state = state_of(*tiny_adapter(base->config, *base, 41)), known = trainer->export_state(false);
    for (auto& [name, values] : known) values = state.at(name);
    trainer->import_state(known, 0);
  }
  return trainer;
}

// Gradients of a run over all the examples.
struct Run {
  LossReport report;
  State gradients;
  std::vector<std::vector<float>> logprobs;
};
Run run(Trainer& trainer, const std::vector<Example>& examples, bool want_logprobs = false) {
  const auto batch = trainer.prepare(sequences(examples).data(), (int64_t)examples.size());
  Run out;
  trainer.zero_grad();
  out.report =
      trainer.forward_backward(*batch, losses(examples).data(), want_logprobs ? &out.logprobs : nullptr);
  out.gradients = trainer.export_gradients();
  return out;
}

double root_mean_square(const std::vector<float>& v) {
  double squares = 0;
  for (float x : v) squares += (double)x * (double)x;
  return std::sqrt(squares / (double)v.size());
}

double worst_relative(const State& a, const State& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (const auto& [name, values] : a)
    for (size_t i = 0; i < values.size(); i++)
      worst =
          std::fmax(worst, std::fabs((double)values[i] - (double)b.at(name)[i]) / root_mean_square(values));
  return worst;
}

// Central differences of the objective in double, for some entries of every parameter.
void check_gradients(const std::vector<Example>& examples, ReferenceModel current, const ReferenceModel& base,
                     const State& gradients) {
  const double h = 1e-5;
  for (const auto& [name, gradient] : gradients) {
    const double size = root_mean_square(gradient);
    CHECK(size > 0);
    for (size_t j = 0; j < 4; j++) {
      const size_t i = (j * 7919 + 31) % gradient.size();
      double& x = current.p.at(name)[i];
      const double before = x;
      x = before + h;
      const double up = reference_loss(examples, current, base);
      x = before - h;
      const double down = reference_loss(examples, current, base);
      x = before;
      const double expected = (up - down) / (2 * h);
      if (!(std::fabs(gradient[i] - expected) <= 2e-3 * size))
        failure(name.c_str(), (int)i, "gradient entry");
      CHECK_NEAR(gradient[i], expected, 2e-3 * size);
    }
  }
}

void test_gradients() {
  for (Arch a : kArchs)
    for (bool full : {false, true})
      test((std::string(arch_name(a)) + (full ? ", full" : ", LoRA") +
            ": loss and gradients of every parameter")
               .c_str(),
           [a, full] {
             const ModelConfig c = small(a);
             const auto base = tiny_weights(c, 40);
             const auto examples = every_term(c.vocab);
             const auto trainer = moved_trainer(base, full ? full_options() : lora_options(), lane());
             const Snapshot now = trainer->snapshot("now", DType::F32);
             const ReferenceModel current(*now.weights, now.adapter.get()), reference(*base);
             const Run got = run(*trainer, examples);
             CHECK_NEAR(got.report.loss, reference_loss(examples, current, reference), 2e-5);
             CHECK(got.report.tokens == 9 + 8 + 5 + 4);
             check_gradients(examples, current, reference, got.gradients);
           });
}

void test_report() {
  test("report: parts add up, counts count, log-probs are those of the serving pass", [] {
    const ModelConfig c = small(Arch::Qwen3);
    const auto base = tiny_weights(c, 42);
    const auto examples = every_term(c.vocab);
    const auto trainer = moved_trainer(base, lora_options(), lane());
    const Run with = run(*trainer, examples, true), without = run(*trainer, examples);
    const LossReport& r = with.report;
    CHECK_NEAR(r.loss, r.ce + r.rl + r.opd + r.k3 + r.anchor, 1e-12);
    CHECK(r.ce > 0 && r.k3 > 0 && r.anchor > 0 && r.rl != 0 && r.opd != 0);
    CHECK(r.top_entries == 8 * 3 - 1 && r.tokens == 26 && r.entropy > 0 && r.mean_ratio > 0);
    CHECK(r.ratio_clipped_low + r.ratio_clipped_high > 0);
    CHECK_NEAR(r.loss, without.report.loss, 1e-6);
    CHECK_NEAR(worst_relative(with.gradients, without.gradients), 0, 1e-4);
    const Snapshot now = trainer->snapshot("now", DType::F32);
    for (size_t n = 0; n < examples.size(); n++) {
      const Example& e = examples[n];
      const Rows expected = whole_logprobs(now, e.ids, lane());
      CHECK((int64_t)with.logprobs[n].size() == positions(e));
      for (int64_t i = 0; i < positions(e); i++)
        CHECK_NEAR(with.logprobs[n][(size_t)i],
                   expected[(size_t)(e.loss.from + i - 1)][(size_t)e.ids[(size_t)(e.loss.from + i)]], 5e-5);
    }
  });
  test("report: a fresh adapter has no distance to its base, and a masked sequence says nothing", [] {
    const ModelConfig c = small(Arch::Llama);
    Trainer trainer(tiny_weights(c, 43), lora_options(), lane());
    std::vector<Example> examples;
    examples.reserve(2);
    examples.push_back(plain(10, 2, c.vocab, 25));
    examples.back().loss.w_anchor = 1;
    examples.push_back(plain(10, 8, c.vocab, 26));
    add_cross_entropy(examples.back(), 1);
    add_mask(examples.back(), {0, 1});
    const Run got = run(trainer, examples);
    CHECK_NEAR(got.report.anchor, 0, 1e-6);
    CHECK(got.report.ce == 0 && got.report.tokens == 8);
    for (const auto& [name, g] : got.gradients)
      for (float x : g) CHECK_NEAR(x, 0, 1e-5);
  });
}

void test_equalities() {
  test("the same bits: activations kept or recomputed, one thread or two", [] {
    for (bool full : {false, true}) {
      const ModelConfig c = tiny_config(Arch::Qwen3);
      const auto base = tiny_weights(c, 44);
      const auto examples = every_term(c.vocab);
      TrainOptions o = full ? full_options() : lora_options();
      const Run kept = run(*moved_trainer(base, o, lane()), examples);
      Lane one(1, false, nullptr);
      CHECK(run(*moved_trainer(base, o, one), examples).gradients == kept.gradients);
      o.activation_bytes = 0;
      const Run again = run(*moved_trainer(base, o, lane()), examples);
      CHECK(again.gradients == kept.gradients && again.report.loss == kept.report.loss);
    }
  });
  test("packs: many long sequences together as one by one", [] {
    const ModelConfig c = small(Arch::Qwen2);
    const auto trainer = moved_trainer(tiny_weights(c, 45), full_options(), lane());
    std::vector<Example> examples;
    examples.reserve(12);
    for (uint64_t n = 0; n < 12; n++) {
      examples.push_back(plain(100 + (int64_t)n, 60, c.vocab, 60 + n));
      add_cross_entropy(examples.back(), 0.1f);
    }
    const Run together = run(*trainer, examples);  // two packs of at most 1024 rows
    const auto batch = trainer->prepare(sequences(examples).data(), 12);
    std::vector<const SequenceLoss*> each(12, nullptr);
    double loss = 0;
    trainer->zero_grad();
    for (size_t n = 0; n < 12; n++) {
      each.assign(12, nullptr);
      each[n] = &examples[n].loss;
      loss += trainer->forward_backward(*batch, each.data(), nullptr).loss;
    }
    CHECK_NEAR(together.report.loss, loss, 1e-5);
    CHECK_NEAR(worst_relative(together.gradients, trainer->export_gradients()), 0, 1e-4);
  });
  test("frozen lower layers: the same gradients above them, in the first epoch and the second", [] {
    const ModelConfig c = tiny_config(Arch::Qwen3);
    const auto base = tiny_weights(c, 46);
    const auto examples = every_term(c.vocab);
    TrainOptions o = lora_options();
    o.first_layer = 2;
    const auto upper = moved_trainer(base, o, lane());
    CHECK(upper->export_state(false).size() == 14);
    State whole_state = upper->export_state(false);
    o.first_layer = 0;
    Trainer whole(base, o, lane());
    State zero = whole.export_state(false);  // B = 0 below layer 2: the same function
    for (const auto& [name, values] : whole_state) zero[name] = values;
    whole.import_state(zero, 0);
    const Run expected = run(whole, examples);
    const auto batch = upper->prepare(sequences(examples).data(), 4);
    for (int epoch = 0; epoch < 2; epoch++) {
      upper->zero_grad();
      CHECK_NEAR(upper->forward_backward(*batch, losses(examples).data(), nullptr).loss, expected.report.loss,
                 1e-6);
      for (const auto& [name, g] : upper->export_gradients())
        for (size_t i = 0; i < g.size(); i++)
          CHECK_NEAR(g[i], expected.gradients.at(name)[i], 1e-4 * root_mean_square(g));
    }
    CHECK_THROWS(E_ARGUMENT, whole.forward_backward(*batch, losses(examples).data(), nullptr));
  });
  test("gradients add up over calls until they are zeroed", [] {
    const ModelConfig c = small(Arch::Llama);
    const auto trainer = moved_trainer(tiny_weights(c, 47), lora_options(), lane());
    const auto examples = every_term(c.vocab);
    const Run once = run(*trainer, examples);
    const auto batch = trainer->prepare(sequences(examples).data(), 4);
    trainer->forward_backward(*batch, losses(examples).data(), nullptr);
    const State twice = trainer->export_gradients();
    for (const auto& [name, g] : once.gradients)
      for (size_t i = 0; i < g.size(); i++)
        CHECK_NEAR(twice.at(name)[i], 2 * g[i], 1e-5 * root_mean_square(g));
  });
}

double train(Trainer& trainer, const std::vector<Example>& examples, int steps, float lr) {
  const auto batch = trainer.prepare(sequences(examples).data(), (int64_t)examples.size());
  double loss = 0;
  for (int s = 0; s < steps; s++) {
    trainer.zero_grad();
    loss = trainer.forward_backward(*batch, losses(examples).data(), nullptr).loss;
    trainer.optim_step(lr, 0.9f, 0.98f, 1e-8f, 0, 1, 0);
  }
  return loss;
}

std::vector<Example> to_memorise(const ModelConfig& c) {
  std::vector<Example> out;
  out.reserve(2);
  for (uint64_t n = 0; n < 2; n++) {
    out.push_back(plain(12, 1, c.vocab, 80 + n));
    add_cross_entropy(out.back(), 0.5f);
  }
  return out;
}

void test_learning() {
  for (bool full : {false, true})
    test(full ? "full training memorises" : "LoRA memorises, and the published version knows it", [full] {
      const ModelConfig c = small(Arch::Qwen3);
      Trainer trainer(tiny_weights(c, 50), full ? full_options() : lora_options(), lane());
      const auto examples = to_memorise(c);
      const Snapshot before = trainer.snapshot("before", DType::F32);
      const Rows untouched = whole_logprobs(before, examples[0].ids, lane());
      const double first = train(trainer, examples, 1, 0.01f), last = train(trainer, examples, 99, 0.01f);
      // Under an adapter the small frozen head bounds the logits, and with them how sure the model can be.
      const double sure = full ? 0.15 : 0.6;
      CHECK(first > 3 && last < sure);
      CHECK(trainer.step() == 100);
      CHECK(whole_logprobs(before, examples[0].ids, lane()) == untouched);  // snapshots do not move
      for (DType dtype : {DType::F32, DType::BF16}) {
        const Rows now = whole_logprobs(trainer.snapshot("now", dtype), examples[0].ids, lane());
        double sum = 0;
        for (size_t t = 0; t + 1 < examples[0].ids.size(); t++) sum -= now[t][(size_t)examples[0].ids[t + 1]];
        CHECK(sum / 11 < sure + 0.2);
      }
    });
  test("state: a run taken up again goes on as if it had not stopped", [] {
    const ModelConfig c = small(Arch::Qwen2);
    const auto base = tiny_weights(c, 51);
    const auto examples = to_memorise(c);
    Trainer straight(base, lora_options(), lane()), resumed(base, lora_options(), lane());
    train(straight, examples, 3, 0.01f);
    const State saved = straight.export_state(true);
    CHECK(saved.size() == 3 * straight.export_state(false).size());
    train(straight, examples, 3, 0.01f);
    resumed.import_state(saved, 3);
    train(resumed, examples, 3, 0.01f);
    CHECK(resumed.export_state(true) == straight.export_state(true));
    CHECK(resumed.step() == 6);
  });
  test("state: what does not fit is refused, and changes nothing", [] {
    const ModelConfig c = small(Arch::Llama);
    Trainer trainer(tiny_weights(c, 52), lora_options(), lane());
    const State before = trainer.export_state(true);
    State state = before;
    state.begin()->second.push_back(1);
    CHECK_THROWS(E_SHAPE, trainer.import_state(state, 1));
    state = before;
    state["layers.9.q_proj.A"] = {1};
    CHECK_THROWS(E_ARGUMENT, trainer.import_state(state, 1));
    state = trainer.export_state(false);
    state.erase(state.begin());
    CHECK_THROWS(E_ARGUMENT, trainer.import_state(state, 1));
    CHECK(trainer.export_state(true) == before && trainer.step() == 0);
  });
  test("step: clipped as torch does, and left out beyond the stop norm or when not finite", [] {
    const ModelConfig c = small(Arch::Llama);
    const auto base = tiny_weights(c, 53);
    Trainer trainer(base, lora_options(), lane());
    auto examples = to_memorise(c);
    const Run got = run(trainer, examples);
    double squares = 0;
    for (const auto& [name, g] : got.gradients)
      for (float x : g) squares += (double)x * (double)x;
    const State before = trainer.export_state(true);
    auto report = trainer.optim_step(0.01f, 0.9f, 0.98f, 1e-8f, 0.1f, 1, (float)(std::sqrt(squares) / 2));
    CHECK(report.skipped && trainer.step() == 0 && trainer.export_state(true) == before);
    CHECK_NEAR(report.grad_norm, std::sqrt(squares), 1e-6);
    report = trainer.optim_step(0.01f, 0.9f, 0.98f, 1e-8f, 0.1f, 0.01f, 0);
    CHECK(!report.skipped && trainer.step() == 1);
    const State after = trainer.export_state(true);
    const double factor = 0.01 / (report.grad_norm + 1e-6);  // m = (1 - beta1) g after one step
    for (const auto& [name, g] : got.gradients)
      for (size_t i = 0; i < g.size(); i++)
        CHECK_NEAR(after.at(name + ".m")[i], 0.1 * factor * (double)g[i],
                   1e-9 + 1e-5 * std::fabs(factor * g[i]));
    examples[0].loss.w_anchor = 0;
    add_rl(examples[0], 1, 90);
    examples[0].advantage[2] = NAN;
    run(trainer, examples);
    const State sound = trainer.export_state(true);
    CHECK(trainer.optim_step(0.01f, 0.9f, 0.98f, 1e-8f, 0, 1, 0).skipped &&
          trainer.export_state(true) == sound);
  });
  test("adapter: A as peft starts it, B zero, only the chosen matrices", [] {
    const ModelConfig c = tiny_config(Arch::Llama);
    TrainOptions o = lora_options();
    o.targets = {Q, Down};
    o.first_layer = 1;
    o.seed = 9;
    Trainer trainer(tiny_weights(c, 54), o, lane());
    const State state = trainer.export_state(false);
    CHECK(state.size() == 2 * 2 * 2 && state.count("layers.2.down_proj.B") &&
          !state.count("layers.0.q_proj.A"));
    const std::vector<float>& a = state.at("layers.1.down_proj.A");
    CHECK((int64_t)a.size() == 4 * c.ffn);
    const double bound = 1 / std::sqrt((double)c.ffn);
    for (float x : a) CHECK(std::fabs(x) <= bound);
    CHECK_NEAR(root_mean_square(a), bound / std::sqrt(3.0), 0.1 * bound);
    for (float x : state.at("layers.1.down_proj.B")) CHECK(x == 0);
  });
}

void test_refusals() {
  test("refusals: options, sequences and losses that cannot be", [] {
    const ModelConfig c = small(Arch::Llama);
    const auto base = tiny_weights(c, 55);
    const auto with = [&](const std::function<void(TrainOptions&)>& damage) {
      TrainOptions o = lora_options();
      damage(o);
      Trainer trainer(base, o, lane());
    };
    CHECK_THROWS(E_ARGUMENT, with([](TrainOptions& o) { o.rank = 0; }));
    CHECK_THROWS(E_ARGUMENT, with([](TrainOptions& o) { o.alpha = NAN; }));
    CHECK_THROWS(E_ARGUMENT, with([](TrainOptions& o) { o.targets = {}; }));
    CHECK_THROWS(E_ARGUMENT, with([](TrainOptions& o) { o.targets = {7}; }));
    CHECK_THROWS(E_ARGUMENT, with([](TrainOptions& o) { o.first_layer = 2; }));
    CHECK_THROWS(E_ARGUMENT, with([](TrainOptions& o) { o.full = true, o.first_layer = 1; }));
    Trainer trainer(base, lora_options(), lane());
    auto ids = tiny_ids(200, c.vocab, 1);
    const TrainSequence one{ids.data(), 1}, lengthy{ids.data(), 200}, two{ids.data(), 2};
    CHECK_THROWS(E_ARGUMENT, trainer.prepare(&one, 1));
    CHECK_THROWS(E_CONTEXT, trainer.prepare(&lengthy, 1));
    const auto batch = trainer.prepare(&two, 1);
    ids[0] = -1;
    CHECK_THROWS(E_TOKEN_ID, trainer.prepare(&two, 1));
    const auto loss = [&](const std::function<void(SequenceLoss&)>& damage) {
      SequenceLoss l;
      damage(l);
      const SequenceLoss* p = &l;
      trainer.forward_backward(*batch, &p, nullptr);
    };
    const float number = 0;
    const int32_t id = (int32_t)c.vocab;
    CHECK_THROWS(E_ARGUMENT, loss([](SequenceLoss& l) { l.from = 2; }));
    CHECK_THROWS(E_ARGUMENT, loss([&](SequenceLoss& l) { l.advantage = &number; }));
    CHECK_THROWS(E_ARGUMENT, loss([&](SequenceLoss& l) { l.top_old = &number; }));
    CHECK_THROWS(E_NOT_FINITE, loss([](SequenceLoss& l) { l.w_anchor = INFINITY; }));
    CHECK_THROWS(E_TOKEN_ID, loss([&](SequenceLoss& l) {
                   l.k = 1, l.top_ids = &id, l.top_old = l.top_teacher = &number, l.w_opd = 1;
                 }));
  });
}

// fixtures/make_qwen.py: transformers' gradients of the cross-entropy, in double.
void test_transformers() {
  for (const char* name : {"llama", "llama3", "linear", "yarn", "qwen2", "qwen3"})
    test((std::string("transformers, ") + name + ": loss and gradients").c_str(), [name] {
      const FixtureModel fixture = read_fixture(std::string("qwen-") + name + ".json");
      std::vector<Example> examples(1);
      examples[0].ids = fixture.ids;
      add_cross_entropy(examples[0], 1);
      Trainer trainer(fixture.weights, full_options(), lane());
      const Run got = run(trainer, examples);
      CHECK_NEAR(got.report.loss, fixture.json.number("loss"), 5e-5);
      const std::vector<double> grads = fixture.json.numbers("grads");
      size_t at = 0;
      for (const Weights::Named& p : fixture.weights->named()) {
        const std::vector<float>& g = got.gradients.at(p.name);
        const double norm = grads.at(at++), size = norm / std::sqrt((double)g.size());
        CHECK_NEAR(root_mean_square(g), size, 5e-4 * size);
        for (size_t j = 0; j < 8; j++) CHECK_NEAR(g[(j * 7919 + 31) % g.size()], grads.at(at++), 5e-3 * size);
      }
      CHECK(at == grads.size());
    });
}

}  // namespace

int main() {
  printf("model_train on %s\n", isa_name(cpu_isa()));
  test_gradients();
  test_report();
  test_equalities();
  test_learning();
  test_refusals();
  test_transformers();
  return summary();
}
