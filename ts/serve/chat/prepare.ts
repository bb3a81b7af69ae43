/** The way in: whose turn is this, what came of the turn before, which ids does the policy see, how much may it say. */
import { randomInt } from 'node:crypto';
import { type NextState, OpenClawError, type Sampling } from '../../record/index.js';
import type { ChatRequest } from '../openai/request.js';
import type { ResolvedTurn, ServeEvents, ServeLedger, ServeLimits, ServePolicy, ServeSessions } from '../ports.js';

export interface Prepared {
  userId: string;
  resolved: ResolvedTurn;
  promptIds: Int32Array;
  sampling: Sampling;
  /** tokens asked for, where less is given */ clampedFrom: number | null;
  /** main | side | no:<reason>, as the reply's header says it */ recorded: string;
  /** settles when the next state of the turn before is durable; the commit waits for it, the first token does not */
  observed: Promise<void>;
}

export interface PrepareDeps {
  policy: ServePolicy;
  ledger: ServeLedger;
  sessions: ServeSessions;
  events: ServeEvents;
  limits: Pick<ServeLimits, 'maxReplyTokens'>;
}

export async function prepare(
  request: ChatRequest,
  userId: string,
  headers: Record<string, string | undefined>,
  deps: PrepareDeps,
): Promise<Prepared> {
  const { policy, ledger, sessions, events } = deps;
  const [resolved, optedOut] = await Promise.all([
    sessions.resolve({ userId, headers, body: request.twins, messages: request.messages }),
    ledger.optedOut(userId),
  ]);
  const observed = resolved.next ? observe(resolved.next, resolved.sessionId, ledger, events) : Promise.resolve();
  // whoever waits for it hears of a failure; where nobody comes to wait, the request has failed of something else
  observed.catch(() => {});
  const promptIds = policy.renderChat(request.messages, { tools: request.tools, pinned: resolved.pinned });
  const { maxTokens, clampedFrom } = replyRoom(
    request.maxTokens,
    promptIds.length,
    policy.context,
    deps.limits.maxReplyTokens,
  );
  return {
    userId,
    resolved,
    promptIds,
    sampling: samplingOf(request, maxTokens),
    clampedFrom,
    recorded: optedOut ? 'no:opted-out' : resolved.kind,
    observed,
  };
}

/** The next state of the turn before. A retry brings the same one again: the ledger knows. */
async function observe(next: NextState, sessionId: string, ledger: ServeLedger, events: ServeEvents): Promise<void> {
  const outcome = await ledger.observe(next);
  if (outcome === 'observed') events.emit({ type: 'turn.observed', turnId: next.turnId, sessionId });
}

/** Hosts ask for more than fits (178,220 tokens were seen): they get what fits and are told. @throws E_CONTEXT without room for one token */
export function replyRoom(
  asked: number | null,
  promptTokens: number,
  context: number,
  maxReplyTokens: number,
): { maxTokens: number; clampedFrom: number | null } {
  const room = context - promptTokens;
  if (room < 1) {
    throw new OpenClawError(
      'E_CONTEXT',
      `this model's maximum context length is ${context} tokens, and the messages alone are ${promptTokens}`,
      'messages',
    );
  }
  const most = Math.min(room, maxReplyTokens);
  if (asked === null) return { maxTokens: most, clampedFrom: null };
  return asked > most ? { maxTokens: most, clampedFrom: asked } : { maxTokens: asked, clampedFrom: null };
}

/** A seed is drawn here where none was given, so that the record can replay the reply. */
function samplingOf(request: ChatRequest, maxTokens: number): Sampling {
  const { temperature, topP, topK, stop } = request;
  return { temperature, topP, topK, maxTokens, seed: request.seed ?? randomInt(2 ** 47), stop };
}
