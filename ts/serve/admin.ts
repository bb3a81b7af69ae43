/** What was recorded and what became of it: turns, sessions, versions, feedback, opt-out and deletion. */
import { z } from 'zod';
import type { NextState, Update } from '../record/index.js';
import { badRequest, notFound } from './http/errors.js';
import { type Caller, mayRead, namedUser } from './http/keys.js';
import type { ServeEvents, ServeLedger, ServeTurn } from './ports.js';

const MAX_VERSIONS = 200;

const feedbackSchema = z
  .object({
    turn_id: z.string().min(1).max(256),
    /** -1 bad, 1 good */ score: z.union([z.literal(-1), z.literal(0), z.literal(1)]).nullish(),
    text: z.string().min(1).max(16_384).nullish(),
  })
  .refine((f) => f.score != null || f.text != null, { message: 'score or text is needed', path: ['score'] });

const optOutSchema = z.object({ opt_out: z.boolean() });

export class Admin {
  constructor(
    private readonly ledger: ServeLedger,
    private readonly events: ServeEvents,
  ) {}

  async turn(caller: Caller, id: string): Promise<Record<string, unknown>> {
    return turnView(await this.readable(caller, id));
  }

  /** A turn of another key's user does not exist for this caller. */
  private async readable(caller: Caller, id: string): Promise<ServeTurn> {
    const turn = await this.ledger.findTurn(id);
    if (!turn || !mayRead(caller, turn.userId)) throw notFound(`there is no turn '${id}'`);
    return turn;
  }

  async session(caller: Caller, id: string): Promise<Record<string, unknown>> {
    const turns = (await this.ledger.turnsOfSession(id)).filter((turn) => mayRead(caller, turn.userId));
    if (turns.length === 0) throw notFound(`there is no session '${id}'`);
    return { id, object: 'session', user: turns[0]!.userId, turns: turns.map(turnView) };
  }

  async versions(live: string): Promise<Record<string, unknown>> {
    const updates = await this.ledger.updates({ limit: MAX_VERSIONS });
    return { object: 'list', live, data: updates.map(versionView) };
  }

  async deleteUser(caller: Caller, id: string): Promise<Record<string, unknown>> {
    const user = namedUser(caller, id);
    return { user, deleted_turns: await this.ledger.deleteUser(user) };
  }

  async setOptOut(caller: Caller, id: string, json: unknown): Promise<Record<string, unknown>> {
    const body = valid(optOutSchema, json);
    const user = namedUser(caller, id);
    await this.ledger.setOptOut(user, body.opt_out);
    return { user, opt_out: body.opt_out };
  }

  /** An opinion about a reply counts as what came next, where nothing else has come yet. */
  async feedback(caller: Caller, json: unknown): Promise<Record<string, unknown>> {
    const { turn_id, score, text } = valid(feedbackSchema, json);
    const turn = await this.readable(caller, turn_id);
    const outcome = await this.ledger.observe(feedbackState(turn.id, score ?? null, text ?? null));
    if (outcome === 'observed') this.events.emit({ type: 'turn.observed', turnId: turn.id, sessionId: turn.sessionId });
    return { turn_id: turn.id, recorded: outcome === 'observed', outcome };
  }
}

/** Words are the user's. A bare score is a report from outside, good or bad as a tool's result is; 0 is neither. */
export function feedbackState(turnId: string, score: number | null, text: string | null): NextState {
  const items: NextState['items'] = [];
  if (text !== null) items.push({ role: 'user', text });
  if (score !== null) {
    const good = score === 0 ? {} : { isError: score < 0 };
    items.push({ role: 'env', text: `feedback: ${score > 0 ? '+1' : score}`, ...good });
  }
  return { turnId, items, arrivedAt: Date.now() };
}

function turnView(turn: ServeTurn): Record<string, unknown> {
  return {
    id: turn.id,
    object: 'turn',
    session_id: turn.sessionId,
    user: turn.userId,
    index: turn.index,
    kind: turn.kind,
    state: turn.state,
    refusal: turn.refusal,
    trained_version: turn.trainedVersion,
    version: turn.version,
    finish: turn.finish,
    prompt_tokens: turn.promptIds.length,
    reply_tokens: turn.responseIds.length,
    messages: turn.messages,
    text: turn.text,
    tool_calls: turn.toolCalls,
    sampling: turn.sampling,
    served_at: turn.servedAt,
  };
}

function versionView(update: Update): Record<string, unknown> {
  return {
    version: update.version,
    parent: update.parent,
    method: update.method,
    state: update.state,
    turns: update.turnIds.length,
    metrics: update.metrics,
    probes: update.probes,
    created_at: update.createdAt,
  };
}

function valid<T>(schema: z.ZodType<T>, json: unknown): T {
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const param = issue.path.join('.') || null;
  throw badRequest(`invalid '${param ?? 'body'}': ${issue.message}`, param, 'invalid_value');
}
