/**
 * What happens in the runtime, as one typed union. Stations emit; watch keeps a bounded history, counts and shows. Events carry
 * ids, numbers and names, never what was said: they may be logged and read by whoever may see the page.
 */
import type { Refusal } from './refusal.js';
import type { Finish } from './turn.js';
import type { Verdict } from './verdict.js';

export type EventBody =
  /** committed, and its last byte handed over */
  | {
      type: 'turn.served';
      turnId: string;
      sessionId: string;
      kind: 'main' | 'side';
      index: number;
      version: string | null;
      finish: Finish;
      promptTokens: number;
      cachedTokens: number;
      replyTokens: number;
      /** from the request's arrival, ms; null: reported from outside, not measured here */ msToFirst: number | null;
      ms: number | null;
    }
  /** what came next is known */
  | { type: 'turn.observed'; turnId: string; sessionId?: string }
  | {
      type: 'turn.judged';
      turnId: string;
      sessionId?: string;
      reward: number | null;
      status?: Verdict['status'];
      /** how many usable hints */ hints: number;
    }
  | { type: 'turn.refused'; turnId: string; reason: Refusal }
  | { type: 'judge.failed'; turnId?: string; reason: string }
  | { type: 'session.ended'; sessionId: string; reason: string; unobserved: number }
  | { type: 'update.started'; turns: number }
  | { type: 'update.progress'; stage: 'scoring' | 'epoch'; done: number; total: number }
  | { type: 'update.done'; version: string; parent: string; turns: number; metrics: Record<string, number>; ms: number }
  | { type: 'update.skipped'; reason: string; turns: number }
  | { type: 'update.failed'; reason: string; turns: number }
  /** a request turned away: overload, shutdown */
  | { type: 'request.refused'; reason: string }
  /** one session of a simulated user is over */
  | {
      type: 'demo.session';
      index: number;
      firstReplyObeys: boolean;
      correct: boolean;
      version: string | null;
      persona?: string;
    };

/** An event as the bus hands it on: numbered from 1 without gaps, `at` in ms since the epoch. */
export type RuntimeEvent = EventBody & { id: number; at: number };

export type EventType = EventBody['type'];

/** What a station needs to say what happens. */
export interface EventSink {
  emit(event: EventBody): void;
}
