/**
 * Names for the points of a conversation, so that a later request can be recognised as its continuation although hosts
 * send history back slightly changed: ids of tool calls rewritten, content null or '' beside tool calls, white space
 * trimmed, thinking dropped, a transient context message that wanders along the end.
 *
 * Two rolling hashes per message: `strict` over what was said, `loose` over the users' words alone (a reply or tool result
 * counts only as "one was here"). System messages are in neither: hosts write clocks and memory into them.
 */
import { createHash } from 'node:crypto';
import type { Message, Turn } from './turn.js';

export interface ChainPoint {
  strict: string;
  loose: string;
}

/** Everything that identifies a turn within the talks of one user. */
export interface TurnChain {
  /** the point before the reply */ prompt: string;
  /** the point after the reply */ strict: string;
  loose: string;
  /** digest of the system messages; breaks ties between agents that were asked the same */ system: string;
}

const START: ChainPoint = { strict: 'start', loose: 'start' };

type Marks = readonly [open: string, close: string];
const TRANSIENT: Marks = ['<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>', '<<<END_OPENCLAW_INTERNAL_CONTEXT>>>'];
const THINKING: Marks = ['<think>', '</think>'];
/** "[Mon 2026-11-30 22:21 UTC] ": something in brackets with a clock time in it */
const TIME_STAMP = /^\s*\[[^\]\n]{0,60}\d{1,2}:\d{2}[^\]\n]{0,40}\]\s*/;
/** the host's own line below the first words: "Runtime: agent=main | session=… | sessionId=…" */
const RUNTIME_LINE = /^Runtime: \w+=.*$/m;

/** characters of a message that its loose point looks at; the reply is compared besides */
const LOOSE_CHARS = 4000;

const digest = (...parts: string[]): string =>
  createHash('sha256').update(parts.join('\u0000')).digest('hex').slice(0, 32);
const squash = (text: string): string => text.replace(/\s+/g, ' ').trim();

/** Linear in the text, whatever it holds: a pattern would search to the end anew for each opening mark. */
function withoutBlocks(text: string, [open, close]: Marks): string {
  let rest = '';
  let from = 0;
  for (;;) {
    const start = text.indexOf(open, from);
    const end = start < 0 ? -1 : text.indexOf(close, start);
    if (end < 0) return rest + text.slice(from);
    rest += text.slice(from, start);
    from = end + close.length;
  }
}

/** Text without the blocks a host adds for one request only. */
export function withoutTransient(text: string): string {
  return withoutBlocks(text, TRANSIENT).trim();
}

/** A message that is nothing but such a block: not part of the talk. */
export function isTransient(message: Message): boolean {
  return message.role === 'user' && message.content !== null && /\S/.test(message.content)
    ? withoutTransient(message.content) === ''
    : false;
}

/** What the person said: without time stamp, host lines and transient blocks. */
export function spokenWords(message: Message): string {
  return withoutTransient(message.content ?? '')
    .replace(TIME_STAMP, '')
    .replace(RUNTIME_LINE, '')
    .trim();
}

/** The session's own name where the host writes it under the first user words; null where it does not. */
export function namedSession(messages: readonly Message[]): string | null {
  const first = messages.find((message) => message.role === 'user');
  const line = first?.content?.match(RUNTIME_LINE)?.[0];
  return line?.match(/\bsessionId=([^\s|]{1,128})/)?.[1] ?? null;
}

/** Arguments as JSON with one spelling; text that is no JSON stays as it is. */
function canonicalJson(text: string): string {
  try {
    return JSON.stringify(sortKeys(JSON.parse(text)));
  } catch {
    return squash(text);
  }
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sortKeys(inner)]));
}

function strictText(message: Message): string {
  const text = message.content ?? '';
  const content = message.role === 'assistant' ? withoutBlocks(text, THINKING) : text;
  const calls = (message.toolCalls ?? []).map(
    (call) => `${call.function.name} ${canonicalJson(call.function.arguments)}`,
  );
  return [message.role, squash(withoutTransient(content)), ...calls].join('\u0001');
}

function looseText(message: Message): string {
  if (message.role !== 'user') return message.role;
  const words = spokenWords(message).slice(0, LOOSE_CHARS).toLowerCase();
  return `user\u0001${words.replace(/[^\p{L}\p{N}]+/gu, ' ').trim()}`;
}

/** [messages] the point after each message; messages that do not count repeat the point before them. */
export function chainPoints(messages: readonly Message[]): ChainPoint[] {
  let point = START;
  return messages.map((message) => {
    if (message.role !== 'system' && !isTransient(message)) point = advance(point, message);
    return point;
  });
}

function advance(point: ChainPoint, message: Message): ChainPoint {
  return { strict: digest(point.strict, strictText(message)), loose: digest(point.loose, looseText(message)) };
}

/** Digest of the system messages. */
export function systemDigest(messages: readonly Message[]): string {
  return digest(
    ...messages.filter((message) => message.role === 'system').map((message) => squash(message.content ?? '')),
  );
}

/** The reply of a turn as the message that will come back in the next request. */
export function replyMessage(turn: Pick<Turn, 'text' | 'toolCalls'>): Message {
  return { role: 'assistant', content: turn.text, ...(turn.toolCalls.length > 0 ? { toolCalls: turn.toolCalls } : {}) };
}

export function turnChain(turn: Pick<Turn, 'messages' | 'text' | 'toolCalls'>): TurnChain {
  const before = chainPoints(turn.messages).at(-1) ?? START;
  const after = advance(before, replyMessage(turn));
  return { prompt: before.strict, strict: after.strict, loose: after.loose, system: systemDigest(turn.messages) };
}
