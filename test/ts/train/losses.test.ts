import { describe, expect, it } from 'vitest';
import { singleReplyAdvantages } from '../../../ts/train/advantage.js';
import { trainConfigSchema } from '../../../ts/train/index.js';
import { logprobGap, silence, turnLosses } from '../../../ts/train/losses.js';
import type { ScoredTurn } from '../../../ts/train/teacher.js';
import { judged } from './fakes.js';

const config = trainConfigSchema.parse({ topK: 2, wRl: 0.5, wOpd: 1 });

function scored(id: string, reward: number | null, hinted: boolean): ScoredTurn {
  const one = judged(id);
  const T = one.turn.responseIds.length;
  return {
    admitted: { ...one, reward, hints: hinted ? ['a hint'] : [] },
    ids: new Int32Array(7),
    promptLength: 3,
    oldLogprobs: new Float32Array(T).fill(-0.75),
    refLogprobs: null,
    distill: hinted
      ? {
          topIds: new Int32Array(T * 2),
          topOld: new Float32Array(T * 2),
          topTeacher: new Float32Array(T * 2),
          hint: 0,
          sums: [1],
          gain: 0,
        }
      : null,
  };
}

describe('losses of a batch', () => {
  it('gives each term its own normaliser', () => {
    const turns = [scored('a', 1, true), scored('b', -1, false), scored('c', null, true), scored('d', 1, false)];
    const { losses, withReward, withHint } = turnLosses(turns, [1, -1, null, 1], config);
    expect([withReward, withHint]).toEqual([3, 2]);
    expect(losses[0]).toMatchObject({ wRl: 0.5 / 3, wOpd: 1 / 2, from: 3, k: 2 });
    expect(losses[1]?.wOpd).toBeUndefined();
    expect(losses[1]?.topIds).toBeUndefined();
    expect(losses[2]?.wRl).toBeUndefined();
    expect(losses[2]?.advantage).toBeUndefined();
  });

  it('holds turns that speak to the base when beta is set, and only those', () => {
    const turns = [scored('a', 1, true), scored('b', 1, false)].map((t) => ({
      ...t,
      refLogprobs: new Float32Array(4).fill(-1),
    }));
    const { losses } = turnLosses(turns, [1, 0], { ...config, beta: 0.02 });
    expect(losses[0]).toMatchObject({ beta: 0.02, refLogprob: turns[0]?.refLogprobs });
    expect(losses[1]).toBeNull();
    expect(turnLosses([scored('a', 1, true)], [1], config).losses[0]?.refLogprob).toBeUndefined();
  });

  it('compares the reward term with what the sampler recorded', () => {
    const turns = [scored('a', 1, false)];
    expect(turnLosses(turns, [1], config).losses[0]?.oldLogprob).toBe(turns[0]?.admitted.turn.logprobs);
  });

  it('is silent when every advantage is 0 and there is no hint', () => {
    const praised = turnLosses([scored('a', 1, false)], [0], config);
    expect(silence(praised, config)).toBe('no-signal');
    const hinted = turnLosses([scored('a', 1, true)], [0], config);
    expect(silence(hinted, config)).toBeNull();
    const needy = { ...config, stepNeedsHint: true };
    expect(silence(turnLosses([scored('a', 1, false)], [1], needy), needy)).toBe('no-hint');
    expect(silence(turnLosses([scored('a', 1, false)], [1], needy), { ...needy, method: 'rl' })).toBeNull();
  });

  it('measures the gap between engine and trainer on turns of the live version only', () => {
    expect(logprobGap([scored('a', 1, false)], 'fake@0-00000000')).toBeCloseTo(0.25, 6);
    expect(logprobGap([scored('a', 1, false)], 'fake@1-00000000')).toBeNull();
  });
});

describe('advantages of single replies', () => {
  it('is the reward itself without a baseline, never normalised by a group of one', () => {
    expect(singleReplyAdvantages([1], { mean: 0.3 }, { kind: 'none', decay: 0.8 }).advantages).toEqual([1]);
  });
  it('counts the first rewards in full, then what differs from the running mean', () => {
    const first = singleReplyAdvantages([-1, -1], { mean: null }, { kind: 'running', decay: 0.5 });
    expect(first.advantages).toEqual([-1, -1]);
    expect(first.baseline.mean).toBe(-0.5);
    expect(singleReplyAdvantages([1, null], first.baseline, { kind: 'running', decay: 0.5 }).advantages).toEqual([
      1.5,
      null,
    ]);
  });
  it('keeps absent rewards absent and leaves the baseline alone when there are none', () => {
    const none = singleReplyAdvantages([null], { mean: 0.25 }, { kind: 'running', decay: 0.5 });
    expect(none).toEqual({ advantages: [null], baseline: { mean: 0.25 } });
  });
});
