/** Keeps control tokens out of what people (and tools, and models) write: see render.ts for the idea. */
import type { AddedToken, AddedTokenFinder } from '../tokenizer/added-tokens.js';
import { jsonEscape, type MarkerSource } from './markers.js';
import type { TemplateMessage } from './template.js';

export class Guard {
  /** first character of a guarded token → its marker, and back */
  private readonly markers = new Map<string, string>();
  private readonly originals = new Map<string, string>();
  private readonly starts: RegExp | null;
  private readonly marks: RegExp | null;

  /** @param allowed finds tokens that an assistant's own content may hold */
  constructor(
    guarded: readonly AddedToken[],
    private readonly allowed: AddedTokenFinder,
    source: MarkerSource,
  ) {
    for (const { content } of guarded) {
      const first = String.fromCodePoint(content.codePointAt(0)!);
      if (this.markers.has(first)) continue;
      const marker = source.fresh();
      this.markers.set(first, marker);
      this.originals.set(marker, first);
      this.originals.set(jsonEscape(marker), first);
    }
    this.starts = anyOf(this.markers.keys());
    this.marks = anyOf(this.originals.keys());
  }

  /** Replaces every character that could begin a guarded token: whatever a template joins it with, no token comes out. */
  text(text: string): string {
    return this.starts === null ? text : text.replace(this.starts, (first) => this.markers.get(first)!);
  }

  /** The same for an assistant's content, but a structural token that stands there in full stays. */
  assistantText(text: string): string {
    const pieces = this.allowed.split(text, () => true);
    return pieces.map((piece) => ('token' in piece ? piece.token.content : this.text(piece.text))).join('');
  }

  /** The same for every text inside a JSON value, keys included. */
  deep(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value);
    if (Array.isArray(value)) return value.map((item) => this.deep(item));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [this.text(key), this.deep(item)]));
  }

  /** @param pin stands for the whole message when its ids are known */
  message(message: TemplateMessage, pin: string | undefined): TemplateMessage {
    if (pin !== undefined) return { role: message.role, content: pin };
    const { role, content, name, tool_call_id, tool_calls } = message;
    return {
      role,
      content: role === 'assistant' ? this.assistantText(content) : this.text(content),
      ...(name === undefined ? {} : { name: this.text(name) }),
      ...(tool_call_id === undefined ? {} : { tool_call_id: this.text(tool_call_id) }),
      ...(tool_calls === undefined ? {} : { tool_calls: tool_calls.map((call) => this.deep(call) as typeof call) }),
    };
  }

  /** Turns markers back into what they stand for. */
  restore(text: string): string {
    return this.marks === null ? text : text.replace(this.marks, (mark) => this.originals.get(mark)!);
  }
}

function anyOf(texts: Iterable<string>): RegExp | null {
  const escaped = [...texts].map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return escaped.length === 0 ? null : new RegExp(escaped.join('|'), 'gu');
}
