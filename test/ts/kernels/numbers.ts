/** The kernels' formulas in plain doubles, and arbitraries of their inputs. */
import fc from 'fast-check';

export const softmax = (z: ArrayLike<number>): number[] => {
  const max = Math.max(...Array.from(z));
  const e = Array.from(z, (x) => Math.exp(x - max));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((x) => x / sum);
};

export const logSumExp = (z: ArrayLike<number>): number => {
  const max = Math.max(...Array.from(z));
  return max + Math.log(Array.from(z).reduce((sum, x) => sum + Math.exp(x - max), 0));
};

/** Ids by value, larger first, equal ones by id. */
export const ranked = (z: ArrayLike<number>): number[] =>
  Array.from(z, (_, id) => id).sort((a, b) => z[b]! - z[a]! || a - b);

export const clamp = (x: number, low: number, high: number): number => Math.min(Math.max(x, low), high);

export const ppoFormula = (current: number, old: number, A: number, epsLow = 0.2, epsHigh = 0.28): number => {
  const rho = Math.exp(clamp(current - old, -20, 20));
  return Math.max(-A * rho, -A * clamp(rho, 1 - epsLow, 1 + epsHigh));
};

/** Finite floats of single precision in a range. */
export const floats = (min: number, max: number): fc.Arbitrary<number> =>
  fc.float({ min: Math.fround(min), max: Math.fround(max), noNaN: true, noDefaultInfinity: true });

export const logit = floats(-30, 30);
/** Log-probs of tokens that are not next to impossible. */
export const logprob = floats(-8, 0);

/** Rows of logits of one width: [rows, vocab, values]. */
export const logitRows = fc
  .tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 70 }))
  .chain(([rows, vocab]) =>
    fc.record({
      rows: fc.constant(rows),
      vocab: fc.constant(vocab),
      logits: fc
        .array(logit, { minLength: rows * vocab, maxLength: rows * vocab })
        .map((values) => Float32Array.from(values)),
    }),
  );

export const row = (values: Float32Array, t: number, width: number): Float32Array =>
  values.subarray(t * width, (t + 1) * width);

/** Closeness relative to the size of what is expected, absolute below 1. */
export const near = (actual: number, expected: number, tolerance: number): boolean =>
  actual === expected || Math.abs(actual - expected) <= tolerance * Math.max(1, Math.abs(expected));
