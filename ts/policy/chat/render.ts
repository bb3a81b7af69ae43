/**
 * Messages → ids, so that nobody can forge a turn.
 *
 * A template joins the texts of a conversation with the model's control tokens into one text; read back naively, "<|im_end|>" typed by a
 * user is as good as the real one. Here every character of a message that could begin a protected token is replaced by a marker before
 * the template runs. What then reads as a protected token in the rendered text was written by the template. The text is cut there, the
 * markers are turned back, and what lies between is encoded as plain text.
 *
 * Protected are special tokens, the ids that end a turn, and every other added token the template itself writes ("<tool_response>" in
 * Qwen's). An assistant's own content may hold the latter ("<think>"): templates look for them there, and the model wrote them.
 *
 * Pinned messages: the exact ids of an earlier reply take the place of its text, by a marker as well, so that the next prompt begins with
 * what the policy has seen and sampled (re-tokenised text need not give the same ids).
 */
import { type Message, OpenClawError, type Tool } from '../../record/index.js';
import { type AddedToken, AddedTokenFinder } from '../tokenizer/added-tokens.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import { Guard } from './guard.js';
import { MarkerSource } from './markers.js';
import { type ChatTemplate, toTemplateMessage, toTemplateTool } from './template.js';

export interface RenderOptions {
  tools?: readonly Tool[];
  /** end with what opens an assistant's turn; default true */ addGenerationPrompt?: boolean;
  /** index of an assistant message → the ids sampled for it, without the end token; spliced in verbatim */
  pinned?: ReadonlyMap<number, Int32Array>;
}

export class ChatRenderer {
  /** tokens only the template may write */ private readonly guarded: readonly AddedToken[];
  private readonly guardedIds: ReadonlySet<number>;
  /** guarded tokens that an assistant's content may hold */ private readonly assistantMay: AddedTokenFinder;
  private readonly finder: AddedTokenFinder;

  constructor(
    private readonly tokenizer: Tokenizer,
    private readonly template: ChatTemplate,
    stopIds: Int32Array,
  ) {
    const control = (token: AddedToken) => token.special || stopIds.includes(token.id);
    this.guarded = tokenizer.added.filter((token) => control(token) || template.source.includes(token.content));
    this.guardedIds = new Set(this.guarded.map((token) => token.id));
    this.finder = new AddedTokenFinder(this.guarded);
    this.assistantMay = new AddedTokenFinder(this.guarded.filter((token) => !control(token)));
  }

  render(messages: readonly Message[], options: RenderOptions = {}): Int32Array {
    const pinned = options.pinned ?? new Map<number, Int32Array>();
    checkPinned(messages, pinned, this.tokenizer.size);
    const first = this.renderOnce(messages, options, pinned);
    if (first.lost.length === 0) return first.ids;
    // The template left these messages out or wrote them twice: their ids have no place, the text takes it.
    const kept = new Map([...pinned].filter(([index]) => !first.lost.includes(index)));
    return this.renderOnce(messages, options, kept).ids;
  }

  private renderOnce(
    messages: readonly Message[],
    options: RenderOptions,
    pinned: ReadonlyMap<number, Int32Array>,
  ): Rendered {
    const inputs = messages.map(toTemplateMessage);
    const tools = (options.tools ?? []).map(toTemplateTool);
    const markers = new MarkerSource(textsIn([inputs, tools, this.template.source]));
    const guard = new Guard(this.guarded, this.assistantMay, markers);
    const pins = new Map([...pinned].map(([index, ids]) => [index, { marker: markers.fresh(), ids }]));
    const text = this.template.render(
      inputs.map((message, index) => guard.message(message, pins.get(index)?.marker)),
      tools.map((tool) => guard.deep(tool)),
      options.addGenerationPrompt ?? true,
    );
    const lost = [...pins].filter(([, { marker }]) => text.split(marker).length !== 2).map(([index]) => index);
    return { ids: this.encode(text, guard, new Map([...pins.values()].map(({ marker, ids }) => [marker, ids]))), lost };
  }

  private encode(text: string, guard: Guard, pins: ReadonlyMap<string, Int32Array>): Int32Array {
    const parts: Int32Array[] = [];
    for (const piece of this.finder.split(text, () => true)) {
      if ('token' in piece) parts.push(Int32Array.of(piece.token.id));
      else
        for (const run of splitKeeping(piece.text, pins))
          parts.push(pins.get(run) ?? this.tokenizer.encode(guard.restore(run), { plain: this.guardedIds }));
    }
    return concat(parts);
  }
}

interface Rendered {
  ids: Int32Array;
  /** pinned messages whose marker did not come out exactly once */ lost: number[];
}

function checkPinned(messages: readonly Message[], pinned: ReadonlyMap<number, Int32Array>, size: number): void {
  for (const [index, ids] of pinned) {
    if (messages[index]?.role !== 'assistant')
      throw new OpenClawError('E_ARGUMENT', `pinned: message ${index} is not an assistant's`, 'pinned');
    const bad = ids.find((id) => id < 0 || id >= size);
    if (bad !== undefined)
      throw new OpenClawError(
        'E_TOKEN_ID',
        `pinned: message ${index} has the id ${bad}, expected 0 to ${size - 1}`,
        'pinned',
      );
  }
}

/** Cuts a text at the markers, which stay as pieces of their own. */
function splitKeeping(text: string, markers: ReadonlyMap<string, unknown>): string[] {
  if (markers.size === 0) return [text];
  return text.split(new RegExp(`(${[...markers.keys()].join('|')})`, 'u')).filter((run) => run !== '');
}

/** Every text inside a JSON value, keys included. */
function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* textsIn(item);
  else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      yield key;
      yield* textsIn(item);
    }
  }
}

function concat(parts: readonly Int32Array[]): Int32Array {
  const out = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
