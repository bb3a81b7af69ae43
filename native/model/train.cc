// The trainer: packs of sequences through frozen layers once, trained layers every time, losses, and back.
#include "native/model/train.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "native/base/error.h"
#include "native/model/batch.h"
#include "native/model/loss_head.h"
#include "native/model/new_adapter.h"
#include "native/model/pack_loss.h"
#include "native/model/parameters.h"
#include "native/model/trained_layers.h"

namespace openclaw {
namespace {

// Rows of a pack: enough that the products are efficient, few enough that a step yields often and memory is
// bounded.
constexpr int64_t kFewestRows = 256, kMostRows = 1024;

void validate(const TrainOptions& o, const ModelConfig& c) {
  OC_CHECK(o.activation_bytes >= 0, Code::E_ARGUMENT, "activationBytes: expected >= 0, got %lld",
           (long long)o.activation_bytes);
  if (o.full) {
    OC_CHECK(o.first_layer == 0, Code::E_ARGUMENT,
             "firstLayer: expected 0 when all parameters are trained, got %lld", (long long)o.first_layer);
    return;
  }
  OC_CHECK(o.first_layer >= 0 && o.first_layer < c.layers, Code::E_ARGUMENT,
           "firstLayer: expected 0..%lld, got %lld", (long long)c.layers - 1, (long long)o.first_layer);
  OC_CHECK(o.rank >= 1 && o.rank <= 1024, Code::E_ARGUMENT, "rank: expected 1..1024, got %lld",
           (long long)o.rank);
  OC_CHECK(std::isfinite(o.alpha) && o.alpha > 0, Code::E_ARGUMENT, "alpha: expected a number > 0, got %g",
           (double)o.alpha);
  OC_CHECK(!o.targets.empty(), Code::E_ARGUMENT, "targets: expected at least one matrix");
  for (int t : o.targets)
    OC_CHECK(t >= 0 && t < kTargets, Code::E_ARGUMENT, "targets: expected 0..%d, got %d", kTargets - 1, t);
}

}  // namespace

struct Trainer::Impl {
  Impl(std::shared_ptr<const Weights> base, const TrainOptions& options, Lane& lane);

  const ModelConfig& config() const { return base->config; }
  const Weights& current() const { return masters ? *masters : *base; }
  int64_t rank() const { return adapter ? adapter->rank : 0; }
  int64_t activation_floats_per_row() const;
  int64_t pack_rows() const;

  void embed(const Weights& weights, const Batch& batch, const Pack& pack, float* x);
  void input(const Weights& weights, const Batch& batch, const Pack& pack, float* x);
  float* run_plain(const Weights& weights, const PackedRows& rows, int64_t from, int64_t to, float* x);
  void fill_lower(Batch& batch);
  void fill_base(Batch& batch, const SequenceLoss* const* losses);
  void gather_base(const Batch& batch, const Pack& pack, const PackLoss& loss, float* to);
  void run_pack(const Batch& batch, const Pack& pack, const SequenceLoss* const* losses,
                std::vector<std::vector<float>>* cur_logprobs, LossSums& sums);
  void embed_gradient(const Batch& batch, const Pack& pack, const float* dx);

  std::shared_ptr<const Weights> base;
  const TrainOptions options;
  Lane& lane;
  std::shared_ptr<Adapter> adapter;  // LoRA
  std::shared_ptr<Weights> masters;  // full: f32
  std::unique_ptr<Parameters> parameters;
  LossHead head;
  Workspace ws;
  int64_t step = 0;
};

Trainer::Impl::Impl(std::shared_ptr<const Weights> base, const TrainOptions& options, Lane& lane)
    : base(std::move(base)), options(options), lane(lane), head(lane) {
  validate(options, config());
  if (options.full) {
    masters = this->base->copy(DType::F32);
    parameters = std::make_unique<Parameters>(*masters);
  } else {
    adapter = new_adapter(*this->base, options);
    parameters = std::make_unique<Parameters>(*adapter);
  }
}

int64_t Trainer::Impl::activation_floats_per_row() const {
  return (config().layers - options.first_layer) * TrainLayer::floats_per_row(config(), rank());
}

// As many rows as their activations may be kept for, within the bounds: recomputing costs another forward
// pass.
int64_t Trainer::Impl::pack_rows() const {
  const int64_t fit = options.activation_bytes / (activation_floats_per_row() * (int64_t)sizeof(float));
  return std::clamp(fit, kFewestRows, kMostRows);
}

void Trainer::Impl::embed(const Weights& weights, const Batch& batch, const Pack& pack, float* x) {
  for (int64_t i : pack.sequences) {
    const Batch::Sequence& s = batch.sequences[(size_t)i];
    lane.yield_point();
    embed_rows(weights.embed, s.ids.data(), s.rows(), x, config().hidden);
    x += s.rows() * config().hidden;
  }
}

// What the first trained layer reads.
void Trainer::Impl::input(const Weights& weights, const Batch& batch, const Pack& pack, float* x) {
  if (batch.lower.empty()) return embed(weights, batch, pack, x);
  for (int64_t i : pack.sequences) {
    const Batch::Sequence& s = batch.sequences[(size_t)i];
    const int64_t n = s.rows() * config().hidden;
    memcpy(x, batch.lower.data() + s.row * config().hidden, (size_t)n * sizeof(float));
    x += n;
  }
}

// Layers from..to-1 without adapter and without keeping anything; returns where the output lies, in the
// workspace.
float* Trainer::Impl::run_plain(const Weights& weights, const PackedRows& rows, int64_t from, int64_t to,
                                float* x) {
  TrainLayer layer(weights, nullptr, rows, ws, lane);
  LayerActivations a = layer.allocate(ws, nullptr);
  float* out = ws.take(rows.rows() * config().hidden);
  for (int64_t l = from; l < to; l++) {
    a.x = x;
    layer.forward(l, a, nullptr, out);
    std::swap(x, out);
  }
  return x;
}

void Trainer::Impl::fill_lower(Batch& batch) {
  if (options.first_layer == 0) return;
  const int64_t D = config().hidden;
  std::vector<int64_t> all((size_t)batch.size());
  for (size_t i = 0; i < all.size(); i++) all[i] = (int64_t)i;
  std::vector<float> lower((size_t)(batch.rows() * D));
  for (const Pack& pack : make_packs(batch, all, kMostRows)) {
    ws.reset();
    float* x = ws.take(pack.rows.rows() * D);
    embed(*base, batch, pack, x);
    x = run_plain(*base, pack.rows, 0, options.first_layer, x);
    const int64_t row = batch.sequences[(size_t)pack.sequences.front()].row;
    memcpy(lower.data() + row * D, x, (size_t)(pack.rows.rows() * D) * sizeof(float));
  }
  batch.lower = std::move(lower);
}

// Final hidden states of the base model, for the sequences with an anchor that have none yet.
void Trainer::Impl::fill_base(Batch& batch, const SequenceLoss* const* losses) {
  const int64_t D = config().hidden;
  std::vector<int64_t> wanted;
  for (int64_t i = 0; i < batch.size(); i++)
    if (losses[i] && losses[i]->w_anchor != 0 && !batch.sequences[(size_t)i].has_base) wanted.push_back(i);
  if (wanted.empty()) return;
  batch.base_hidden.resize((size_t)(batch.rows() * D));
  for (const Pack& pack : make_packs(batch, wanted, kMostRows)) {
    ws.reset();
    const int64_t M = pack.rows.rows();
    float* x = ws.take(M * D);
    input(*base, batch, pack, x);
    x = run_plain(*base, pack.rows, options.first_layer, config().layers, x);
    rms_norm(x, base->final_norm, config().norm_eps, M, D, x, nullptr, lane);
    for (int64_t i : pack.sequences) {
      Batch::Sequence& s = batch.sequences[(size_t)i];
      memcpy(batch.base_hidden.data() + s.row * D, x, (size_t)(s.rows() * D) * sizeof(float));
      x += s.rows() * D;
      s.has_base = true;
    }
  }
}

// The base model's hidden states [S, D] of the pack's positions. A sequence without an anchor may have none:
// what is gathered for it is not read.
void Trainer::Impl::gather_base(const Batch& batch, const Pack& pack, const PackLoss& loss, float* to) {
  const int64_t D = config().hidden;
  for (const LossPosition& p : loss.positions) {
    const int64_t start = pack.rows.sequences[(size_t)p.sequence].start;
    const int64_t in_sequence = loss.rows[(size_t)(&p - loss.positions.data())] - start;
    const int64_t row = batch.sequences[(size_t)pack.sequences[(size_t)p.sequence]].row + in_sequence;
    memcpy(to, batch.base_hidden.data() + row * D, (size_t)D * sizeof(float));
    to += D;
  }
}

void Trainer::Impl::run_pack(const Batch& batch, const Pack& pack, const SequenceLoss* const* losses,
                             std::vector<std::vector<float>>* cur_logprobs, LossSums& sums) {
  const PackLoss loss = pack_loss(batch, pack, losses, cur_logprobs);
  if (loss.positions.empty()) return;
  const int64_t M = pack.rows.rows(), S = (int64_t)loss.rows.size(), D = config().hidden;
  const bool recompute = M * activation_floats_per_row() * (int64_t)sizeof(float) > options.activation_bytes;
  ws.reset();
  TrainedLayers layers(current(), adapter.get(), pack.rows, S < M ? &loss.rows : nullptr, options.first_layer,
                       recompute, ws, lane);
  input(current(), batch, pack, layers.input());
  layers.forward();

  float *hidden = ws.take(S * D), *inv = ws.take(S), *d_hidden = ws.take(S * D);
  float *gradient = ws.take(M * D), *spare = ws.take(M * D), *base_hidden = nullptr;
  rms_norm(layers.output(), current().final_norm, config().norm_eps, S, D, hidden, inv, lane);
  if (loss.anchored) gather_base(batch, pack, loss, base_hidden = ws.take(S * D));
  const Gradients& g = parameters->gradients();
  head.run({&current().head, hidden, &base->head, base_hidden, &loss.sequences, &loss.positions},
           {loss.learns ? d_hidden : nullptr, g.head}, sums);
  if (!loss.learns) return;
  rms_norm_backward(d_hidden, layers.output(), current().final_norm, inv, S, D, gradient, false, g.final_norm,
                    lane);
  const float* dx = layers.backward(gradient, spare, options.full, g);
  if (options.full) embed_gradient(batch, pack, dx);
}

void Trainer::Impl::embed_gradient(const Batch& batch, const Pack& pack, const float* dx) {
  const int64_t D = config().hidden;
  for (int64_t i : pack.sequences) {
    const Batch::Sequence& s = batch.sequences[(size_t)i];
    lane.yield_point();
    for (int64_t t = 0; t < s.rows(); t++, dx += D) {
      float* to = parameters->gradients().embed + s.ids[(size_t)t] * D;
      for (int64_t d = 0; d < D; d++) to[d] += dx[d];
    }
  }
}

Trainer::Trainer(std::shared_ptr<const Weights> base, const TrainOptions& options, Lane& lane)
    : impl_(new Impl(std::move(base), options, lane)) {}
Trainer::~Trainer() = default;

std::shared_ptr<Batch> Trainer::prepare(const TrainSequence* sequences, int64_t n) {
  auto batch = std::make_shared<Batch>(sequences, n, *impl_->base, impl_->options.first_layer);
  impl_->fill_lower(*batch);
  return batch;
}

LossReport Trainer::forward_backward(Batch& batch, const SequenceLoss* const* losses,
                                     std::vector<std::vector<float>>* cur_logprobs) {
  Impl& t = *impl_;
  OC_CHECK(batch.base == t.base.get() && batch.first_layer == t.options.first_layer, Code::E_ARGUMENT,
           "batch: was prepared for other weights or another first layer");
  std::vector<int64_t> active;
  if (cur_logprobs) cur_logprobs->assign((size_t)batch.size(), {});
  for (int64_t i = 0; i < batch.size(); i++) {
    if (!losses[i]) continue;
    const int64_t tokens = (int64_t)batch.sequences[(size_t)i].ids.size();
    check_loss(*losses[i], i, tokens);
    const int64_t R = tokens - losses[i]->from;
    if (cur_logprobs) (*cur_logprobs)[(size_t)i].resize((size_t)R);
    if (cur_logprobs || unmasked_positions(*losses[i], R) > 0) active.push_back(i);
  }
  t.fill_base(batch, losses);
  LossSums sums;
  for (const Pack& pack : make_packs(batch, active, t.pack_rows()))
    t.run_pack(batch, pack, losses, cur_logprobs, sums);
  return sums.finish();
}

Trainer::StepReport Trainer::optim_step(float lr, float beta1, float beta2, float eps, float weight_decay,
                                        float max_grad_norm, float stop_norm) {
  Impl& t = *impl_;
  StepReport report;
  report.grad_norm = t.parameters->gradient_norm(t.lane);
  report.skipped =
      !std::isfinite(report.grad_norm) || (stop_norm > 0 && report.grad_norm > (double)stop_norm);
  if (report.skipped) return report;
  // torch.nn.utils.clip_grad_norm_
  const double clip =
      max_grad_norm > 0 ? std::min(1.0, (double)max_grad_norm / (report.grad_norm + 1e-6)) : 1;
  const AdamW step{lr, beta1, beta2, eps, weight_decay, ++t.step, (float)clip};
  for (Parameter& p : t.parameters->list())
    adamw_step(p.value, p.gradient.data(), p.m.data(), p.v.data(), p.size, step, t.lane);
  return report;
}

void Trainer::zero_grad() { impl_->parameters->zero_gradients(); }

Snapshot Trainer::snapshot(const std::string& version, DType dtype) const {
  if (impl_->masters) return {impl_->masters->copy(dtype), nullptr, version};
  return {impl_->base, std::make_shared<const Adapter>(*impl_->adapter), version};
}

std::map<std::string, std::vector<float>> Trainer::export_state(bool moments) const {
  return impl_->parameters->export_values(moments);
}

void Trainer::import_state(const std::map<std::string, std::vector<float>>& state, int64_t step) {
  OC_CHECK(step >= 0, Code::E_ARGUMENT, "step: expected >= 0, got %lld", (long long)step);
  impl_->parameters->import_values(state);
  impl_->step = step;
}

int64_t Trainer::step() const { return impl_->step; }

std::map<std::string, std::vector<float>> Trainer::export_gradients() const {
  return impl_->parameters->export_gradients();
}

}  // namespace openclaw
