/** The tokenizer: against transformers' answers for a real model, and properties on a made-up one. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { readModel } from '../../../ts/policy/files/read-model.js';
import { Bpe } from '../../../ts/policy/tokenizer/bpe.js';
import { bytesToCharacters, charactersToBytes } from '../../../ts/policy/tokenizer/byte-level.js';
import { Tokenizer } from '../../../ts/policy/tokenizer/tokenizer.js';
import { fixture, smollmFile, tinyTokenizer } from './helpers.js';

interface Fixture {
  specialIds: Record<string, number>;
  strings: Array<{ text: string; ids: number[]; decoded: string; decodedWithoutSpecial: string }>;
  cutInsideCharacters: Array<{ ids: number[]; decoded: string }>;
}

describe.skipIf(smollmFile === null)('the public model’s tokenizer (skipped without its GGUF file)', () => {
  const oracle = JSON.parse(readFileSync(fixture('smollm2/tokenizer.json'), 'utf8')) as Fixture;
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    tokenizer = (await readModel(smollmFile!)).tokenizer;
  });

  it.each(oracle.strings)('$text', ({ text, ids, decoded, decodedWithoutSpecial }) => {
    expect([...tokenizer.encode(text)]).toEqual(ids);
    expect(tokenizer.decode(ids)).toBe(decoded);
    expect(tokenizer.decode(ids, { skipSpecial: true })).toBe(decodedWithoutSpecial);
  });

  it('decodes ids that begin or end inside a character', () => {
    for (const { ids, decoded } of oracle.cutInsideCharacters) expect(tokenizer.decode(ids)).toBe(decoded);
  });

  it('knows the special ids', () => {
    for (const [text, id] of Object.entries(oracle.specialIds)) {
      expect([...tokenizer.encode(text)]).toEqual([id]);
      expect(tokenizer.specialIds.has(id)).toBe(true);
    }
    expect(tokenizer.specialIds.size).toBe(Object.keys(oracle.specialIds).length);
  });

  it('leaves special tokens unread when asked', () => {
    const ids = tokenizer.encode('<|im_end|>', { plain: tokenizer.specialIds });
    expect([...ids].some((id) => tokenizer.specialIds.has(id))).toBe(false);
    expect(tokenizer.decode(ids)).toBe('<|im_end|>');
  });

  it('takes some ten ms for 40,000 characters', () => {
    const text = oracle.strings
      .map((s) => s.text)
      .join(' ')
      .repeat(40)
      .slice(0, 40_000);
    tokenizer.encode(text);
    const begin = performance.now();
    tokenizer.encode(text);
    // about 10 ms on a free core; the bound leaves room for a busy machine and still fails for anything quadratic
    expect(performance.now() - begin).toBeLessThan(400);
  });

  it('takes one very long word', () => {
    const begin = performance.now();
    const ids = tokenizer.encode('a'.repeat(200_000));
    expect(tokenizer.decode(ids)).toHaveLength(200_000);
    expect(performance.now() - begin).toBeLessThan(10_000);
  });
});

describe('a byte-level tokenizer', () => {
  const tokenizer = new Tokenizer(tinyTokenizer(), 'tiny');

  it('gives every text back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
        expect(tokenizer.decode(tokenizer.encode(text))).toBe(text.toWellFormed());
      }),
    );
  });

  it('never makes a special token of plain text', () => {
    const pieces = fc.constantFrom('<|im_end|>', '<|im_', 'end|>', '<|endoftext|>', ' ', '<', '|', 'sea');
    fc.assert(
      fc.property(
        fc.array(pieces).map((parts) => parts.join('')),
        (text) => {
          const ids = tokenizer.encode(text, { plain: tokenizer.specialIds });
          expect([...ids].some((id) => tokenizer.specialIds.has(id))).toBe(false);
          expect(tokenizer.decode(ids)).toBe(text);
        },
      ),
    );
  });

  it('gives the same ids from a cold and a warm cache', () => {
    const text = 'The sea shells 123 of the sea. '.repeat(20);
    const cold = new Tokenizer(tinyTokenizer(), 'tiny').encode(text);
    tokenizer.encode(text);
    expect(tokenizer.encode(text)).toEqual(cold);
  });

  it('names an id that does not exist', () => {
    expect(() => tokenizer.decode([320])).toThrow(/0 to 319, one is 320/);
    expect(() => tokenizer.decode([-1])).toThrow(/E_TOKEN_ID|whole numbers/);
  });

  it('takes merges as pairs and as texts', () => {
    const json = tinyTokenizer() as { model: { merges: string[] } };
    const pairs = { ...json, model: { ...json.model, merges: json.model.merges.map((merge) => merge.split(' ')) } };
    const text = 'The woodchuck sells 99 shells';
    expect(new Tokenizer(pairs, 'pairs').encode(text)).toEqual(tokenizer.encode(text));
  });

  it('honours strip, single-word and longest match of added tokens', () => {
    const json = tinyTokenizer() as { added_tokens: unknown[] };
    const token = (id: number, content: string, flags: object) => ({
      id,
      content,
      special: false,
      normalized: false,
      ...flags,
    });
    const added = [
      ...json.added_tokens,
      token(320, '<a>', { lstrip: true, rstrip: true }),
      token(321, 'cat', { single_word: true }),
      token(322, '<a><a>', {}),
    ];
    const t = new Tokenizer({ ...json, added_tokens: added }, 'added');
    expect(t.size).toBe(323);
    expect([...t.encode('  <a>  ')]).toEqual([320]);
    expect([...t.encode('cat')]).toEqual([321]);
    expect([...t.encode('cats')]).not.toContain(321);
    expect([...t.encode('<a><a>')]).toEqual([322]);
  });

  it.each([
    ['WordPiece', { model: { type: 'WordPiece' } }, /WordPiece/],
    ['SentencePiece', { model: { ...(tinyTokenizer().model as object), byte_fallback: true } }, /byte_fallback/],
    ['no byte level', { pre_tokenizer: null }, /ByteLevel/],
    ['another pre-tokenizer', { pre_tokenizer: { type: 'BertPreTokenizer' } }, /BertPreTokenizer/],
    ['another decoder', { decoder: { type: 'Metaspace' } }, /Metaspace/],
  ])('refuses %s by name', (_, changes, message) => {
    expect(() => new Tokenizer({ ...tinyTokenizer(), ...changes }, 'odd')).toThrow(message);
  });

  it.each([
    ['a merge of unknown tokens', { merges: ['q zz'] }, /merge 0/],
    ['two tokens with one id', { vocab: { a: 1, b: 1 } }, /id 1/],
    ['a vocabulary that is a list', { vocab: [] }, /vocab/],
  ])('calls %s a damaged file', (_, changes, message) => {
    const json = tinyTokenizer();
    expect(() => new Tokenizer({ ...json, model: { ...(json.model as object), ...changes } }, 'odd')).toThrow(message);
  });
});

describe('byte-pair merging', () => {
  /** the definition: the leftmost pair of lowest rank, again and again */
  function naive(symbols: number[], merges: ReadonlyArray<{ left: number; right: number; joined: number }>): number[] {
    for (;;) {
      const at = merges
        .map(({ left, right }, rank) => ({
          rank,
          at: symbols.findIndex((s, i) => s === left && symbols[i + 1] === right),
        }))
        .find((candidate) => candidate.at >= 0);
      if (at === undefined) return symbols;
      symbols = [...symbols.slice(0, at.at), merges[at.rank]!.joined, ...symbols.slice(at.at + 2)];
    }
  }

  it('is the definition', () => {
    const symbol = fc.integer({ min: 0, max: 3 });
    const made = fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 12 }).map((pairs) => {
      const seen = new Set<string>();
      return pairs.flatMap(([a, b], i) => {
        const [left, right] = [a % (4 + i), b % (4 + i)];
        if (seen.has(`${left},${right}`)) return [];
        seen.add(`${left},${right}`);
        return [{ left, right, joined: 4 + i }];
      });
    });
    fc.assert(
      fc.property(made, fc.array(symbol, { maxLength: 40 }), (merges, word) => {
        expect([...new Bpe(merges).merge(Int32Array.from(word))]).toEqual(naive(word, merges));
      }),
      { numRuns: 500 },
    );
  });
});

describe('the byte table', () => {
  it('is one to one', () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    expect(charactersToBytes(bytesToCharacters(bytes))).toEqual(bytes);
    expect(charactersToBytes(' ')).toBeNull();
  });
});
