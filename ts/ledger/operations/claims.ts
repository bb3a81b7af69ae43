/** The second half of a turn's life: claimed by the judge, judged, claimed by training. */
import type { NextState, Turn, Verdict } from '../../record/index.js';
import type { JudgedTurn, ObservedTurn } from '../types.js';
import { type Context, explainTurn } from './context.js';
import { nextStateOf, type TurnRow, toTurn, verdictOf } from './rows.js';

/** earlier turns handed to the judge; each one's messages already hold the whole talk before it */
export const HISTORY_TURNS = 4;

export function claimObserved(context: Context, limit: number): ObservedTurn[] {
  return claim(context, 'observed', limit).map((row) => ({
    turn: toTurn(context.store, row),
    next: nextStateOf(context.store, row.id) as NextState,
    history: historyOf(context, row),
  }));
}

export function claimJudged(context: Context, limit: number): JudgedTurn[] {
  return claim(context, 'judged', limit).map((row) => ({
    turn: toTurn(context.store, row),
    next: nextStateOf(context.store, row.id) as NextState,
    verdict: verdictOf(context.store, row.id) as Verdict,
  }));
}

/** The oldest turns of a state that nobody holds; reading past the held ones keeps the statement one and the same. */
function claim({ store, claims, undo }: Context, state: 'observed' | 'judged', limit: number): TurnRow[] {
  const held = claims[state];
  const rows = store.all(
    store.queries
      .selectFrom('turn')
      .select(['id'])
      .where('state', '=', state)
      .orderBy('seq')
      .limit(limit + held.size),
  );
  const ids = rows
    .map((row) => row.id)
    .filter((id) => !held.has(id))
    .slice(0, limit);
  for (const id of ids) held.add(id);
  undo.push(() => ids.forEach((id) => void held.delete(id)));
  return ids.map((id) => store.first(store.queries.selectFrom('turn').selectAll().where('id', '=', id)) as TurnRow);
}

function historyOf({ store }: Context, row: TurnRow): Array<{ turn: Turn; next: NextState | null }> {
  const rows = store.all(
    store.queries
      .selectFrom('turn')
      .selectAll()
      .where('session_id', '=', row.session_id)
      .where('kind', '=', 'main')
      .where('seq', '<', row.seq)
      .orderBy('seq', 'desc')
      .limit(HISTORY_TURNS),
  ) as TurnRow[];
  return rows.reverse().map((earlier) => ({ turn: toTurn(store, earlier), next: nextStateOf(store, earlier.id) }));
}

export function recordVerdict(context: Context, turnId: string, verdict: Verdict): void {
  const { store, claims, now } = context;
  const { queries } = store;
  const moved = store.run(
    queries.updateTable('turn').set({ state: 'judged' }).where('id', '=', turnId).where('state', '=', 'observed'),
  );
  if (moved === 0) {
    claims.observed.delete(turnId);
    explainTurn(context, turnId, 'judged');
  }
  store.run(queries.insertInto('verdict').values({ turn_id: turnId, body: JSON.stringify(verdict), judged_at: now }));
  claims.observed.delete(turnId);
}
