/** Which of our turns does a request continue? */
import { type ChainPoint, type Message, systemDigest } from '../record/index.js';
import type { ChainTurn } from './ports.js';

/** replies looked back over: a talk branches near its end */
export const LOOK_BACK = 64;
/** a host that shortens or trims a reply still leaves most of its words */
const SIMILAR = 0.8;

/** A reply in the request: where it stands and the point after it. */
export interface Reply {
  position: number;
  point: ChainPoint;
  content: string;
}

export interface Match {
  turn: ChainTurn;
  /** index of the reply among the messages */ position: number;
}

/** The newest replies of a request, latest first. */
export function repliesOf(messages: readonly Message[], points: readonly ChainPoint[]): Reply[] {
  return messages
    .flatMap((message, position) =>
      message.role === 'assistant' ? [{ position, point: points[position]!, content: message.content ?? '' }] : [],
    )
    .reverse()
    .slice(0, LOOK_BACK);
}

/**
 * The turn that was matched by the latest reply. Where several turns share a point (the same user asked the same and got
 * the same), the agent with the same system messages comes first, then the talk that still waits for an answer, then the newest.
 */
export function bestStrict(
  messages: readonly Message[],
  replies: readonly Reply[],
  turns: readonly ChainTurn[],
): Match | null {
  for (const { position, point } of replies) {
    const fitting = turns.filter((turn) => turn.chain.strict === point.strict);
    if (fitting.length > 0) return { turn: preferred(fitting, systemDigest(messages)), position };
  }
  return null;
}

/** Like bestStrict for replies that came back changed: the users' words agree and the reply is still similar. */
export function bestLoose(
  messages: readonly Message[],
  replies: readonly Reply[],
  turns: readonly ChainTurn[],
): Match | null {
  for (const { position, point, content } of replies) {
    const fitting = turns.filter((turn) => turn.chain.loose === point.loose && isSimilar(turn.text, content));
    if (fitting.length > 0) return { turn: preferred(fitting, systemDigest(messages)), position };
  }
  return null;
}

function preferred(turns: ChainTurn[], system: string): ChainTurn {
  const rank = (turn: ChainTurn): number[] => [
    turn.chain.system === system ? 1 : 0,
    turn.open ? 1 : 0,
    turn.servedAt,
    turn.index,
  ];
  return turns.reduce((best, turn) => (compare(rank(turn), rank(best)) > 0 ? turn : best));
}

function compare(a: number[], b: number[]): number {
  const at = a.findIndex((value, i) => value !== b[i]);
  return at < 0 ? 0 : a[at]! - b[at]!;
}

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/** Dice coefficient over words (2·common / both), or one being the beginning of the other (a trimmed reply). */
export function isSimilar(a: string, b: string): boolean {
  const [first, second] = [wordsOf(a), wordsOf(b)];
  if (first.length === 0 || second.length === 0) return first.length === second.length;
  const [short, long] = first.length <= second.length ? [first, second] : [second, first];
  if (short.length >= 3 && short.every((word, i) => word === long[i])) return true;
  return (2 * countCommon(first, second)) / (first.length + second.length) >= SIMILAR;
}

function countCommon(a: string[], b: string[]): number {
  const left = new Map<string, number>();
  for (const word of a) left.set(word, (left.get(word) ?? 0) + 1);
  let common = 0;
  for (const word of b) {
    const n = left.get(word) ?? 0;
    if (n === 0) continue;
    left.set(word, n - 1);
    common++;
  }
  return common;
}
