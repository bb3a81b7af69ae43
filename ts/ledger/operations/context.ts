/** What an operation works with; one context per request, so `now` is the caller's clock. */
import { OpenClawError } from '../../record/errors.js';
import type { Refusal } from '../../record/index.js';
import type { Claims } from '../claims.js';
import type { Store } from '../store.js';

export interface Context {
  store: Store;
  claims: Claims;
  /** ms since the epoch */ now: number;
  /** run when the transaction this operation was part of did not commit */ undo: Array<() => void>;
}

export const fail = (message: string, argument?: string): never => {
  throw new OpenClawError('E_LEDGER', message, argument);
};

/** What is the matter with a turn that could not be moved. */
export function explainTurn({ store }: Context, turnId: string, wanted: string): never {
  const row = store.first(store.queries.selectFrom('turn').select(['state', 'refusal']).where('id', '=', turnId));
  if (row === null) throw new OpenClawError('E_NOT_FOUND', `there is no turn ${turnId}`, 'turnId');
  const reason = row.refusal === null ? '' : ` (${row.refusal})`;
  return fail(`turn ${turnId} cannot become ${wanted}: it is ${row.state}${reason}`, 'turnId');
}

/** served, observed or judged → refused; counted. False: the turn is in none of these states. */
export function refuseWaiting(context: Context, turnId: string, reason: Refusal): boolean {
  const { store, claims, now } = context;
  const changed = store.run(
    store.queries
      .updateTable('turn')
      .set({ state: 'refused', refusal: reason })
      .where('id', '=', turnId)
      .where('state', 'in', ['served', 'observed', 'judged']),
  );
  if (changed === 0) return false;
  claims.free(turnId);
  store.log(now, 'refused', turnId, reason);
  return true;
}
