/** Sessions and the chains by which they are recognised. */
import { sql } from 'kysely';
import type { ChainTurn, SessionRow, StoredTurn } from '../types.js';
import { type Context, refuseWaiting } from './context.js';
import { CHAIN_COLUMNS, type ChainRow, type TurnRow, toChainTurn, toStoredTurn } from './rows.js';

export function endSession(context: Context, sessionId: string, reason: string): number {
  const { store, now } = context;
  const waiting = store.all(
    store.queries.selectFrom('turn').select('id').where('session_id', '=', sessionId).where('state', '=', 'served'),
  );
  for (const { id } of waiting) refuseWaiting(context, id, 'no-next-state');
  const ended = store.run(
    store.queries
      .updateTable('session')
      .set({ ended_at: now, end_reason: reason })
      .where('id', '=', sessionId)
      .where('ended_at', 'is', null),
  );
  if (ended > 0) store.log(now, 'session-ended', null, reason);
  return waiting.length;
}

export function lastTurnOfSession({ store }: Context, sessionId: string): StoredTurn | null {
  const query = store.queries.selectFrom('turn').selectAll().where('session_id', '=', sessionId);
  const row = store.first(query.where('kind', '=', 'main').orderBy('seq', 'desc').limit(1));
  return row === null ? null : toStoredTurn(store, row as TurnRow);
}

export function turnsOfSession({ store }: Context, sessionId: string): StoredTurn[] {
  const query = store.queries.selectFrom('turn').selectAll().where('session_id', '=', sessionId).orderBy('seq');
  return (store.all(query) as TurnRow[]).map((row) => toStoredTurn(store, row));
}

type SessionTableRow = {
  id: string;
  user_id: string;
  started_at: number;
  last_at: number;
  ended_at: number | null;
  end_reason: string | null;
};

const toSession = (row: SessionTableRow): SessionRow => ({
  id: row.id,
  userId: row.user_id,
  startedAt: row.started_at,
  lastAt: row.last_at,
  endedAt: row.ended_at,
  endReason: row.end_reason,
});

export function sessions({ store }: Context, limit: number, userId: string | null): SessionRow[] {
  const all = store.queries.selectFrom('session').selectAll().orderBy('last_at', 'desc').limit(limit);
  return store.all(userId === null ? all : all.where('user_id', '=', userId)).map(toSession);
}

export function findSession({ store }: Context, sessionId: string): SessionRow | null {
  const row = store.first(store.queries.selectFrom('session').selectAll().where('id', '=', sessionId));
  return row === null ? null : toSession(row);
}

export function idleSessions({ store }: Context, before: number, limit: number): string[] {
  const query = store.queries.selectFrom('session').select('id').where('ended_at', 'is', null);
  return store.all(query.where('last_at', '<', before).orderBy('last_at').limit(limit)).map((row) => row.id);
}

export function findChains(
  { store }: Context,
  userId: string,
  by: 'strict' | 'loose',
  points: string[],
  limit: number,
): ChainTurn[] {
  const query = store.queries
    .selectFrom('turn')
    .select(CHAIN_COLUMNS)
    .where('user_id', '=', userId)
    .where('kind', '=', 'main')
    .where(`chain_${by}`, 'in', sql<string>`(SELECT value FROM json_each(${JSON.stringify(points)}))`)
    .orderBy('seq', 'desc')
    .limit(limit);
  return (store.all(query) as ChainRow[]).map(toChainTurn);
}

export function chainOfSession({ store }: Context, sessionId: string, limit: number): ChainTurn[] {
  const query = store.queries
    .selectFrom('turn')
    .select(CHAIN_COLUMNS)
    .where('session_id', '=', sessionId)
    .where('kind', '=', 'main')
    .orderBy('seq', 'desc')
    .limit(limit);
  return (store.all(query) as ChainRow[]).reverse().map(toChainTurn);
}
