// The training pass: forward with activations kept (or recomputed), losses from log-probs, backward, AdamW.
//
// A Trainer owns the parameters being trained (a LoRA adapter, or f32 masters of every weight), their
// gradients and the optimiser's moments. The base weights stay immutable and shared with serving. All methods
// run on the train lane, called by one thread at a time.
#pragma once
#include <map>

#include "native/model/forward.h"

namespace openclaw {

// The loss of one sequence's positions. Position i (0..R-1) is the prediction of token ids[from + i], from
// the hidden state of token from+i-1. Arrays are null when the term is absent: absent is not zero.
struct SequenceLoss {
  int64_t from = 1;             // first predicted token, >= 1; R = count - from
  const float* mask = nullptr;  // [R] 0/1; null = all ones
  float weight = 1;  // w of cross-entropy: loss += weight * mean over unmasked of -log p(y)   (0: none)
  bool cross_entropy = false;
  // PPO-clip: needs advantage [R] and old_logprob [R]
  const float *advantage = nullptr, *old_logprob = nullptr;
  float w_rl = 0;  // already divided by the number of turns with a reward
  // OPD: top_ids [R,k], top_old [R,k], top_teacher [R,k]; ids < 0 are padding
  int64_t k = 0;
  const int32_t* top_ids = nullptr;
  const float *top_old = nullptr, *top_teacher = nullptr;
  float w_opd = 0;  // already divided by the number of turns with a hint
  // k3 KL to a reference on the sampled tokens: ref_logprob [R]
  const float* ref_logprob = nullptr;
  float beta = 0;
  // KL(base || current) over whole distributions (the anchor): base = the same weights without the adapter
  float w_anchor = 0;
  float eps_low = 0.2f, eps_high = 0.28f, delta_clip = 1.0f;
};

struct TrainSequence {
  const int32_t* ids = nullptr;
  int64_t count = 0;
};

struct LossReport {  // sums over the sequences of one call, each already weighted as in the loss
  double loss = 0, ce = 0, rl = 0, opd = 0, k3 = 0, anchor = 0;
  int64_t tokens = 0, ratio_clipped_low = 0, ratio_clipped_high = 0, delta_clipped = 0, top_entries = 0,
          exponent_clamped = 0;
  double mean_ratio = 0, entropy = 0;  // means over unmasked tokens
};

struct TrainOptions {
  bool full = false;  // all parameters; else LoRA
  int64_t rank = 8;
  float alpha = 16;
  std::vector<int> targets = {Q, K, V, O, Gate, Up, Down};
  int64_t first_layer = 0;  // layers below are frozen (LoRA only); their outputs are computed once per Batch
  uint64_t seed = 0;        // A ~ U(-1/sqrt(in), 1/sqrt(in)) as peft's kaiming(a=sqrt 5), B = 0
  int64_t activation_bytes = 512ll << 20;  // above this, layers are recomputed in the backward pass
};

// Sequences whose frozen lower layers have been run: several epochs reuse them. Copies ids.
class Batch;

class Trainer {
 public:
  // Throws E_ARGUMENT naming the option, E_MEMORY. A full trainer holds 16 bytes per parameter, a LoRA
  // trainer as many per entry of the adapter.
  Trainer(std::shared_ptr<const Weights> base, const TrainOptions&, Lane& lane);
  ~Trainer();
  // Sequences of 2..context tokens. Throws E_ARGUMENT, E_TOKEN_ID, E_CONTEXT naming the sequence.
  std::shared_ptr<Batch> prepare(const TrainSequence* sequences, int64_t n);
  // Adds gradients. losses[i] belongs to sequence i of the batch; a null entry leaves that sequence out, and
  // so does a mask of zeros. `cur_logprobs`, when not null, gets one array per sequence [R_i] of log p(y)
  // under the current parameters, masked positions included. A term is a mean over the unmasked positions of
  // its sequence, times its weight. Throws E_ARGUMENT, E_NOT_FINITE, E_TOKEN_ID before anything is added,
  // unless it is a top id that is out of range; and E_ABORTED when the gate is cancelled. After a throw the
  // gradients are not whole: zero them.
  LossReport forward_backward(Batch&, const SequenceLoss* const* losses,
                              std::vector<std::vector<float>>* cur_logprobs);
  struct StepReport {
    double grad_norm = 0;  // over all parameters together, before clipping
    bool skipped = false;  // the norm was not finite or was above `stop_norm`; nothing changed
  };
  // AdamW on every parameter. Gradients are multiplied by min(1, max_grad_norm / (norm + 1e-6)) first
  // (max_grad_norm <= 0: not clipped; stop_norm <= 0: never stopped). Gradients stay as they are.
  StepReport optim_step(float lr, float beta1, float beta2, float eps, float weight_decay,
                        float max_grad_norm, float stop_norm);
  void zero_grad();
  // A snapshot of the parameters as they are now: immutable, independent of later steps. dtype: of the
  // matrices of a full trainer's copy; an adapter is always f32 over the shared base.
  Snapshot snapshot(const std::string& version, DType dtype) const;
  // Parameters and moments by name, for checkpoints: "layers.3.q_proj.A" or, in full training, the Hugging
  // Face name; with
  // ".m" and ".v" for the moments. Import wants every parameter and takes missing moments as zero; throws
  // E_ARGUMENT or E_SHAPE and changes nothing when names or sizes do not fit.
  std::map<std::string, std::vector<float>> export_state(bool moments) const;
  void import_state(const std::map<std::string, std::vector<float>>&, int64_t step);
  int64_t step() const;
  // gradients by the same names, for tests
  std::map<std::string, std::vector<float>> export_gradients() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace openclaw
