/** The first half of a turn's life: served, then observed, or refused. */
import { turnChain } from '../../record/chain.js';
import { OpenClawError } from '../../record/errors.js';
import type { NextState, Refusal, Turn } from '../../record/index.js';
import { toBlob } from '../codec.js';
import type { StoredTurn } from '../types.js';
import { type Context, explainTurn, fail, refuseWaiting } from './context.js';
import { keepText, nextStateOf, type TurnRow, toStoredTurn, verdictOf } from './rows.js';

export interface Committed {
  /** the turn that recorded this request before; null: this one did */ duplicateOf: string | null;
}

export function commitTurn(context: Context, turn: Turn, refuse: Refusal | null): Committed {
  const first = idOfRequest(context, turn.userId, turn.requestId);
  if (first !== null) {
    context.store.log(context.now, 'refused', first, 'duplicate');
    return { duplicateOf: first };
  }
  if (turn.logprobs !== null && turn.logprobs.length !== turn.responseIds.length) {
    fail(`logprobs hold ${turn.logprobs.length} numbers, responseIds ${turn.responseIds.length}`, 'turn.logprobs');
  }
  touchSession(context, turn);
  insertTurn(context, turn, refuse ?? refusalOf(context, turn));
  return { duplicateOf: null };
}

function idOfRequest({ store }: Context, userId: string, requestId: string): string | null {
  const query = store.queries.selectFrom('turn').select('id');
  return store.first(query.where('user_id', '=', userId).where('request_id', '=', requestId))?.id ?? null;
}

/** Why a turn is no training data from the start, whatever the caller thinks. */
function refusalOf(context: Context, turn: Turn): Refusal | null {
  if (turn.kind === 'side') return 'side-turn';
  return isOptedOut(context, turn.userId) ? 'opted-out' : null;
}

export function isOptedOut({ store }: Context, userId: string): boolean {
  return store.first(store.queries.selectFrom('user').select('opt_out').where('id', '=', userId))?.opt_out === 1;
}

function touchSession({ store }: Context, turn: Turn): void {
  const owner = store.first(store.queries.selectFrom('session').select('user_id').where('id', '=', turn.sessionId));
  if (owner !== null && owner.user_id !== turn.userId) {
    throw new OpenClawError('E_FORBIDDEN', `session ${turn.sessionId} belongs to another user`, 'turn.sessionId');
  }
  store.run(
    store.queries
      .insertInto('session')
      .values({
        id: turn.sessionId,
        user_id: turn.userId,
        started_at: turn.servedAt,
        last_at: turn.servedAt,
        ended_at: null,
        end_reason: null,
      })
      .onConflict((oc) => oc.column('id').doUpdateSet({ last_at: turn.servedAt, ended_at: null, end_reason: null })),
  );
}

function insertTurn({ store, now }: Context, turn: Turn, refusal: Refusal | null): void {
  const chain = turnChain(turn);
  store.run(
    store.queries.insertInto('turn').values({
      id: turn.id,
      session_id: turn.sessionId,
      user_id: turn.userId,
      idx: turn.index,
      kind: turn.kind,
      request_id: turn.requestId,
      version: turn.version,
      prompt_ids: toBlob(turn.promptIds),
      response_ids: toBlob(turn.responseIds),
      logprobs: turn.logprobs === null ? null : toBlob(turn.logprobs),
      sampling: JSON.stringify(turn.sampling),
      messages: JSON.stringify(turn.messages.map((message) => keepText(store, turn.userId, message))),
      tools: turn.tools.length === 0 ? null : keepText(store, turn.userId, turn.tools),
      text: turn.text,
      tool_calls: JSON.stringify(turn.toolCalls),
      finish: turn.finish,
      served_at: turn.servedAt,
      chain_prompt: chain.prompt,
      chain_strict: chain.strict,
      chain_loose: chain.loose,
      chain_system: chain.system,
      state: refusal === null ? 'served' : 'refused',
      refusal,
      trained_version: null,
    }),
  );
  if (refusal !== null) store.log(now, 'refused', turn.id, refusal);
}

export function observe({ store }: Context, next: NextState): 'observed' | 'already' | 'missing' {
  const { queries } = store;
  const moved = store.run(
    queries.updateTable('turn').set({ state: 'observed' }).where('id', '=', next.turnId).where('state', '=', 'served'),
  );
  if (moved === 0) {
    return store.first(queries.selectFrom('turn').select('id').where('id', '=', next.turnId)) ? 'already' : 'missing';
  }
  store.run(
    queries
      .insertInto('next_state')
      .values({ turn_id: next.turnId, items: JSON.stringify(next.items), arrived_at: next.arrivedAt }),
  );
  return 'observed';
}

export function refuse(context: Context, turnId: string, reason: Refusal): void {
  if (refuseWaiting(context, turnId, reason)) return;
  // A user may opt out while a loop holds the turn: the first reason stays, and the loop's own refusal is no error.
  if (stateOf(context, turnId) !== 'refused') explainTurn(context, turnId, 'refused');
  context.claims.free(turnId);
}

function stateOf({ store }: Context, turnId: string): string | null {
  return store.first(store.queries.selectFrom('turn').select('state').where('id', '=', turnId))?.state ?? null;
}

export function releaseClaims({ claims }: Context, turnIds: string[]): void {
  for (const turnId of turnIds) claims.free(turnId);
}

export function findTurn({ store }: Context, turnId: string): StoredTurn | null {
  const row = store.first(store.queries.selectFrom('turn').selectAll().where('id', '=', turnId));
  return row === null ? null : toStoredTurn(store, row as TurnRow);
}

export function findByRequest(context: Context, userId: string, requestId: string): StoredTurn | null {
  const id = idOfRequest(context, userId, requestId);
  return id === null ? null : findTurn(context, id);
}

export const findNextState = ({ store }: Context, turnId: string) => nextStateOf(store, turnId);
export const findVerdict = ({ store }: Context, turnId: string) => verdictOf(store, turnId);
