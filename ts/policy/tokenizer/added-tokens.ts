/** Added tokens: texts that are one id whatever stands around them, found before anything is cut into words. */
import { Fields, fileError } from '../files/reading.js';

export interface AddedToken {
  id: number;
  content: string;
  /** control token of the model, not something people write */ special: boolean;
  /** also takes the white space on its left / right */ lstrip: boolean;
  rstrip: boolean;
  /** only where no word character stands beside it */ singleWord: boolean;
  /** matched in the normalised text instead of the raw one */ normalized: boolean;
}

export function parseAddedTokens(file: string, value: unknown): AddedToken[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw fileError(file, '"added_tokens" must be a list');
  const tokens = value.map((entry, i) => parseAddedToken(Fields.of(file, entry, `added_tokens[${i}].`)));
  return tokens.filter((token) => token.content !== '');
}

function parseAddedToken(f: Fields): AddedToken {
  const special = f.boolean('special', false);
  return {
    id: f.integer('id', { min: 0, max: 2 ** 24 }),
    content: f.string('content'),
    special,
    lstrip: f.boolean('lstrip', false),
    rstrip: f.boolean('rstrip', false),
    singleWord: f.boolean('single_word', false),
    normalized: f.boolean('normalized', !special),
  };
}

/** A piece of text: an added token, or a run of plain text between them. */
export type Piece = { token: AddedToken } | { text: string };

const WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]/u;

/** Finds added tokens: leftmost, and of those the longest, as tokenizers' Aho–Corasick does. */
export class AddedTokenFinder {
  /** by first UTF-16 unit, longest first */
  private readonly byFirst = new Map<number, AddedToken[]>();

  constructor(tokens: Iterable<AddedToken>) {
    for (const token of tokens) {
      const first = token.content.charCodeAt(0);
      const list = this.byFirst.get(first);
      if (list) list.push(token);
      else this.byFirst.set(first, [token]);
    }
    for (const list of this.byFirst.values()) list.sort((a, b) => b.content.length - a.content.length);
  }

  /** Cuts `text` at the tokens that `allow` accepts. */
  split(text: string, allow: (token: AddedToken) => boolean): Piece[] {
    if (this.byFirst.size === 0) return [{ text }];
    const pieces: Piece[] = [];
    let start = 0;
    for (let at = 0; at < text.length; ) {
      const token = this.at(text, at, allow);
      if (token === undefined) {
        at++;
        continue;
      }
      const end = at + token.content.length;
      const before = token.lstrip ? text.slice(start, at).trimEnd() : text.slice(start, at);
      if (before !== '') pieces.push({ text: before });
      pieces.push({ token });
      at = token.rstrip ? end + (text.length - end - text.slice(end).trimStart().length) : end;
      start = at;
    }
    if (start < text.length) pieces.push({ text: text.slice(start) });
    return pieces;
  }

  private at(text: string, at: number, allow: (token: AddedToken) => boolean): AddedToken | undefined {
    const candidates = this.byFirst.get(text.charCodeAt(at));
    return candidates?.find((token) => text.startsWith(token.content, at) && fitsWord(text, at, token) && allow(token));
  }
}

function fitsWord(text: string, at: number, token: AddedToken): boolean {
  if (!token.singleWord) return true;
  const before = text[at - 1];
  const after = text[at + token.content.length];
  return !(before !== undefined && WORD.test(before)) && !(after !== undefined && WORD.test(after));
}
