/** Numbers about the ledger and its health. */
import type { TurnState } from '../../record/index.js';
import type { Counts } from '../types.js';
import type { Context } from './context.js';

const NONE: Record<TurnState, number> = { served: 0, observed: 0, judged: 0, trained: 0, refused: 0 };

export function counts({ store }: Context): Counts {
  const rows = store.all(store.queries.selectFrom('tally').selectAll());
  const tally = new Map(rows.map((row) => [row.name, row.n]));
  const named = (prefix: string): Record<string, number> =>
    Object.fromEntries(
      rows.filter((row) => row.name.startsWith(prefix)).map((row) => [row.name.slice(prefix.length), row.n]),
    );
  return {
    states: { ...NONE, ...named('state:') },
    refusals: named('refusal:'),
    sessions: tally.get('sessions') ?? 0,
    updates: tally.get('updates') ?? 0,
  };
}

/** SQLite's own check, broken references, and tallies that disagree with the rows they count. */
export function checkIntegrity(context: Context): string[] {
  const { store } = context;
  const file = (store.pragma('integrity_check') as Array<{ integrity_check: string }>)
    .map((row) => row.integrity_check)
    .filter((line) => line !== 'ok');
  const references = store.pragma('foreign_key_check').map((row) => `broken reference: ${JSON.stringify(row)}`);
  return [...file, ...references, ...wrongTallies(context)];
}

function wrongTallies(context: Context): string[] {
  const { store } = context;
  const query = store.queries.selectFrom('turn').select(['state', store.queries.fn.countAll<number>().as('n')]);
  const found = new Map(store.all(query.groupBy('state')).map((row) => [row.state, row.n]));
  return Object.entries(counts(context).states).flatMap(([state, n]) => {
    const rows = found.get(state as TurnState) ?? 0;
    return rows === n ? [] : [`tally says ${n} turns ${state}, there are ${rows}`];
  });
}
