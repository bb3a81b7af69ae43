/**
 * From scored turns to the losses the learner takes. Pure.
 *
 *   L = w_RL · mean over turns with a reward of (mean over tokens of L^GRPO)
 *     + w_OPD · mean over turns with a hint of (mean over tokens of L^OPD)
 *     + beta · mean over turns that have a term above of (mean over tokens of k3(current || base))
 *     + w_anchor · mean over replayed conversations of KL(base || current)
 *
 * Each term has its own normaliser; a turn without a hint has no OPD term, a turn without a reward no GRPO term. The ratio
 * of the GRPO term compares with the log-probs recorded while serving (the sampler's own), that of the OPD term with those
 * of the weights before this update.
 */
import type { TrainConfig } from './config.js';
import type { SequenceLoss } from './ports.js';
import type { ScoredTurn } from './teacher.js';

/** Below this an advantage moves nothing worth a step. */
export const NEGLIGIBLE_ADVANTAGE = 1e-3;

export interface BatchLosses {
  /** parallel to the turns; null: nothing to say */ losses: Array<SequenceLoss | null>;
  withReward: number;
  withHint: number;
}

export function turnLosses(turns: ScoredTurn[], advantages: Array<number | null>, config: TrainConfig): BatchLosses {
  const moves = (a: number | null | undefined): a is number =>
    typeof a === 'number' && Math.abs(a) > NEGLIGIBLE_ADVANTAGE;
  const withReward = config.wRl > 0 ? advantages.filter((a) => a !== null).length : 0;
  const withHint = config.wOpd > 0 ? turns.filter((t) => t.distill).length : 0;
  const speaks = (turn: ScoredTurn, n: number) =>
    (withReward > 0 && moves(advantages[n])) || (withHint > 0 && turn.distill !== null);
  const speaking = turns.filter(speaks).length;
  const losses = turns.map((turn, n): SequenceLoss | null => {
    const a = advantages[n];
    const rl = withReward > 0 && moves(a);
    const opd = withHint > 0 && turn.distill !== null;
    if (!speaks(turn, n)) return null;
    const T = turn.ids.length - turn.promptLength;
    return {
      from: turn.promptLength,
      epsLow: config.epsLow,
      epsHigh: config.epsHigh,
      deltaClip: config.deltaClip,
      ...(rl && {
        advantage: new Float32Array(T).fill(a),
        oldLogprob: turn.admitted.turn.logprobs!,
        wRl: config.wRl / withReward,
      }),
      ...(opd && {
        k: config.topK,
        topIds: turn.distill!.topIds,
        topOld: turn.distill!.topOld,
        topTeacher: turn.distill!.topTeacher,
        wOpd: config.wOpd / withHint,
      }),
      ...(turn.refLogprobs && { refLogprob: turn.refLogprobs, beta: config.beta / speaking }),
    };
  });
  return { losses, withReward, withHint };
}

/** Has this batch anything to say? If not, the optimiser must not be called: its momentum would walk on by itself. */
export function silence(batch: BatchLosses, config: TrainConfig): string | null {
  if (batch.losses.every((l) => l === null)) return 'no-signal';
  if (config.stepNeedsHint && config.method !== 'rl' && batch.withHint === 0) return 'no-hint';
  return null;
}

/** Mean absolute difference of recorded and rescored log-probs: engine against trainer, for turns of the live version. */
export function logprobGap(turns: ScoredTurn[], live: string): number | null {
  let sum = 0;
  let count = 0;
  for (const t of turns) {
    if (t.admitted.turn.version !== live) continue;
    const recorded = t.admitted.turn.logprobs!;
    for (let i = 0; i < recorded.length; i++) sum += Math.abs(recorded[i]! - t.oldLogprobs[i]!);
    count += recorded.length;
  }
  return count ? sum / count : null;
}
