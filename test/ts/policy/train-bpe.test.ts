/** Training a tokenizer: deterministic, bounded, and what comes out reads back every text. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Tokenizer } from '../../../ts/policy/tokenizer/tokenizer.js';
import { trainBpe } from '../../../ts/policy/tokenizer/train-bpe.js';
import { SPECIALS } from './helpers.js';

interface Trained {
  model: { vocab: Record<string, number>; merges: string[] };
}
const train = (texts: string[], vocabSize: number, specialTokens: readonly string[] = []) =>
  trainBpe(texts, { vocabSize, specialTokens }) as unknown as Trained;

/** The definition: count all pairs anew for every merge. */
function naiveMerges(words: string[], count: number): string[] {
  let split = words.map((word) => [...word]);
  const ids = new Map<string, number>();
  const order = (token: string) => ids.get(token) ?? token.charCodeAt(0);
  const merges: string[] = [];
  while (merges.length < count) {
    const counts = new Map<string, { pair: [string, string]; n: number }>();
    for (const word of split) {
      word.slice(1).forEach((right, i) => {
        const key = `${word[i]} ${right}`;
        const entry = counts.get(key) ?? { pair: [word[i]!, right], n: 0 };
        entry.n++;
        counts.set(key, entry);
      });
    }
    const best = [...counts.values()]
      .filter(({ n }) => n >= 2)
      .sort((a, b) => b.n - a.n || order(a.pair[0]) - order(b.pair[0]) || order(a.pair[1]) - order(b.pair[1]))[0];
    if (best === undefined) break;
    const [left, right] = best.pair;
    if (!ids.has(left + right)) ids.set(left + right, 256 + ids.size);
    merges.push(`${left} ${right}`);
    split = split.map((word) => {
      const out: string[] = [];
      for (let i = 0; i < word.length; i++) {
        if (word[i] === left && word[i + 1] === right) out.push(word[i++]! + right);
        else out.push(word[i]!);
      }
      return out;
    });
  }
  return merges;
}

describe('training', () => {
  it('joins the pairs that the definition joins', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 12 }), (words) => {
        const { model } = train(words, 256 + 12);
        const naive = naiveMerges(words, model.merges.length);
        expect(model.merges).toEqual(naive);
      }),
      { numRuns: 200 },
    );
  });

  it('gives a tokenizer that reads back every text, digits one by one, special tokens first', () => {
    const tokenizer = new Tokenizer(train(Array(20).fill('the 12345 sea <|im_end|> shells'), 300, SPECIALS), 'trained');
    expect(tokenizer.encode('12345')).toHaveLength(5);
    expect([...tokenizer.encode('<|im_end|>')]).toEqual([2]);
    expect(tokenizer.encode(' shells').length).toBeLessThan(3);
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        (text) => tokenizer.decode(tokenizer.encode(text)) === text.toWellFormed(),
      ),
    );
  });

  it('is the same every time and stops where nothing repeats', () => {
    const texts = ['how much wood would a woodchuck chuck', 'if a woodchuck could chuck wood'];
    expect(train(texts, 280)).toEqual(train(texts, 280));
    const { model } = train(['abc'], 1000);
    expect(Object.keys(model.vocab)).toHaveLength(256);
    expect(model.merges).toEqual([]);
  });

  it('never learns the text of a special token', () => {
    const { model } = train(Array(50).fill('ab <s> ab'), 300, ['ab', '<s>']);
    expect(model.merges).not.toContain('a b');
    expect(model.merges.map((merge) => merge.replace(' ', ''))).not.toContain('<s>');
  });

  it('names wrong arguments', () => {
    expect(() => train(['a'], 100)).toThrow(/at least 256/);
    expect(() => train(['a'], 300, ['x', 'x'])).toThrow(/different texts/);
    expect(() => train(['a'], 300, ['!'])).toThrow(/single byte/);
    expect(() => trainBpe(['a'], { vocabSize: 300, specialTokens: [], preTokenizer: { type: 'Digits' } })).toThrow(
      /ByteLevel/,
    );
  });
});
