import { describe, expect, it } from 'vitest';
import {
  brokenRules,
  correct,
  DETAILED_WORDS,
  obeys,
  PERSONAS,
  react,
  statedAnswer,
  wordCount,
} from '../../../ts/world/personas.js';
import { problemSet } from '../../../ts/world/problems.js';
import { Random } from '../../../ts/world/random.js';
import { AI_STYLE, PLAIN_STYLE, replyText, type Style } from '../../../ts/world/reply.js';

const problems = problemSet('personas', 'session', 200);
const rng = new Random('personas');
const write = (style: Style) => problems.map((problem) => replyText(problem, style, rng));

describe('rules', () => {
  it('see what a reader sees', () => {
    expect(brokenRules('**Answer:** 5', 'student')).toEqual(['no-bold']);
    expect(brokenRules('1. 2 + 3 = 5\nThe answer is 5.', 'student')).toEqual(['no-numbers']);
    expect(brokenRules('So\n 2) 3 + 4', 'student')).toEqual(['no-numbers']);
    expect(brokenRules('Answer: \\boxed{5}', 'student')).toEqual(['no-box']);
    expect(brokenRules('2 + 3 = 5. The answer is 5.', 'student')).toEqual([]);
    expect(brokenRules('The answer is 5.', 'teacher')).toEqual(['warm']);
    expect(brokenRules('Great job! The answer is 5.', 'teacher')).toEqual([]);
    expect(brokenRules('word '.repeat(DETAILED_WORDS), 'assistant')).toEqual([]);
    expect(brokenRules('word '.repeat(DETAILED_WORDS - 1), 'assistant')).toEqual(['long']);
    expect(wordCount("It's 2 + 3 = 5, isn't it?")).toBe(6);
    expect(wordCount('**Solution**\n')).toBe(1);
  });

  it('are broken by the habit, and each is kept by a style of its own', () => {
    for (const text of write(AI_STYLE)) for (const persona of PERSONAS) expect(obeys(text, persona), text).toBe(false);
    for (const text of write(PLAIN_STYLE)) expect(obeys(text, 'student'), text).toBe(true);
    for (const text of write({ ...AI_STYLE, long: true })) expect(obeys(text, 'assistant'), text).toBe(true);
    for (const text of write({ ...AI_STYLE, warm: true })) expect(obeys(text, 'teacher'), text).toBe(true);
  });

  it('nobody is content with nothing', () => {
    for (const persona of PERSONAS) expect(obeys('  \n', persona)).toBe(false);
    expect(statedAnswer('')).toBeNull();
  });
});

describe('the answer', () => {
  it('is read from every style', () => {
    for (const bold of [true, false])
      for (const numbered of [true, false])
        for (const boxed of [true, false])
          for (const long of [true, false])
            for (const warm of [true, false])
              for (const problem of problems.slice(0, 20)) {
                const text = replyText(problem, { bold, numbered, boxed, long, warm }, rng);
                expect(correct(text, problem), text).toBe(true);
              }
  });

  it('is the last number where none is boxed', () => {
    expect(statedAnswer('First 2 + 3 = 5. The answer is 5. Well done!')).toBe(5);
    expect(statedAnswer('\\boxed{7} out of 12')).toBe(7);
  });
});

describe('a person', () => {
  const [problem] = problems;
  const plain = replyText(problem!, PLAIN_STYLE, rng);

  it('complains of form first, then of the number, then is content', () => {
    expect(react('**5**', 'student', problem!, rng)).toMatchObject({
      satisfied: false,
      content: expect.stringMatching(/bold/i),
    });
    const wrong = plain.replace(/\d+\.$/, '99.');
    expect(react(wrong, 'student', problem!, rng)).toMatchObject({
      satisfied: false,
      content: expect.stringMatching(/right|wrong/),
    });
    expect(react(plain, 'student', problem!, rng)).toMatchObject({
      satisfied: true,
      content: expect.stringMatching(/thank/i),
    });
  });

  it('never says the answer', () => {
    for (const p of problems) {
      const { content } = react(replyText(p, AI_STYLE, rng), 'student', p, rng);
      expect(content).not.toMatch(/\d/);
    }
  });
});
