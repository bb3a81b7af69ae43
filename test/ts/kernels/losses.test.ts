import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  hybridLoss,
  hybridLossAsync,
  logitGrad,
  logitStats,
  opdLoss,
  opdLossAsync,
  ppoLoss,
  ppoLossAsync,
} from '../../../ts/kernels/index.js';
import { clamp, floats, logprob, near, ppoFormula } from './numbers.js';

const positions = fc.array(fc.record({ current: logprob, old: logprob, A: floats(-3, 3), on: fc.boolean() }), {
  minLength: 1,
  maxLength: 30,
});
const f32 = <T>(items: T[], of: (item: T) => number): Float32Array => Float32Array.from(items, of);

describe('ppoLoss', () => {
  it('is the clipped loss of each position', () => {
    fc.assert(
      fc.property(positions, (list) => {
        const result = ppoLoss({
          current: f32(list, (p) => p.current),
          old: f32(list, (p) => p.old),
          advantage: f32(list, (p) => p.A),
          mask: Uint8Array.from(list, (p) => (p.on ? 1 : 0)),
        });
        expect(result.tokens).toBe(list.filter((p) => p.on).length);
        list.forEach((p, t) => {
          const expected = p.on ? ppoFormula(p.current, p.old, p.A) : 0;
          expect(near(result.loss[t]!, expected, 1e-6)).toBe(true);
          if (!p.on) expect(result.grad[t]).toBe(0);
        });
      }),
    );
  });

  it('with ratio 1 is REINFORCE: the gradient is -A', () => {
    fc.assert(
      fc.property(positions, (list) => {
        const current = f32(list, (p) => p.current);
        const advantage = f32(list, (p) => p.A);
        const { grad, meanRatio, clip } = ppoLoss({ current, old: current, advantage });
        expect(Array.from(grad, (g) => g + 0)).toEqual(Array.from(advantage, (A) => -A + 0));
        expect(meanRatio).toBe(1);
        expect(clip).toEqual({ low: 0, high: 0, exponentClamped: 0 });
      }),
    );
  });

  it('has the gradient of finite differences away from the kinks', () => {
    const h = 2 ** -10;
    fc.assert(
      fc.property(logprob, logprob, floats(-2, 2), (current, old, A) => {
        const d = current - old;
        fc.pre(
          [Math.log(0.8), Math.log(1.28)].every((kink) => Math.abs(d - kink) > 2 * h) && d < 3 && current < -2 * h,
        );
        const { grad } = ppoLoss({
          current: Float32Array.of(current),
          old: Float32Array.of(old),
          advantage: Float32Array.of(A),
        });
        const c = Math.fround(current);
        const slope = (ppoFormula(c + h, old, A) - ppoFormula(c - h, old, A)) / (2 * h);
        expect(near(grad[0]!, slope, 1e-4)).toBe(true);
      }),
    );
  });

  it('counts a clip only where it bites', () => {
    const old = Float32Array.of(-2, -2, -2, -2, -30);
    const current = Float32Array.of(-1, -1, -3, -3, -1);
    const { clip, grad } = ppoLoss({ current, old, advantage: Float32Array.of(1, -1, 1, -1, -1) });
    expect(clip).toEqual({ low: 1, high: 1, exponentClamped: 1 });
    expect(Array.from(grad, (g) => g !== 0)).toEqual([false, true, true, false, false]);
  });
});

interface Entry {
  id: number;
  current: number;
  old: number;
  teacher: number;
}
const entry: fc.Arbitrary<Entry> = fc.record({
  id: fc.integer({ min: -1, max: 50 }),
  current: logprob,
  old: logprob,
  teacher: logprob,
});

function opdFormula(entries: Entry[], C: number): number {
  const real = entries.filter((e) => e.id >= 0);
  const sum = real.reduce((s, e) => s + Math.exp(e.old), 0);
  return real.reduce(
    (loss, e) => loss + ppoFormula(e.current, e.old, (clamp(e.teacher - e.old, -C, C) * Math.exp(e.old)) / sum),
    0,
  );
}

const opdOptions = (rows: Entry[][]) => {
  const all = rows.flat();
  return {
    positions: rows.length,
    k: rows[0]!.length,
    ids: Int32Array.from(all, (e) => e.id),
    current: f32(all, (e) => e.current),
    old: f32(all, (e) => e.old),
    teacher: f32(all, (e) => e.teacher),
  };
};

describe('opdLoss', () => {
  const rows = fc.integer({ min: 1, max: 8 }).chain((k) =>
    fc.array(fc.array(entry, { minLength: k, maxLength: k }), {
      minLength: 1,
      maxLength: 5,
    }),
  );

  it('is equation (1), whatever the order of the entries', () => {
    fc.assert(
      fc.property(rows, fc.constantFrom(1, 2), (list, deltaClip) => {
        const { loss, entries } = opdLoss({ ...opdOptions(list), deltaClip });
        const reversed = opdLoss({ ...opdOptions(list.map((r) => [...r].reverse())), deltaClip });
        list.forEach((r, t) => {
          expect(near(loss[t]!, opdFormula(r, deltaClip), 2e-6)).toBe(true);
          expect(near(reversed.loss[t]!, loss[t]!, 1e-6)).toBe(true);
        });
        expect(entries).toBe(list.flat().filter((e) => e.id >= 0).length);
      }),
    );
  });

  it('is silent where the teacher agrees, and at padding', () => {
    fc.assert(
      fc.property(rows, (list) => {
        const agreeing = list.map((r) => r.map((e) => ({ ...e, teacher: e.old })));
        const { loss, grad } = opdLoss(opdOptions(agreeing));
        expect([...loss, ...grad].every((x) => x === 0)).toBe(true);
        const options = opdOptions(list);
        const { grad: padded } = opdLoss(options);
        options.ids.forEach((id, i) => {
          if (id < 0) expect(padded[i]).toBe(0);
        });
      }),
    );
  });

  it('pulls towards what the teacher likes better', () => {
    const { grad } = opdLoss({
      positions: 1,
      k: 2,
      current: Float32Array.of(-1, -1),
      old: Float32Array.of(-1, -1),
      teacher: Float32Array.of(-0.5, -3),
    });
    expect(grad[0]!).toBeCloseTo(-0.25, 6); // w = 1/2, delta = 0.5
    expect(grad[1]!).toBeCloseTo(0.5, 6); // delta clipped to -1
  });
});

describe('hybridLoss', () => {
  const batch = {
    offsets: Int32Array.of(0, 2, 3, 6),
    mask: Uint8Array.of(1, 1, 1, 1, 0, 1),
    current: Float32Array.of(-1, -2, -1, -0.5, -9, -1),
    old: Float32Array.of(-1, -2.1, -1.2, -0.5, -9, -0.9),
    advantage: Float32Array.of(1, 1, -1, -1, -1, -1),
    hasReward: Uint8Array.of(1, 0, 1),
    hasHint: Uint8Array.of(0, 1, 1),
    k: 1,
    topIds: Int32Array.of(5, 6, 7, 8, 9, -1),
    topCurrent: Float32Array.of(-1, -1, -1, -1, -1, -1),
    topOld: Float32Array.of(-1, -1, -1, -1, -1, -1),
    topTeacher: Float32Array.of(-2, -2, -1.5, -0.25, -2, -2),
  };

  it('averages each term over the turns that have it', () => {
    const r = hybridLoss({ ...batch, wOpd: 2 });
    const rl = (i: number) => ppoFormula(batch.current[i]!, batch.old[i]!, batch.advantage[i]!);
    expect(r.turnsWithReward).toBe(2);
    expect(r.turnsWithHint).toBe(2);
    expect(near(r.rl, ((rl(0) + rl(1)) / 2 + (rl(3) + rl(5)) / 2) / 2, 1e-7)).toBe(true);
    expect(near(r.opd, (2 * (0.5 + -0.75 / 2)) / 2, 1e-7)).toBe(true);
    expect(near(r.total, r.rl + r.opd, 1e-12)).toBe(true);
    expect(r.gradToken[2]).toBe(0); // no reward in the second turn
    expect(r.gradToken[4]).toBe(0); // masked
    expect(r.gradTop![0]).toBe(0); // no hint in the first
  });

  it('does not look at what is masked or absent', () => {
    const dirty = {
      ...batch,
      current: Float32Array.of(-1, -2, -1, -0.5, NaN, -1),
      old: Float32Array.of(-1, -2.1, NaN, -0.5, 7, -0.9),
      topTeacher: Float32Array.of(NaN, 1, -1.5, -0.25, NaN, NaN),
    };
    expect(hybridLoss(dirty)).toEqual(hybridLoss(batch));
  });

  it('adds k3 over all turns, which never is negative', () => {
    const reference = Float32Array.from(batch.current, (x, i) => x - 0.1 * i);
    const r = hybridLoss({ offsets: batch.offsets, current: batch.current, reference, beta: 0.5 });
    const k3 = (i: number) => Math.exp(reference[i]! - batch.current[i]!) - 1 - (reference[i]! - batch.current[i]!);
    const expected = (0.5 * ((k3(0) + k3(1)) / 2 + k3(2) + (k3(3) + k3(4) + k3(5)) / 3)) / 3;
    expect(near(r.k3, expected, 1e-7)).toBe(true);
    expect(r.total).toBe(r.k3);
    expect(r.total).toBeGreaterThan(0);
  });

  it('has per-position losses that sum to the total for every aggregation', () => {
    for (const aggregate of ['turn-mean', 'token-mean', 'fixed'] as const) {
      const r = hybridLoss({ ...batch, aggregate, ...(aggregate === 'fixed' && { divisor: 7 }) });
      expect(
        near(
          r.loss.reduce((a, b) => a + b, 0),
          r.total,
          1e-6,
        ),
      ).toBe(true);
    }
  });
});

/** From logits to the loss and back to the logits, against finite differences of the whole. */
describe('the chain of kernels', () => {
  it('gives the gradient of the hybrid loss with respect to logits', () => {
    const vocab = 9;
    const logits = Float32Array.from({ length: vocab }, (_, i) => Math.sin(i * 2) * 2);
    const token = 4;
    const top = Int32Array.of(1, 4, 7);
    const oldTop = Float32Array.of(-1, -2, -3);
    const teacher = Float32Array.of(-1.6, -1.2, -3.4);
    const lossOf = (z: Float32Array, gradients: boolean) => {
      const { gathered, lse } = logitStats({ logits: z, rows: 1, vocab, gather: Int32Array.of(token, ...top) });
      const result = hybridLoss({
        offsets: Int32Array.of(0, 1),
        current: gathered!.slice(0, 1),
        old: Float32Array.of(-2),
        advantage: Float32Array.of(-0.7),
        k: 3,
        topIds: top,
        topCurrent: gathered!.slice(1),
        topOld: oldTop,
        topTeacher: teacher,
      });
      if (!gradients) return { total: result.total, dz: null };
      const ids = Int32Array.of(token, ...top);
      const grads = Float32Array.of(...result.gradToken, ...result.gradTop!);
      return { total: result.total, dz: logitGrad({ logits: z, rows: 1, vocab, lse, ids, grads }).dz };
    };
    const { dz } = lossOf(logits, true);
    const h = 2 ** -8;
    for (let j = 0; j < vocab; j++) {
      const up = logits.slice();
      const down = logits.slice();
      up[j]! += h;
      down[j]! -= h;
      const slope = (lossOf(up, false).total - lossOf(down, false).total) / (up[j]! - down[j]!);
      expect(near(dz![j]!, slope, 3e-4)).toBe(true);
    }
  });

  it('answers the same off the main thread', async () => {
    const old = Float32Array.of(-1, -2);
    const current = Float32Array.of(-1.1, -1.5);
    const advantage = Float32Array.of(1, -1);
    const ppo = { current, old, advantage };
    const opd = { positions: 1, k: 2, current, old, teacher: Float32Array.of(-3, -1) };
    const hybrid = { ...ppo, offsets: Int32Array.of(0, 2) };
    expect(await ppoLossAsync(ppo)).toEqual(ppoLoss(ppo));
    expect(await opdLossAsync(opd)).toEqual(opdLoss(opd));
    expect(await hybridLossAsync(hybrid)).toEqual(hybridLoss(hybrid));
  });
});
