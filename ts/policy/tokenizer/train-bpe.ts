/**
 * Training a byte-level BPE tokenizer: start from the 256 bytes, join the most frequent neighbouring pair again and again (Sennrich et al.
 * 2016). Counts are over distinct words with their frequencies, and updated only where a pair was joined. Deterministic: of equally
 * frequent pairs the one with the smaller ids is joined first. The result is a tokenizer.json object.
 */
import { OpenClawError } from '../../record/index.js';
import { AddedTokenFinder } from './added-tokens.js';
import { characterOfByte } from './byte-level.js';
import { Heap } from './heap.js';
import { createSplitter } from './split.js';

export interface TrainBpeOptions {
  /** ids in all: special tokens, 256 bytes, merges. Fewer come out when the texts give no more pairs that occur twice. */ vocabSize: number;
  /** they get the first ids, in this order */ specialTokens: readonly string[];
  /** a tokenizer.json pre_tokenizer; default: each digit by itself, then GPT-2's pattern (as SmolLM) */ preTokenizer?: unknown;
}

const DIGITS_THEN_GPT2 = {
  type: 'Sequence',
  pretokenizers: [
    { type: 'Digits', individual_digits: true },
    { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: true },
  ],
};

export function trainBpe(texts: Iterable<string>, options: TrainBpeOptions): Record<string, unknown> {
  checkOptions(options);
  const { specialTokens } = options;
  const preTokenizer = options.preTokenizer ?? DIGITS_THEN_GPT2;
  const { split, hasByteLevel } = createSplitter('preTokenizer', preTokenizer);
  if (!hasByteLevel) throw new OpenClawError('E_ARGUMENT', 'preTokenizer must end in ByteLevel', 'preTokenizer');
  const counts = countWords(texts, split, specialTokens);
  const tokens = [...specialTokens, ...BYTES];
  const merges = learnMerges(new MergeLearner(counts, specialTokens.length), tokens, options);
  return tokenizerJson(tokens, merges, specialTokens, preTokenizer);
}

const BYTES = Array.from({ length: 256 }, (_, byte) => characterOfByte(byte));

function checkOptions({ vocabSize, specialTokens }: TrainBpeOptions): void {
  const smallest = specialTokens.length + BYTES.length;
  if (!Number.isInteger(vocabSize) || vocabSize < smallest) {
    throw new OpenClawError(
      'E_ARGUMENT',
      `vocabSize must be at least ${smallest} (256 bytes and the special tokens), it is ${vocabSize}`,
      'vocabSize',
    );
  }
  if (new Set([...specialTokens, '', ...BYTES]).size !== smallest + 1) {
    throw new OpenClawError(
      'E_ARGUMENT',
      'specialTokens must be different texts, not empty and not the sign of a single byte',
      'specialTokens',
    );
  }
}

/** Appends the joined tokens to `tokens` and returns the merges as text pairs. */
function learnMerges(
  learner: MergeLearner,
  tokens: string[],
  { vocabSize, specialTokens }: TrainBpeOptions,
): Array<[string, string]> {
  const merges: Array<[string, string]> = [];
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const special = new Set(specialTokens);
  while (tokens.length < vocabSize) {
    const pair = learner.takeBest();
    if (pair === null) break;
    const [left, right] = [tokens[pair.left]!, tokens[pair.right]!];
    const joined = left + right;
    if (special.has(joined)) continue; // plain text must not become a special token
    // two different pairs can spell the same token; it keeps the id it has
    const id = ids.get(joined) ?? tokens.length;
    if (id === tokens.length) {
      tokens.push(joined);
      ids.set(joined, id);
    }
    merges.push([left, right]);
    learner.join(pair, id);
  }
  return merges;
}

/** Words with their frequencies. Special tokens written in the texts are no words: they are cut out. */
function countWords(
  texts: Iterable<string>,
  split: (text: string) => string[],
  specialTokens: readonly string[],
): Map<string, number> {
  const flags = { special: true, lstrip: false, rstrip: false, singleWord: false, normalized: false };
  const finder = new AddedTokenFinder(specialTokens.map((content, id) => ({ id, content, ...flags })));
  const counts = new Map<string, number>();
  for (const text of texts) {
    for (const piece of finder.split(text, () => true)) {
      if ('token' in piece) continue;
      for (const word of split(piece.text)) counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  return counts;
}

interface Pair {
  left: number;
  right: number;
  count: number;
  /** words it occurs in (some perhaps no longer) */ words: Set<number>;
}

/** Ids stay far below this, so a pair of ids is one exact number. */
const RADIX = 2 ** 24;

class MergeLearner {
  private readonly words: number[][] = [];
  private readonly frequencies: number[] = [];
  private readonly pairs = new Map<number, Pair>();
  /** pairs with the count they had when they were entered; an entry whose pair has another count by now is stale */
  private readonly heap = new Heap<{ pair: Pair; count: number }>(
    (a, b) =>
      a.count > b.count ||
      (a.count === b.count &&
        (a.pair.left < b.pair.left || (a.pair.left === b.pair.left && a.pair.right < b.pair.right))),
  );

  constructor(counts: ReadonlyMap<string, number>, firstByteId: number) {
    const utf8 = new TextEncoder();
    const touched = new Set<Pair>();
    for (const [word, count] of counts) {
      this.words.push(Array.from(utf8.encode(word), (byte) => firstByteId + byte));
      this.frequencies.push(count);
      this.count(this.words.length - 1, 1, touched);
    }
    this.enter(touched);
  }

  /** Takes out the most frequent pair that occurs at least twice; the smaller ids win a tie. */
  takeBest(): Pair | null {
    for (let entry = this.heap.pop(); entry !== undefined; entry = this.heap.pop()) {
      if (entry.count === entry.pair.count) return entry.count >= 2 ? entry.pair : null;
    }
    return null;
  }

  join({ left, right, words }: Pair, id: number): void {
    const touched = new Set<Pair>();
    for (const index of [...words]) {
      this.count(index, -1, touched);
      this.words[index] = joinIn(this.words[index]!, left, right, id);
      this.count(index, 1, touched);
    }
    this.enter(touched);
  }

  private enter(pairs: Iterable<Pair>): void {
    for (const pair of pairs) {
      if (pair.count >= 2) this.heap.push({ pair, count: pair.count });
    }
  }

  /** Adds (sign 1) or takes away (-1) what a word contributes. */
  private count(index: number, sign: 1 | -1, touched: Set<Pair>): void {
    const word = this.words[index]!;
    for (let i = 0; i + 1 < word.length; i++) {
      const pair = this.pair(word[i]!, word[i + 1]!);
      pair.count += sign * this.frequencies[index]!;
      if (sign === 1) pair.words.add(index);
      touched.add(pair);
    }
  }

  private pair(left: number, right: number): Pair {
    const key = left * RADIX + right;
    let pair = this.pairs.get(key);
    if (pair === undefined) {
      pair = { left, right, count: 0, words: new Set() };
      this.pairs.set(key, pair);
    }
    return pair;
  }
}

function joinIn(word: readonly number[], left: number, right: number, id: number): number[] {
  const out: number[] = [];
  for (let i = 0; i < word.length; i++) {
    if (word[i] === left && word[i + 1] === right) {
      out.push(id);
      i++;
    } else {
      out.push(word[i]!);
    }
  }
  return out;
}

function tokenizerJson(
  tokens: readonly string[],
  merges: ReadonlyArray<[string, string]>,
  specialTokens: readonly string[],
  preTokenizer: unknown,
): Record<string, unknown> {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: specialTokens.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: preTokenizer,
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: merges.map(([left, right]) => `${left} ${right}`),
    },
  };
}
