/**
 * The losses of the method on log-probs, with their gradients. `logitGrad` takes the gradients on to the logits. Arithmetic is
 * double inside.
 *
 * In all of them the ratio is rho = exp(clamp(current - old, -20, 20)) and the clipped loss of an entry with advantage A is
 * max(-A rho, -A clip(rho, 1 - epsLow, 1 + epsHigh)); its gradient with respect to current is -A rho where the first is the
 * larger or they are equal, else 0, and 0 where the exponent was clamped.
 */
import type {
  HybridLoss,
  HybridLossOptions,
  OpdLoss,
  OpdLossOptions,
  PpoLoss,
  PpoLossOptions,
} from '../../lib/kernels.js';
import { call, settle } from './call.js';

/**
 * The clipped policy-gradient loss of each position. With current = old the gradient is -A: REINFORCE.
 *
 * Source: PPO (Schulman et al. 2017) with two epsilons (DAPO's clip-higher), as GRPO uses it.
 *
 * @throws OpenClawError E_DTYPE, E_SHAPE, E_NOT_FINITE (an unmasked number that is not finite), E_ARGUMENT (a log-prob above 0, an
 * epsilon out of range). `argument` names the field.
 */
export function ppoLoss(options: PpoLossOptions): PpoLoss {
  return call('ppoLoss', options);
}

/** {@link ppoLoss} off the main thread; do not change or transfer the arrays until the promise settles. */
export function ppoLossAsync(options: PpoLossOptions): Promise<PpoLoss> {
  return settle('ppoLossAsync', options);
}

/**
 * Top-k distillation of a teacher that saw the hint. Over the k entries v of a position:
 * w_v = softmax over the entries of old(v); Δ_v = clip(teacher(v) - old(v), ±C); A_v = Δ_v w_v (all constant); the loss is the sum of
 * the clipped losses of the entries. Log-probs are those of the full vocabulary.
 *
 * Source: on-policy distillation of OpenClaw-RL, equation (1) of its top-k form.
 *
 * @throws OpenClawError as {@link ppoLoss}.
 */
export function opdLoss(options: OpdLossOptions): OpdLoss {
  return call('opdLoss', options);
}

/** {@link opdLoss} off the main thread; do not change or transfer the arrays until the promise settles. */
export function opdLossAsync(options: OpdLossOptions): Promise<OpdLoss> {
  return settle('opdLossAsync', options);
}

/**
 * The hybrid objective of a batch of turns: wRl · policy gradient + wOpd · distillation + beta · k3, k3 = exp(d) - 1 - d with
 * d = clamp(reference - current, ±20), an unbiased estimate of KL(current || reference).
 *
 * A turn without a reward has no policy-gradient term, one without a hint no distillation; each term is averaged over the turns
 * that have it. Masked positions and absent terms count nowhere, and their numbers are not looked at.
 *
 * @throws OpenClawError as {@link ppoLoss}; E_ARGUMENT also when a term is given in part, or none is.
 */
export function hybridLoss(options: HybridLossOptions): HybridLoss {
  return call('hybridLoss', options);
}

/** {@link hybridLoss} off the main thread; do not change or transfer the arrays until the promise settles. */
export function hybridLossAsync(options: HybridLossOptions): Promise<HybridLoss> {
  return settle('hybridLossAsync', options);
}
