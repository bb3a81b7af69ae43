/** What is computed over hints, groups of rollouts and steps: the choice of a hint, advantages, integrated rewards. */
import type {
  GroupAdvantages,
  GroupAdvantagesOptions,
  HintOverlap,
  HintOverlapOptions,
  StepRewards,
  StepRewardsOptions,
} from '../../lib/kernels.js';
import { call, settle } from './call.js';

/**
 * How many of the student's top ids each hint's teacher shares at each position, O[h, t] = |S^q_t ∩ S^p_{h,t}|, and which hint that
 * chooses: for the whole reply argmax_h Σ_t O[h, t], for each position argmax_h O[h, t]; ties go to the lower hint.
 *
 * An id below 0 is padding and matches nothing; an id that occurs twice in a row counts once.
 *
 * @throws OpenClawError E_DTYPE, E_SHAPE (lengths that do not fit), E_ARGUMENT. `argument` names the field.
 */
export function hintOverlap(options: HintOverlapOptions): HintOverlap {
  return call('hintOverlap', options);
}

/** {@link hintOverlap} off the main thread; do not change or transfer the arrays until the promise settles. */
export function hintOverlapAsync(options: HintOverlapOptions): Promise<HintOverlap> {
  return settle('hintOverlapAsync', options);
}

/**
 * Step-index group advantages: actions with the same group and step form a group, A = (R - mean) / (std + 1e-6) with the
 * population's std. A group of one or of equal rewards has A = 0 exactly and is counted; so has an action without a reward.
 *
 * Source: GRPO (Shao et al. 2024), grouped by step index.
 *
 * @throws OpenClawError E_DTYPE, E_SHAPE, E_NOT_FINITE (a present reward that is not finite). `argument` names the field.
 */
export function groupAdvantages(options: GroupAdvantagesOptions): GroupAdvantages {
  return call('groupAdvantages', options);
}

/** {@link groupAdvantages} off the main thread; do not change or transfer the arrays until the promise settles. */
export function groupAdvantagesAsync(options: GroupAdvantagesOptions): Promise<GroupAdvantages> {
  return settle('groupAdvantagesAsync', options);
}

/**
 * Integrated step rewards R_t = o_t + mean of the readable votes on step t. A vote that failed is left out, not counted as 0; a step
 * without any readable vote has no reward (present 0), or R_t = o_t with `outcomeAlone`.
 *
 * @throws OpenClawError E_DTYPE, E_SHAPE, E_NOT_FINITE (a readable vote or an outcome that is not finite). `argument` names the field.
 */
export function stepRewards(options: StepRewardsOptions): StepRewards {
  return call('stepRewards', options);
}

/** {@link stepRewards} off the main thread; do not change or transfer the arrays until the promise settles. */
export function stepRewardsAsync(options: StepRewardsOptions): Promise<StepRewards> {
  return settle('stepRewardsAsync', options);
}
