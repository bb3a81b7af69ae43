import { describe, expect, it } from 'vitest';
import {
  answersQuestion,
  brokenShortRules,
  HELD_OUT_QUESTIONS,
  MAX_TOKENS,
  obeysShort,
  reactToAnswer,
  SESSION_QUESTIONS,
} from '../../../ts/world/everyday.js';
import { Random } from '../../../ts/world/random.js';

const shown = (text: string, o: { ended?: boolean; tokens?: number } = {}) => ({ text, ended: true, tokens: 20, ...o });

describe('everyday questions', () => {
  it('are enough, different, and none is in both lists', () => {
    expect(SESSION_QUESTIONS.length).toBeGreaterThanOrEqual(28);
    expect(HELD_OUT_QUESTIONS.length).toBeGreaterThanOrEqual(16);
    const all = [...SESSION_QUESTIONS, ...HELD_OUT_QUESTIONS].map((q) => q.text);
    expect(new Set(all).size).toBe(all.length);
    for (const { text, keywords } of [...SESSION_QUESTIONS, ...HELD_OUT_QUESTIONS]) {
      expect(keywords.length).toBeGreaterThan(0);
      expect(text.endsWith('?')).toBe(true);
    }
  });

  it('are answered by a keyword at the start of a word', () => {
    const rome = HELD_OUT_QUESTIONS.find((q) => q.keywords.includes('rome'))!;
    expect(answersQuestion('It is ROME.', rome)).toBe(true);
    expect(answersQuestion('A chrome thing.', rome)).toBe(false);
  });

  it('want one short plain answer that ended by itself', () => {
    expect(obeysShort(shown('It is Rome.'))).toBe(true);
    expect(obeysShort(shown(''))).toBe(false);
    expect(brokenShortRules(shown('word '.repeat(31)))).toEqual(['too-long']);
    expect(brokenShortRules(shown('It is', { ended: false }))).toEqual(['too-long']);
    expect(brokenShortRules(shown('It is', { tokens: MAX_TOKENS + 1 }))).toEqual(['too-long']);
    expect(brokenShortRules(shown('It is **Rome**.'))).toEqual(['bold']);
    expect(brokenShortRules(shown('Do this:\n1. Boil\n- wait'))).toEqual(['list']);
  });

  it('bring a complaint about form first, then about the answer, then thanks', () => {
    const rng = new Random('everyday');
    const question = HELD_OUT_QUESTIONS.find((q) => q.keywords.includes('rome'))!;
    expect(reactToAnswer(shown('- Rome'), question, rng).content).toMatch(/list/i);
    expect(reactToAnswer(shown('It is Paris.'), question, rng)).toMatchObject({ satisfied: false });
    expect(reactToAnswer(shown('It is Rome.'), question, rng)).toMatchObject({ satisfied: true });
  });
});
