/**
 * Byte-level BPE tokenizer read from a tokenizer.json (Hugging Face), as GPT-2, Llama 3, Qwen and SmolLM use. Ids in, ids out; decoding
 * works on bytes, so an id may end inside a character.
 *
 * Normalisers and the translation of split patterns come from @huggingface/tokenizers; the rest is our own, because the library's is
 * wrong for some texts (see split.ts), slow (bpe.ts), and cannot leave special tokens in a text unread, which renderChat needs.
 */
import { OpenClawError } from '../../record/index.js';
import { Fields, fileError, isObject, reason, show, unsupported } from '../files/reading.js';
import { type AddedToken, AddedTokenFinder, parseAddedTokens } from './added-tokens.js';
import { Bpe, type Merge } from './bpe.js';
import { bytesToCharacters, characterOfByte, charactersToBytes } from './byte-level.js';
import { SequenceNormalizer } from './library.js';
import { createSplitter, type Splitter } from './split.js';

/** words kept with their ids; natural text repeats its words, so most of a text is looked up */
const MAX_CACHED_WORDS = 32_768;
const MAX_CACHED_WORD_LENGTH = 64;
const MAX_ID = 2 ** 24;

const utf8 = new TextEncoder();

export interface EncodeOptions {
  /** added tokens whose text is read as ordinary text instead of as the token; default: none */
  plain?: ReadonlySet<number>;
}

export class Tokenizer {
  /** every id is below this */
  readonly size: number;
  readonly added: readonly AddedToken[];
  /** ids of added tokens marked special */
  readonly specialIds: ReadonlySet<number>;
  private readonly ids: Map<string, number>;
  private readonly bytes: Array<Uint8Array | undefined>;
  private readonly byteIds: Int32Array;
  private readonly unknownId: number | null;
  private readonly ignoreMerges: boolean;
  private readonly bpe: Bpe;
  private readonly split: Splitter;
  private readonly normalize: (text: string) => string;
  private readonly rawFinder: AddedTokenFinder;
  private readonly normalizedFinder: AddedTokenFinder;
  private cache = new Map<string, Int32Array>();
  private olderCache = new Map<string, Int32Array>();

  /** @param json a parsed tokenizer.json; @param file its name, for messages */
  constructor(
    readonly json: unknown,
    file: string,
  ) {
    const f = Fields.of(file, json);
    const model = modelFields(f);
    this.ids = parseVocab(file, model);
    this.added = parseAddedTokens(file, f.get('added_tokens'));
    this.specialIds = new Set(this.added.filter((token) => token.special).map((token) => token.id));
    this.size = tableSize(this.ids, this.added);
    this.bpe = new Bpe(parseMerges(file, model, this.ids, new Set(this.added.map((token) => token.id))));
    this.unknownId = parseUnknown(file, model, this.ids);
    this.ignoreMerges = model.boolean('ignore_merges', false);
    this.bytes = byteTable(this.size, this.ids, this.added);
    this.byteIds = Int32Array.from(
      { length: 256 },
      (_, byte) => this.ids.get(characterOfByte(byte)) ?? this.unknownId ?? -1,
    );
    for (const { content } of this.added) this.ids.delete(content); // reached through the finders only, never as a word of a text
    this.split = parseSplitter(file, f);
    checkDecoder(file, f.get('decoder'));
    this.normalize = parseNormalizer(file, f.get('normalizer'));
    const normalized = f.has('normalizer') ? this.added.filter((token) => token.normalized) : [];
    this.rawFinder = new AddedTokenFinder(this.added.filter((token) => !normalized.includes(token)));
    this.normalizedFinder = new AddedTokenFinder(
      normalized.map((token) => ({ ...token, content: this.normalize(token.content) })),
    );
  }

  /** Ids of a text. Nothing is added in front or at the end. */
  encode(text: string, options: EncodeOptions = {}): Int32Array {
    const plain = options.plain;
    const allow = plain === undefined ? () => true : (token: AddedToken) => !plain.has(token.id);
    const out: number[] = [];
    for (const piece of this.rawFinder.split(text, allow)) {
      if ('token' in piece) out.push(piece.token.id);
      else this.encodeRun(this.normalize(piece.text), allow, out);
    }
    return Int32Array.from(out);
  }

  /** Text of ids; bytes that are no whole character become U+FFFD. */
  decode(ids: ArrayLike<number>, options: { skipSpecial?: boolean } = {}): string {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(this.bytesOf(ids, options));
  }

  /** The bytes that ids stand for. */
  bytesOf(ids: ArrayLike<number>, options: { skipSpecial?: boolean } = {}): Uint8Array {
    const parts: Uint8Array[] = [];
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i]!;
      const bytes = this.bytesOfId(id);
      if (!(options.skipSpecial && this.specialIds.has(id))) parts.push(bytes);
    }
    return Buffer.concat(parts);
  }

  /** Id of an added token's text, or of a vocabulary entry as the file writes it. */
  idOf(content: string): number | undefined {
    return this.added.find((token) => token.content === content)?.id ?? this.ids.get(content);
  }

  private bytesOfId(id: number): Uint8Array {
    const bytes = this.bytes[id];
    if (bytes !== undefined) return bytes;
    // a hole between the vocabulary and the added tokens stands for nothing; anything else is a caller's mistake
    if (Number.isInteger(id) && id >= 0 && id < this.size) return EMPTY;
    throw new OpenClawError(
      'E_TOKEN_ID',
      `ids must be whole numbers from 0 to ${this.size - 1}, one is ${show(id)}`,
      'ids',
    );
  }

  private encodeRun(text: string, allow: (token: AddedToken) => boolean, out: number[]): void {
    for (const piece of this.normalizedFinder.split(text, allow)) {
      if ('token' in piece) out.push(piece.token.id);
      else this.encodeWords(piece.text, out);
    }
  }

  private encodeWords(text: string, out: number[]): void {
    for (const word of this.split(text)) {
      const ids = this.cached(word) ?? this.remember(word, this.encodeWord(word));
      for (let i = 0; i < ids.length; i++) out.push(ids[i]!);
    }
  }

  private encodeWord(word: string): Int32Array {
    const bytes = utf8.encode(word);
    if (this.ignoreMerges) {
      const whole = this.ids.get(bytesToCharacters(bytes));
      if (whole !== undefined) return Int32Array.of(whole);
    }
    const symbols = Int32Array.from(bytes, (byte) => this.byteIds[byte]!);
    // a byte the vocabulary lacks and no unknown token: dropped, as in tokenizers
    return this.bpe.merge(symbols.includes(-1) ? symbols.filter((id) => id >= 0) : symbols);
  }

  /** Two generations: when the young one is full it becomes the old one, so what is in use survives and the size is bounded. */
  private cached(word: string): Int32Array | undefined {
    const young = this.cache.get(word);
    if (young !== undefined) return young;
    const old = this.olderCache.get(word);
    return old === undefined ? undefined : this.remember(word, old);
  }

  private remember(word: string, ids: Int32Array): Int32Array {
    if (word.length > MAX_CACHED_WORD_LENGTH) return ids;
    if (this.cache.size >= MAX_CACHED_WORDS) {
      this.olderCache = this.cache;
      this.cache = new Map();
    }
    this.cache.set(word, ids);
    return ids;
  }
}

const EMPTY = new Uint8Array(0);

function modelFields(f: Fields): Fields {
  const model = f.object('model');
  if (model === null) throw f.wrong('model', 'an object');
  const type = model.string('type', 'BPE');
  if (type !== 'BPE') throw unsupported(f.file, `tokenizer model ${show(type)}; supported is "BPE"`);
  if (model.boolean('byte_fallback', false))
    throw unsupported(f.file, 'tokenizer with byte_fallback (SentencePiece); supported is byte-level BPE');
  for (const key of ['continuing_subword_prefix', 'end_of_word_suffix']) {
    if (model.string(key, '') !== '') throw unsupported(f.file, `tokenizer with ${key}; supported is byte-level BPE`);
  }
  return model;
}

function parseVocab(file: string, model: Fields): Map<string, number> {
  const vocab = model.get('vocab');
  if (!isObject(vocab)) throw model.wrong('vocab', 'an object of ids');
  const ids = new Map<string, number>();
  const seen = new Set<number>();
  for (const [token, id] of Object.entries(vocab)) {
    if (!Number.isInteger(id) || (id as number) < 0 || (id as number) > MAX_ID)
      throw fileError(file, `token ${show(token)} has the id ${show(id)}`);
    if (seen.has(id as number)) throw fileError(file, `two tokens have the id ${id}`);
    seen.add(id as number);
    ids.set(token, id as number);
  }
  return ids;
}

/** Merges as "a b" texts or [a, b] pairs. One that would make an added token out of plain text is left out. */
function parseMerges(
  file: string,
  model: Fields,
  ids: ReadonlyMap<string, number>,
  added: ReadonlySet<number>,
): Merge[] {
  const merges = model.get('merges');
  if (!Array.isArray(merges)) throw model.wrong('merges', 'a list');
  const parsed = merges.map((merge: unknown, i) => {
    const [left, right, more] = typeof merge === 'string' ? merge.split(' ') : Array.isArray(merge) ? merge : [];
    if (typeof left !== 'string' || typeof right !== 'string' || more !== undefined)
      throw fileError(file, `merge ${i} is ${show(merge)}, expected two tokens`);
    const [leftId, rightId, joined] = [ids.get(left), ids.get(right), ids.get(left + right)];
    if (leftId === undefined || rightId === undefined || joined === undefined)
      throw fileError(file, `merge ${i} (${show(merge)}) uses a token that is not in the vocabulary`);
    return { left: leftId, right: rightId, joined };
  });
  return parsed.filter(({ joined }) => !added.has(joined));
}

function parseUnknown(file: string, model: Fields, ids: ReadonlyMap<string, number>): number | null {
  if (!model.has('unk_token')) return null;
  const id = ids.get(model.string('unk_token'));
  if (id === undefined)
    throw fileError(file, `"model.unk_token" ${show(model.get('unk_token'))} is not in the vocabulary`);
  return id;
}

function tableSize(ids: ReadonlyMap<string, number>, added: readonly AddedToken[]): number {
  let highest = -1;
  for (const id of ids.values()) highest = Math.max(highest, id);
  for (const { id } of added) highest = Math.max(highest, id);
  return highest + 1;
}

/** Bytes of each id. A text outside the byte table (mostly added tokens) stands for itself, as in tokenizers' ByteLevel decoder. */
function byteTable(
  size: number,
  ids: ReadonlyMap<string, number>,
  added: readonly AddedToken[],
): Array<Uint8Array | undefined> {
  const table = new Array<Uint8Array | undefined>(size);
  const set = (content: string, id: number) => {
    table[id] = charactersToBytes(content) ?? utf8.encode(content);
  };
  for (const [content, id] of ids) set(content, id);
  for (const { content, id } of added) set(content, id);
  return table;
}

function parseSplitter(file: string, f: Fields): Splitter {
  const { split, hasByteLevel } = createSplitter(file, f.get('pre_tokenizer'));
  if (!hasByteLevel)
    throw unsupported(file, 'tokenizer without a ByteLevel pre-tokenizer; supported is byte-level BPE');
  return split;
}

function checkDecoder(file: string, decoder: unknown): void {
  const type = isObject(decoder) ? decoder.type : undefined;
  if (type !== 'ByteLevel') throw unsupported(file, `tokenizer decoder ${show(type)}; supported is "ByteLevel"`);
}

function parseNormalizer(file: string, config: unknown): (text: string) => string {
  if (config === undefined) return (text) => text;
  if (!isObject(config)) throw fileError(file, '"normalizer" must be an object');
  try {
    // a sequence of one: the library exports no other way to make a normaliser of any kind
    const normalizer = new SequenceNormalizer({ type: 'Sequence', normalizers: [config] });
    return (text) => normalizer.normalize(text);
  } catch (cause) {
    throw unsupported(file, `tokenizer normalizer (${reason(cause)})`);
  }
}
