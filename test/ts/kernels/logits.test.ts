import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  crossEntropy,
  crossEntropyAsync,
  logitGrad,
  logitGradAsync,
  logitStats,
  logitStatsAsync,
  rowFlag,
  toBf16,
} from '../../../ts/kernels/index.js';
import { logitRows, logSumExp, near, ranked, row, softmax } from './numbers.js';

describe('logitStats', () => {
  it('gives log-sum-exp, ordered top k, gathered log-probs and entropy of plain doubles', () => {
    fc.assert(
      fc.property(logitRows, fc.nat(), ({ rows, vocab, logits }, pick) => {
        const k = pick % (vocab + 1);
        const gather = Int32Array.from({ length: rows * 2 }, (_, i) => ((pick + i * 7) % (vocab + 1)) - 1);
        const stats = logitStats({ logits, rows, vocab, k, gather, entropy: true });
        for (let t = 0; t < rows; t++) {
          const z = row(logits, t, vocab);
          const lse = logSumExp(z);
          expect(near(stats.lse[t]!, lse, 2e-6)).toBe(true);
          expect(stats.max[t]).toBe(Math.max(...z));
          const ids = ranked(z).slice(0, k);
          expect(Array.from(stats.topIds?.subarray(t * k, (t + 1) * k) ?? [])).toEqual(ids);
          ids.forEach((id, i) => {
            expect(near(stats.topLogprobs![t * k + i]!, z[id]! - lse, 2e-6)).toBe(true);
          });
          for (let c = t * 2; c < t * 2 + 2; c++) {
            const expected = gather[c]! < 0 ? -Infinity : z[gather[c]!]! - lse;
            expect(near(stats.gathered![c]!, expected, 2e-6)).toBe(true);
          }
          const entropy = softmax(z).reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
          expect(near(stats.entropy![t]!, entropy, 2e-6)).toBe(true);
        }
      }),
      { numRuns: 80 },
    );
  });

  it('divides by the temperature and keeps the order', () => {
    fc.assert(
      fc.property(logitRows, fc.float({ min: Math.fround(0.2), max: 3, noNaN: true }), (input, temperature) => {
        const k = Math.min(5, input.vocab);
        const cold = logitStats({ ...input, temperature, k });
        expect(cold.topIds).toEqual(logitStats({ ...input, k }).topIds);
        for (let t = 0; t < input.rows; t++) {
          const z = Array.from(row(input.logits, t, input.vocab), (x) => x / temperature);
          expect(near(cold.lse[t]!, logSumExp(z), 2e-6)).toBe(true);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('reads bf16 bits as the numbers they stand for', () => {
    const logits = Float32Array.from({ length: 300 }, (_, i) => Math.sin(i) * 9);
    const bits = toBf16(logits);
    const rounded = Float32Array.from(bits, (b) => new Float32Array(new Uint32Array([b << 16]).buffer)[0]!);
    const options = { rows: 3, vocab: 100, k: 9, entropy: true };
    expect(logitStats({ ...options, logits: bits })).toEqual(logitStats({ ...options, logits: rounded }));
  });

  it('gives rows that are no distribution a flag, never a made-up number', () => {
    const logits = Float32Array.of(NaN, 1, 2, Infinity, 5, Infinity, -Infinity, -Infinity, -Infinity, -Infinity, 7, 0);
    const { flags, lse, topIds, topLogprobs, max } = logitStats({
      logits,
      rows: 4,
      vocab: 3,
      k: 2,
      mask: Uint8Array.of(1, 1, 1, 0),
    });
    expect(Array.from(flags)).toEqual([rowFlag.nan, rowFlag.infinite, rowFlag.empty | rowFlag.short, rowFlag.masked]);
    expect(Array.from(lse)).toEqual([NaN, Infinity, -Infinity, NaN]);
    expect(Array.from(max)).toEqual([NaN, Infinity, -Infinity, NaN]);
    expect(Array.from(topIds!)).toEqual([-1, -1, 0, 2, -1, -1, -1, -1]);
    expect(topLogprobs![2]).toBeCloseTo(-Math.log(2), 6);
  });

  it('ignores the padding columns of a stride', () => {
    const logits = Float32Array.of(1, 2, 99, 3, 4);
    const stats = logitStats({ logits, rows: 2, vocab: 2, stride: 3, k: 1 });
    expect(Array.from(stats.topIds!)).toEqual([1, 1]);
    expect(stats.lse[1]! - stats.lse[0]!).toBeCloseTo(2, 6);
  });

  it('answers the same off the main thread, on one thread, and many at once', async () => {
    const rows = 40;
    const vocab = 5000;
    const logits = Float32Array.from({ length: rows * vocab }, (_, i) => Math.sin(i * 0.37) * 11);
    const options = { logits, rows, vocab, k: 20, entropy: true };
    const here = logitStats({ ...options, singleThread: true });
    const calls = Array.from({ length: 6 }, () => logitStatsAsync(options));
    expect(logitStats(options)).toEqual(here); // while the others run
    for (const there of await Promise.all(calls)) expect(there).toEqual(here);
  });

  it('reads arrays over shared memory and parts of a buffer', () => {
    const shared = new Float32Array(new SharedArrayBuffer(32), 8, 6);
    shared.set([1, 2, 3, 4, 5, 6]);
    expect(logitStats({ logits: shared, rows: 2, vocab: 3 }).max).toEqual(Float32Array.of(3, 6));
  });
});

describe('logitGrad', () => {
  const problem = logitRows.chain((input) =>
    fc.record({
      input: fc.constant(input),
      ids: fc
        .array(fc.integer({ min: -1, max: input.vocab - 1 }), { minLength: input.rows * 3, maxLength: input.rows * 3 })
        .map((ids) => Int32Array.from(ids)),
      grads: fc
        .array(fc.float({ min: -2, max: 2, noNaN: true }), { minLength: input.rows * 3, maxLength: input.rows * 3 })
        .map((g) => Float32Array.from(g)),
    }),
  );

  it('is Σ g [j = id] - p G, whose rows sum to zero', () => {
    fc.assert(
      fc.property(problem, ({ input, ids, grads }) => {
        const { lse } = logitStats(input);
        const { dz } = logitGrad({ ...input, lse, ids, grads });
        for (let t = 0; t < input.rows; t++) {
          const p = softmax(row(input.logits, t, input.vocab));
          const entries = [0, 1, 2]
            .map((c) => ({ id: ids[t * 3 + c]!, g: grads[t * 3 + c]! }))
            .filter((e) => e.id >= 0);
          const G = entries.reduce((sum, e) => sum + e.g, 0);
          const size = entries.reduce((sum, e) => sum + Math.abs(e.g), 0);
          let sum = 0;
          p.forEach((pj, j) => {
            const expected = entries.reduce((s, e) => (e.id === j ? s + e.g : s), 0) - pj * G;
            expect(Math.abs(dz[t * input.vocab + j]! - expected)).toBeLessThanOrEqual(3e-6 * (size + 1e-9));
            sum += dz[t * input.vocab + j]!;
          });
          expect(Math.abs(sum)).toBeLessThanOrEqual(3e-6 * size + 1e-12);
        }
      }),
      { numRuns: 80 },
    );
  });

  it('writes into the logits themselves, and into an array given', () => {
    const logits = Float32Array.from({ length: 40 }, (_, i) => Math.cos(i) * 4);
    const { lse, max, logSum } = logitStats({ logits, rows: 2, vocab: 20 });
    const rest = { rows: 2, vocab: 20, ids: Int32Array.of(3, 4), grads: Float32Array.of(1, -2) };
    const fresh = logitGrad({ ...rest, logits, lse }).dz;
    const out = new Float32Array(40);
    expect(logitGrad({ ...rest, logits, lse, out }).dz).toBe(out);
    expect(out).toEqual(fresh);
    const split = logitGrad({ ...rest, logits, max, logSum }).dz;
    expect(split.every((x, i) => near(x, fresh[i]!, 2e-6))).toBe(true);
    expect(logitGrad({ ...rest, logits, lse, out: logits }).dz).toBe(logits);
    expect(logits).toEqual(fresh);
  });

  it('answers the same off the main thread', async () => {
    const logits = Float32Array.from({ length: 6000 }, (_, i) => Math.cos(i) * 4);
    const { lse } = logitStats({ logits, rows: 3, vocab: 2000 });
    const options = { logits, rows: 3, vocab: 2000, lse, ids: Int32Array.of(1, 2, 3), grads: Float32Array.of(1, 2, 3) };
    expect(await logitGradAsync(options)).toEqual(logitGrad(options));
  });
});

describe('crossEntropy', () => {
  it('is -log p, with the gradient of its mean, over the rows that count', () => {
    fc.assert(
      fc.property(logitRows, fc.nat(), (input, pick) => {
        const ids = Int32Array.from({ length: input.rows }, (_, t) => ((pick + t) % (input.vocab + 1)) - 1);
        const { loss, dz, total, counted } = crossEntropy({ ...input, ids });
        const rows = Array.from(ids, (id, t) => ({ id, z: row(input.logits, t, input.vocab) }));
        const counting = rows.filter((r) => r.id >= 0);
        const losses = counting.map((r) => logSumExp(r.z) - r.z[r.id]!);
        expect(counted).toBe(counting.length);
        const mean = losses.reduce((a, b) => a + b, 0) / Math.max(1, counted);
        expect(near(total, mean, 3e-6)).toBe(true);
        rows.forEach(({ id, z }, t) => {
          if (id < 0) expect(loss[t]).toBe(0);
          softmax(z).forEach((p, j) => {
            const expected = id < 0 ? 0 : (p - (j === id ? 1 : 0)) / counted;
            expect(Math.abs(dz![t * input.vocab + j]! - expected)).toBeLessThanOrEqual(2e-6);
          });
        });
      }),
      { numRuns: 80 },
    );
  });

  it('sums and scales on request, without the gradient too', async () => {
    const options = { logits: Float32Array.of(0, 0, 0, 0), rows: 2, vocab: 2, ids: Int32Array.of(0, 1) };
    const sum = crossEntropy({ ...options, reduction: 'sum', scale: 3, gradient: false });
    expect(sum.total).toBeCloseTo(6 * Math.log(2), 6);
    expect(sum.dz).toBeUndefined();
    expect(await crossEntropyAsync(options)).toEqual(crossEntropy(options));
  });
});

describe('toBf16', () => {
  it('rounds to nearest even and keeps what is not finite', () => {
    const bits = toBf16(Float32Array.of(1, 1.00390625, 1.01171875, NaN, -Infinity, 3.4e38));
    expect(Array.from(bits)).toEqual([0x3f80, 0x3f80, 0x3f82, 0x7fc0, 0xff80, 0x7f80]);
  });
});
