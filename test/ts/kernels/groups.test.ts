import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  groupAdvantages,
  groupAdvantagesAsync,
  hintOverlap,
  hintOverlapAsync,
  stepRewards,
  stepRewardsAsync,
} from '../../../ts/kernels/index.js';
import { floats, near } from './numbers.js';

const overlapInput = fc
  .record({
    positions: fc.integer({ min: 1, max: 12 }),
    hints: fc.integer({ min: 1, max: 4 }),
    k: fc.integer({ min: 1, max: 20 }),
  })
  .chain((shape) => {
    const ids = (n: number) =>
      fc.array(fc.integer({ min: -2, max: 30 }), { minLength: n, maxLength: n }).map((list) => Int32Array.from(list));
    return fc.record({
      positions: fc.constant(shape.positions),
      hints: fc.constant(shape.hints),
      k: fc.constant(shape.k),
      student: ids(shape.positions * shape.k),
      teachers: ids(shape.hints * shape.positions * shape.k),
      mask: fc
        .array(fc.boolean(), { minLength: shape.positions, maxLength: shape.positions })
        .map((on) => Uint8Array.from(on, Number)),
    });
  });

describe('hintOverlap', () => {
  it('counts what sets have in common and chooses the largest sum, the lower hint on ties', () => {
    fc.assert(
      fc.property(overlapInput, (input) => {
        const { positions: T, hints: M, k } = input;
        const r = hintOverlap(input);
        const sums = Array.from({ length: M }, () => 0);
        for (let t = 0; t < T; t++) {
          const mine = new Set(input.student.subarray(t * k, (t + 1) * k));
          for (let h = 0; h < M; h++) {
            const theirs = new Set(input.teachers.subarray((h * T + t) * k, (h * T + t + 1) * k));
            const both = input.mask[t] ? [...mine].filter((id) => id >= 0 && theirs.has(id)).length : 0;
            expect(r.overlap[h * T + t]).toBe(both);
            sums[h]! += both;
          }
          const here = sums.map((_, h) => r.overlap[h * T + t]!);
          expect(r.tokenChoice[t]).toBe(input.mask[t] ? here.indexOf(Math.max(...here)) : -1);
        }
        expect(Array.from(r.totals)).toEqual(sums);
        expect(r.choice).toBe(sums.indexOf(Math.max(...sums)));
      }),
      { numRuns: 80 },
    );
  });

  it('answers the same off the main thread', async () => {
    const input = {
      positions: 1,
      hints: 2,
      k: 2,
      student: Int32Array.of(1, 2),
      teachers: Int32Array.of(3, 4, 2, 5),
    };
    expect(await hintOverlapAsync(input)).toEqual(hintOverlap(input));
    expect(hintOverlap(input).choice).toBe(1);
  });
});

describe('groupAdvantages', () => {
  const actions = fc.array(
    fc.record({
      reward: floats(-3, 3),
      group: fc.integer({ min: 0, max: 2 }),
      step: fc.integer({ min: 0, max: 1 }),
      present: fc.boolean(),
    }),
    { minLength: 1, maxLength: 40 },
  );

  it('is (R - mean) / (std + 1e-6) within each group and step', () => {
    fc.assert(
      fc.property(actions, (list) => {
        const r = groupAdvantages({
          rewards: Float32Array.from(list, (a) => (a.present ? a.reward : NaN)),
          group: Int32Array.from(list, (a) => a.group),
          step: Int32Array.from(list, (a) => a.step),
          present: Uint8Array.from(list, (a) => Number(a.present)),
        });
        list.forEach((a, i) => {
          const peers = list.filter((b) => b.present && b.group === a.group && b.step === a.step).map((b) => b.reward);
          const mean = peers.reduce((s, x) => s + x, 0) / peers.length;
          const std = Math.sqrt(peers.reduce((s, x) => s + (x - mean) ** 2, 0) / peers.length);
          const silent = !a.present || peers.every((x) => x === peers[0]);
          if (silent) expect(r.advantages[i]).toBe(0);
          else expect(near(r.advantages[i]!, (a.reward - mean) / (std + 1e-6), 1e-5)).toBe(true);
        });
        expect(r.absent).toBe(list.filter((a) => !a.present).length);
      }),
    );
  });

  it('counts groups that teach nothing, and leaves the std out on request', async () => {
    const input = { rewards: Float32Array.of(1, 1, 5, 0, 2), group: Int32Array.of(0, 0, 1, 2, 2) };
    const r = groupAdvantages({ ...input, normalise: false });
    expect(r).toMatchObject({ groups: 3, singles: 1, equal: 1, absent: 0 });
    expect(Array.from(r.advantages)).toEqual([0, 0, 0, -1, 1]);
    expect(await groupAdvantagesAsync(input)).toEqual(groupAdvantages(input));
  });
});

describe('stepRewards', () => {
  it('adds the mean of the readable votes to the outcome; without any there is no reward', async () => {
    const input = {
      steps: 3,
      votesPerStep: 3,
      votes: Float32Array.of(1, 1, -1, -1, NaN, Infinity, NaN, NaN, NaN),
      readable: Uint8Array.of(1, 1, 1, 1, 0, 0, 0, 0, 0),
      outcome: Float32Array.of(1, 0.5, 1),
    };
    const r = stepRewards(input);
    expect(near(r.rewards[0]!, 4 / 3, 1e-7)).toBe(true);
    expect(r.rewards[1]).toBe(-0.5);
    expect(Array.from(r.present)).toEqual([1, 1, 0]);
    expect(r).toMatchObject({ presentSteps: 2, absentSteps: 1, readableVotes: 4, failedVotes: 5 });
    expect(stepRewards({ ...input, outcomeAlone: true }).rewards[2]).toBe(1);
    expect(await stepRewardsAsync(input)).toEqual(r);
  });
});
