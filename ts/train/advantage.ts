/**
 * From rewards to advantages of single replies (N = 1). Pure.
 *
 * With `none`, A = r (the paper). With `running`, A = r - b, b an exponential mean of earlier rewards: praise that always
 * comes, or blame that always comes, then says little. A group of one must never be normalised by its own deviation: that
 * makes every advantage 0.
 */
export interface Baseline {
  /** mean of earlier rewards, null before the first */ mean: number | null;
}

export interface Advantages {
  /** parallel to the rewards; null where there is no reward */ advantages: Array<number | null>;
  baseline: Baseline;
}

export function singleReplyAdvantages(
  rewards: Array<number | null>,
  baseline: Baseline,
  o: { kind: 'none' | 'running'; decay: number },
): Advantages {
  const known = rewards.filter((r): r is number => r !== null);
  if (o.kind === 'none' || known.length === 0) return { advantages: rewards.slice(), baseline };
  const batchMean = known.reduce((a, b) => a + b, 0) / known.length;
  // Before the first batch nothing is known: 0 is the middle of the scale, so the first rewards count in full.
  const b = baseline.mean ?? 0;
  const mean = o.decay * b + (1 - o.decay) * batchMean;
  return { advantages: rewards.map((r) => (r === null ? null : r - b)), baseline: { mean } };
}
