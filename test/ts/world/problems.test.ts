import { describe, expect, it } from 'vitest';
import { LARGEST, makeProblem, problemSet, splitOf } from '../../../ts/world/problems.js';
import { Random } from '../../../ts/world/random.js';

const some = (count: number) => {
  const rng = new Random('test');
  return Array.from({ length: count }, () => makeProblem(rng, 'train'));
};

describe('stories', () => {
  it('have steps that follow from one another and end in the answer', () => {
    for (const problem of some(500)) {
      expect(problem.steps.length).toBeGreaterThanOrEqual(1);
      expect(problem.steps.length).toBeLessThanOrEqual(3);
      problem.steps.forEach((step, i) => {
        const value = { '+': step.a + step.b, '-': step.a - step.b, '*': step.a * step.b, '/': step.a / step.b }[
          step.op
        ];
        expect(step.result).toBe(value);
        if (i > 0) expect(step.a).toBe(problem.steps[i - 1]!.result);
      });
      expect(problem.answer).toBe(problem.steps.at(-1)!.result);
    }
  });

  it('keep every number whole and small, and say each one that is needed', () => {
    for (const problem of some(500)) {
      for (const { b, result } of problem.steps) {
        expect(Number.isInteger(result)).toBe(true);
        expect(result).toBeGreaterThan(0);
        expect(result).toBeLessThanOrEqual(LARGEST);
        expect(problem.text).toMatch(new RegExp(`\\b${b}\\b`));
      }
    }
  });

  it('belong to one split each, and the same seed gives the same set', () => {
    const sets = (['train', 'session', 'held-out'] as const).map((split) => problemSet(7, split, 200));
    sets.forEach((set, i) => {
      for (const problem of set) expect(splitOf(problem)).toBe((['train', 'session', 'held-out'] as const)[i]);
      expect(new Set(set.map((p) => p.text)).size).toBe(200);
    });
    expect(problemSet(7, 'held-out', 50)).toEqual(sets[2]!.slice(0, 50));
    expect(problemSet(8, 'held-out', 50)).not.toEqual(sets[2]!.slice(0, 50));
  });
});
