/** What a person may ask of us: not to be trained on, to be forgotten; and retention for everybody. */
import { sql } from 'kysely';
import { type Context, refuseWaiting } from './context.js';
import { isOptedOut } from './turns.js';

export function setOptOut(context: Context, userId: string, optOut: boolean): void {
  const { store, now } = context;
  const opt_out = optOut ? 1 : 0;
  store.run(
    store.queries
      .insertInto('user')
      .values({ id: userId, opt_out })
      .onConflict((oc) => oc.column('id').doUpdateSet({ opt_out })),
  );
  store.log(now, optOut ? 'opt-out' : 'opt-in', null, null);
  if (optOut) for (const id of waitingTurns(context, userId)) refuseWaiting(context, id, 'opted-out');
}

function waitingTurns({ store }: Context, userId: string): string[] {
  const query = store.queries.selectFrom('turn').select('id').where('user_id', '=', userId);
  return store.all(query.where('state', 'in', ['served', 'observed', 'judged'])).map((row) => row.id);
}

export const optedOut = (context: Context, userId: string): boolean => isOptedOut(context, userId);

/** Next states and verdicts go with their turns (foreign keys). */
export function deleteUser(context: Context, userId: string): number {
  const { store, claims, now } = context;
  const { queries } = store;
  for (const id of waitingTurns(context, userId)) claims.free(id);
  const turns = store.run(queries.deleteFrom('turn').where('user_id', '=', userId));
  store.run(queries.deleteFrom('text').where('user_id', '=', userId));
  store.run(queries.deleteFrom('session').where('user_id', '=', userId));
  store.run(queries.deleteFrom('user').where('id', '=', userId).where('opt_out', '=', 0));
  store.log(now, 'user-deleted', null, null);
  return turns;
}

export function prune({ store, now }: Context, before: number): number {
  const { queries } = store;
  const old = queries.deleteFrom('turn').where('state', 'in', ['trained', 'refused']).where('served_at', '<', before);
  const turns = store.run(old);
  if (turns === 0) return 0;
  store.run(queries.deleteFrom('text').where(sql<boolean>`NOT EXISTS (${usesOfText})`));
  store.run(queries.deleteFrom('session').where('last_at', '<', before).where(sql<boolean>`NOT EXISTS (${turnsIn})`));
  store.log(now, 'pruned', null, null);
  return turns;
}

const usesOfText = sql`SELECT 1 FROM turn, json_each(turn.messages) AS message
  WHERE turn.user_id = text.user_id AND (message.value = text.hash OR turn.tools = text.hash)`;
const turnsIn = sql`SELECT 1 FROM turn WHERE turn.session_id = session.id`;
