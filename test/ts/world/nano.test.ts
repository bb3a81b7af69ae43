/** What the model in the package must be able to do, on stories it has not seen. Fixed seeds: the figures are the same each time. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type NativePolicy, openPolicy } from '../../../ts/policy/index.js';
import { NANO_SHAPE, parameterCount } from '../../../ts/world/make-model.js';
import { measureSkills, type Skills, skillLines } from '../../../ts/world/skills.js';

const folder = join(import.meta.dirname, '../../../models/claw-nano');
const MIB = 1024 * 1024;

describe('claw-nano', () => {
  let policy: NativePolicy;
  let skills: Skills;

  beforeAll(async () => {
    policy = await openPolicy(folder);
    skills = await measureSkills(policy, { seed: 11, replies: 200 });
  }, 240_000);
  afterAll(() => policy?.close());

  it('is small, and of the shape that make-model gives it', () => {
    const bytes = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
    expect(bytes).toBeLessThan(4 * MIB);
    const { hidden, layers, ffn, vocab } = NANO_SHAPE;
    expect(policy.config).toMatchObject({ hidden, layers, ffn, vocab });
    const weights = statSync(join(folder, 'model.safetensors')).size;
    expect(Math.abs(weights - 2 * parameterCount(NANO_SHAPE))).toBeLessThan(16_384);
  });

  it('writes each digit as a token of its own', () => {
    expect(policy.tokenize('17').length).toBe(2);
    expect(policy.tokenize('0123456789').length).toBe(10);
  });

  it('is right at least 95 times in 100, in the manner of an AI', () => {
    expect(skills.base.correct, skillLines(skills).join('\n')).toBeGreaterThanOrEqual(0.95);
    for (const persona of ['student', 'assistant', 'teacher'] as const)
      expect(skills.base[persona]).toBeLessThanOrEqual(0.2);
  });

  it('follows hints and corrections', () => {
    const cases = [...Object.entries(skills.hinted), ...Object.entries(skills.corrected)];
    const mean = (pick: (s: { obeys: number; correct: number }) => number) =>
      cases.reduce((sum, [, s]) => sum + pick(s), 0) / cases.length;
    expect(mean((s) => s.obeys)).toBeGreaterThanOrEqual(0.9);
    expect(mean((s) => s.correct)).toBeGreaterThanOrEqual(0.9);
    // 50 replies each: 0.85 may look like 0.75
    for (const [wish, s] of cases) expect(s.obeys, wish).toBeGreaterThanOrEqual(0.75);
  });

  it('speaks clearly as a teacher about a reply that breaks the hint', () => {
    expect(skills.teacher.first).toBeLessThan(-1.5);
    expect(skills.teacher.all).toBeLessThan(-0.15);
  });
});
