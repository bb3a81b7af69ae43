/**
 * The RL kernels as the native binary exports them: options and results of each, typed and described. ts/kernels wraps them and says
 * what they compute.
 *
 * Letters: T positions (rows) · V vocabulary · k width of a top-k · M hints · N turns. Arrays are row-major. `[T, k]` means T * k
 * elements. A mask has one byte a row; 0 means: counts nowhere, is not looked at.
 */

/** Logits [T, V]: f32, or the bits of bf16. */
export interface LogitsInput {
  /** [T, stride] f32 as Float32Array, bf16 as its bits in a Uint16Array; the last row may end after V elements. */
  logits: Float32Array | Uint16Array;
  /** T, at least 1 */
  rows: number;
  /** V, 1..2^31-1. Columns beyond V (padding of the vocabulary) are not looked at. */
  vocab: number;
  /** elements from row to row, at least V; V when absent */
  stride?: number;
  /** true: the calling thread alone; the results are the same bits either way */
  singleThread?: boolean;
}

export interface LogitStatsOptions extends LogitsInput {
  /** tau > 0, 1e-6..1e6; everything is of softmax(z / tau). Default 1: the model itself, not the sampler. */
  temperature?: number;
  /** [T]; 0 skips the row: flags 16, numbers NaN, ids -1 */
  mask?: Uint8Array;
  /** width of the top, 0..V; 0 (the default): none */
  k?: number;
  /** [T, g] ids whose log-probs are wanted, 0..V-1; an id below 0 is padding and gets -Infinity. g is what the length gives. */
  gather?: Int32Array;
  /** true: compute the entropy too (about a quarter more time) */
  entropy?: boolean;
}
export interface LogitStats {
  /** [T] largest z / tau */ max: Float32Array;
  /** [T] log of the sum of exp(z / tau - max) */ logSum: Float32Array;
  /** [T] max + logSum; log p(j) = (z_j / tau - max) - logSum is the more exact form */ lse: Float32Array;
  /** [T] sum of rowFlag values; 0: an ordinary row */ flags: Uint8Array;
  /** [T] nats, when asked */ entropy?: Float32Array;
  /** [T, k] most likely first, equal ones by id; -1 where there are no more */ topIds?: Int32Array;
  /** [T, k] their log-probs, -Infinity at id -1 */ topLogprobs?: Float32Array;
  /** [T, g] */ gathered?: Float32Array;
}

export interface LogitGradOptions extends LogitsInput {
  /** as given to logitStats */ temperature?: number;
  /** [T] finite; this, or max and logSum */ lse?: Float32Array;
  /** [T] finite, with logSum: exact for rows with a large common offset */ max?: Float32Array;
  /** [T] finite, with max */ logSum?: Float32Array;
  /** [T, g] ids, 0..V-1, any of them twice; below 0: padding */ ids: Int32Array;
  /** [T, g] finite: dL / d log p(id) */ grads: Float32Array;
  /** [T, stride] where to write; the f32 logits themselves are allowed. A new array when absent. */ out?: Float32Array;
}
export interface LogitGrad {
  /** [T, stride] dL / dz; `out` itself when given; columns beyond V are left alone */ dz: Float32Array;
}

export interface CrossEntropyOptions extends LogitsInput {
  /** [T] 0..V-1; below 0: the row is ignored */ ids: Int32Array;
  /** [T] */ mask?: Uint8Array;
  /** over the counted rows; default 'mean' */ reduction?: 'mean' | 'sum';
  /** multiplies total and gradient; default 1 */ scale?: number;
  /** default true */ gradient?: boolean;
  /** [T, stride] where to write the gradient; the f32 logits themselves are allowed */ out?: Float32Array;
}
export interface CrossEntropy {
  /** [T] -log p(id), 0 where ignored */ loss: Float32Array;
  /** [T, stride] d total / dz, when asked */ dz?: Float32Array;
  /** mean or sum, scaled; 0 when no row counts */ total: number;
  /** rows that count */ counted: number;
}

/** The clip of a ratio. */
export interface ClipOptions {
  /** 0..1, default 0.2 */ epsLow?: number;
  /** 0..100, default 0.28 */ epsHigh?: number;
}
/** How often the clip of a ratio bit, and its exponent was clamped to ±20. */
export interface ClipCounts {
  /** rho < 1 - epsLow with A < 0 */ low: number;
  /** rho > 1 + epsHigh with A > 0 */ high: number;
  /** |current - old| > 20 */ exponentClamped: number;
}

export interface PpoLossOptions extends ClipOptions {
  /** [T] log pi_cur(y) */ current: Float32Array;
  /** [T] log pi_old(y), as recorded when y was sampled */ old: Float32Array;
  /** [T] A */ advantage: Float32Array;
  /** [T] */ mask?: Uint8Array;
}
export interface PpoLoss {
  /** [T] */ loss: Float32Array;
  /** [T] d loss[t] / d current[t] */ grad: Float32Array;
  /** of loss over unmasked positions; 0 without any */ mean: number;
  /** of rho */ meanRatio: number;
  /** unmasked positions */ tokens: number;
  clip: ClipCounts;
}

export interface OpdLossOptions extends ClipOptions {
  /** T */ positions: number;
  /** k, at least 1 */ k: number;
  /** [T, k] log pi_cur(v), of the full vocabulary */ current: Float32Array;
  /** [T, k] log pi_old(v) */ old: Float32Array;
  /** [T, k] log pi_T(v), the teacher's */ teacher: Float32Array;
  /** [T, k]; below 0: padding, in no sum. Absent: no padding. */ ids?: Int32Array;
  /** [T] */ mask?: Uint8Array;
  /** C: log-prob differences are clipped to ±C; 0..20, default 1 */ deltaClip?: number;
}
export interface OpdLoss {
  /** [T] */ loss: Float32Array;
  /** [T, k] d loss[t] / d current[t, v] */ grad: Float32Array;
  /** of loss over unmasked positions; 0 without any */ mean: number;
  /** unmasked positions */ tokens: number;
  /** entries that are no padding */ entries: number;
  /** of them, those whose difference to the teacher was clipped */ deltaClipped: number;
  clip: ClipCounts;
}

export interface HybridLossOptions extends ClipOptions {
  /** [N + 1]: turn n is positions offsets[n]..offsets[n+1]-1; from 0 to T, ascending */ offsets: Int32Array;
  /** [T] */ mask?: Uint8Array;
  /** [T] log pi_cur(y); needed with advantage or reference */ current?: Float32Array;
  /** [T] log pi_old(y), with advantage */ old?: Float32Array;
  /** [T]; absent: no policy-gradient term at all */ advantage?: Float32Array;
  /** [N] 1: the turn has a reward. Absent: every turn has. */ hasReward?: Uint8Array;
  /** width of the top */ k?: number;
  /** [T, k] ids the OPD term looks at, below 0: padding; absent: no OPD term at all */ topIds?: Int32Array;
  /** [T, k] */ topCurrent?: Float32Array;
  /** [T, k] */ topOld?: Float32Array;
  /** [T, k] the teacher's */ topTeacher?: Float32Array;
  /** [N] 1: the turn has a hint. Absent: every turn has. */ hasHint?: Uint8Array;
  /** [T] log pi_ref(y); absent: no KL term */ reference?: Float32Array;
  /** w_RL, default 1 */ wRl?: number;
  /** w_OPD, default 1 */ wOpd?: number;
  /** weight of the KL, default 0 */ beta?: number;
  /** C, 0..20, default 1 */ deltaClip?: number;
  /**
   * turn-mean (default): over a turn's unmasked positions, then over the turns that have the term; token-mean: over all unmasked
   * positions of the turns that have the term; fixed: sum / divisor
   */
  aggregate?: 'turn-mean' | 'token-mean' | 'fixed';
  /** of 'fixed' */ divisor?: number;
}
export interface HybridLoss {
  /** [T] each position's share of total */ loss: Float32Array;
  /** [T] d total / d current */ gradToken: Float32Array;
  /** [T, k] d total / d topCurrent, with topIds */ gradTop?: Float32Array;
  /** rl + opd + k3, each weighted and normalised */ total: number;
  rl: number;
  opd: number;
  k3: number;
  /** unmasked positions */ tokens: number;
  /** with a reward and an unmasked position: what rl is divided by */ turnsWithReward: number;
  /** likewise opd */ turnsWithHint: number;
  /** likewise k3 */ turnsWithTokens: number;
  deltaClipped: number;
  topEntries: number;
  /** of the policy-gradient ratios; 1 without any */ meanRatio: number;
  rlClip: ClipCounts;
  opdClip: ClipCounts;
}

export interface HintOverlapOptions {
  /** T */ positions: number;
  /** M */ hints: number;
  k: number;
  /** [T, k] the student's top ids; below 0: padding */ student: Int32Array;
  /** [M, T, k] the teachers' */ teachers: Int32Array;
  /** [T] */ mask?: Uint8Array;
}
export interface HintOverlap {
  /** [M, T] ids in common, 0..k; 0 where masked */ overlap: Int32Array;
  /** [M] sums over the unmasked positions */ totals: Float64Array;
  /** the hint with the largest total; the lowest of equal ones */ choice: number;
  /** [T] the hint with the largest overlap there; the lowest of equal ones; -1 where masked */ tokenChoice: Int32Array;
}

export interface GroupAdvantagesOptions {
  /** [n] finite where present */ rewards: Float32Array;
  /** [n] the task's id */ group: Int32Array;
  /** [n] step index; all 0 when absent */ step?: Int32Array;
  /** [n] 0: this action has no reward. Absent: all have. */ present?: Uint8Array;
  /** default true; false: R - mean, without the division */ normalise?: boolean;
}
export interface GroupAdvantages {
  /** [n]; exactly 0 for groups of one, of equal rewards, and where absent */ advantages: Float32Array;
  /** groups with at least one reward */ groups: number;
  /** of them, groups of one */ singles: number;
  /** of them, groups of several equal rewards */ equal: number;
  /** actions without a reward */ absent: number;
}

export interface StepRewardsOptions {
  /** T */ steps: number;
  /** m, at least 1 */ votesPerStep: number;
  /** [T, m] finite where readable */ votes: Float32Array;
  /** [T, m] 0: the vote failed and is left out. Absent: all were readable. */ readable?: Uint8Array;
  /** [T] o, the episode's outcome at each of its steps; absent: nothing is added */ outcome?: Float32Array;
  /** true: a step without a readable vote has R = o instead of no reward. Default false. */ outcomeAlone?: boolean;
}
export interface StepRewards {
  /** [T]; 0 where there is none: look at present */ rewards: Float32Array;
  /** [T] 1: the step has a reward */ present: Uint8Array;
  presentSteps: number;
  absentSteps: number;
  readableVotes: number;
  failedVotes: number;
}

/** One entry: at once, or off the main thread. */
type Both<Name extends string, Options, Result> = { [N in Name]: (options: Options) => Result } & {
  [N in `${Name}Async`]: (options: Options) => Promise<Result>;
};

export type NativeKernels = Both<'logitStats', LogitStatsOptions, LogitStats> &
  Both<'logitGrad', LogitGradOptions, LogitGrad> &
  Both<'crossEntropy', CrossEntropyOptions, CrossEntropy> &
  Both<'ppoLoss', PpoLossOptions, PpoLoss> &
  Both<'opdLoss', OpdLossOptions, OpdLoss> &
  Both<'hybridLoss', HybridLossOptions, HybridLoss> &
  Both<'hintOverlap', HintOverlapOptions, HintOverlap> &
  Both<'groupAdvantages', GroupAdvantagesOptions, GroupAdvantages> &
  Both<'stepRewards', StepRewardsOptions, StepRewards>;
