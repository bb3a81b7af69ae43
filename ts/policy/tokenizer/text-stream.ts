/** Ids as they are sampled → text that is certain: never half a character, and never the beginning of a stop text. */
import type { Tokenizer } from './tokenizer.js';

export interface TextStream {
  /** the text that is certain now */ push(ids: ArrayLike<number>): string;
  /** what was held back; bytes that never became a character are U+FFFD */ end(): string;
  /** a stop text was met: nothing more comes out */ readonly stopped: boolean;
}

export interface TextStreamOptions {
  /** texts that end the reply; they are not part of it */ stop?: readonly string[];
  /** ids without text; default: the tokenizer's special ones, except tags of tool calls */ hidden?: ReadonlySet<number>;
}

/** Some tokenizers mark these special, but the parser of tool calls must see them. */
const TOOL_TAGS = new Set(['<tool_call>', '</tool_call>']);

export function hiddenIds(tokenizer: Tokenizer): Set<number> {
  return new Set(
    tokenizer.added.filter((token) => token.special && !TOOL_TAGS.has(token.content)).map((token) => token.id),
  );
}

export function textStream(tokenizer: Tokenizer, options: TextStreamOptions = {}): TextStream {
  return new Utf8TextStream(
    tokenizer,
    options.hidden ?? hiddenIds(tokenizer),
    options.stop?.filter((text) => text !== '') ?? [],
  );
}

class Utf8TextStream implements TextStream {
  stopped = false;
  private held = '';
  private readonly utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(
    private readonly tokenizer: Tokenizer,
    private readonly hidden: ReadonlySet<number>,
    private readonly stops: readonly string[],
  ) {}

  push(ids: ArrayLike<number>): string {
    if (this.stopped) return '';
    const seen = Array.from(ids).filter((id) => !this.hidden.has(id));
    return this.release(this.utf8.decode(this.tokenizer.bytesOf(seen), { stream: true }), false);
  }

  end(): string {
    if (this.stopped) return '';
    return this.release(this.utf8.decode(), true);
  }

  private release(more: string, last: boolean): string {
    this.held += more;
    const stop = firstOf(this.held, this.stops);
    this.stopped = stop >= 0;
    const certain = this.stopped ? stop : last ? this.held.length : this.held.length - openTail(this.held, this.stops);
    const text = this.held.slice(0, certain);
    this.held = this.stopped ? '' : this.held.slice(certain);
    return text;
  }
}

/** Where the first of `needles` begins in `text`, or -1. */
function firstOf(text: string, needles: readonly string[]): number {
  const found = needles.map((needle) => text.indexOf(needle)).filter((at) => at >= 0);
  return found.length === 0 ? -1 : Math.min(...found);
}

/** Length of the longest end of `text` that is a proper beginning of one of `needles`. */
export function openTail(text: string, needles: readonly string[]): number {
  let longest = 0;
  for (const needle of needles) {
    for (let n = Math.min(needle.length - 1, text.length); n > longest; n--) {
      if (needle.startsWith(text.slice(-n))) longest = n;
    }
  }
  return longest;
}
