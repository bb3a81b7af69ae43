/** Versions, and the one transaction that ties them to the turns they were trained on. */
import { OpenClawError } from '../../record/errors.js';
import type { Refusal, Update } from '../../record/index.js';
import { numbersToJson } from '../codec.js';
import { type Context, explainTurn, fail, refuseWaiting } from './context.js';
import { toUpdate } from './rows.js';

const NUMBER_KEY = 'ledger.update-number';

export interface UpdateOutcome {
  trained: string[];
  refused: Array<[string, Refusal]>;
}

export function commitUpdate(context: Context, update: Update, outcome: UpdateOutcome): void {
  if (update.state === 'discarded') {
    if (outcome.trained.length > 0) fail('a discarded update has trained no turn', 'trained');
  } else {
    retireParent(context, update);
  }
  insertVersion(context, update);
  for (const turnId of outcome.trained) train(context, turnId, update.version);
  for (const [turnId, reason] of outcome.refused) refuseInUpdate(context, turnId, reason);
  freeClaims(context, outcome);
}

function retireParent({ store }: Context, update: Update): void {
  const live = store.first(store.queries.selectFrom('version').select('version').where('state', '=', 'live'));
  if (live === null) return;
  if (live.version !== update.parent) {
    fail(
      `${update.version} was made from ${update.parent ?? 'the base'}, but ${live.version} is live`,
      'update.parent',
    );
  }
  store.run(store.queries.updateTable('version').set({ state: 'retired' }).where('version', '=', live.version));
}

function insertVersion({ store, now }: Context, update: Update): void {
  const state = update.state === 'discarded' ? 'discarded' : 'live';
  const known = store.first(
    store.queries.selectFrom('version').select('version').where('version', '=', update.version),
  );
  if (known !== null) fail(`version ${update.version} exists already; names are never reused`, 'update.version');
  store.run(
    store.queries.insertInto('version').values({
      id: update.id,
      version: update.version,
      parent: update.parent,
      method: update.method,
      turn_ids: JSON.stringify(update.turnIds),
      metrics: numbersToJson(update.metrics),
      probes: numbersToJson(update.probes),
      state,
      folder: update.folder,
      created_at: update.createdAt,
    }),
  );
  store.log(now, 'version', null, `${update.version} ${state}`);
}

function train(context: Context, turnId: string, version: string): void {
  const { store, claims, now } = context;
  if (!claims.judged.has(turnId)) fail(`turn ${turnId} is claimed by nobody and so cannot be trained`, 'trained');
  const moved = store.run(
    store.queries
      .updateTable('turn')
      .set({ state: 'trained', trained_version: version })
      .where('id', '=', turnId)
      .where('state', '=', 'judged'),
  );
  if (moved === 0) explainTurn(context, turnId, 'trained');
  store.log(now, 'trained', turnId, version);
}

/** A turn that vanished or was refused meanwhile (opt-out, deletion) needs no refusal of ours; a trained one is an error. */
function refuseInUpdate(context: Context, turnId: string, reason: Refusal): void {
  const { store } = context;
  const row = store.first(store.queries.selectFrom('turn').select('state').where('id', '=', turnId));
  if (row === null || row.state === 'refused') return;
  if (!refuseWaiting(context, turnId, reason)) explainTurn(context, turnId, 'refused');
}

function freeClaims({ claims }: Context, outcome: UpdateOutcome): void {
  for (const turnId of outcome.trained) claims.free(turnId);
  for (const [turnId] of outcome.refused) claims.free(turnId);
}

export function updates({ store }: Context, limit: number): Update[] {
  const query = store.queries.selectFrom('version').selectAll().orderBy('seq', 'desc').limit(limit);
  return store.all(query).map(toUpdate);
}

function versionWhere({ store }: Context, column: 'state' | 'version', value: string): Update | null {
  const query = store.queries
    .selectFrom('version')
    .selectAll()
    .where(column, '=', value as never);
  const row = store.first(query);
  return row === null ? null : toUpdate(row);
}

export const liveUpdate = (context: Context): Update | null => versionWhere(context, 'state', 'live');
export const findVersion = (context: Context, version: string) => versionWhere(context, 'version', version);

export function nextUpdateNumber(context: Context): number {
  const number = Number(getMeta(context, NUMBER_KEY) ?? 0) + 1;
  setMeta(context, NUMBER_KEY, String(number));
  return number;
}

export function rollback(context: Context, version: string | null): void {
  const { store, now } = context;
  const { queries } = store;
  if (version !== null) mayGoLive(context, version);
  store.run(queries.updateTable('version').set({ state: 'rolled-back' }).where('state', '=', 'live'));
  if (version !== null) {
    store.run(queries.updateTable('version').set({ state: 'live' }).where('version', '=', version));
  }
  store.log(now, 'version', null, `${version ?? 'base'} live again`);
}

function mayGoLive(context: Context, version: string): void {
  const target = findVersion(context, version);
  if (target === null) throw new OpenClawError('E_NOT_FOUND', `there is no version ${version}`, 'version');
  if (target.state !== 'retired' && target.state !== 'rolled-back') {
    fail(`version ${version} cannot become live again: it is ${target.state}`, 'version');
  }
}

export function setMeta({ store }: Context, key: string, value: string): void {
  store.run(
    store.queries
      .insertInto('meta')
      .values({ key, value })
      .onConflict((oc) => oc.column('key').doUpdateSet({ value })),
  );
}

export function getMeta({ store }: Context, key: string): string | null {
  return store.first(store.queries.selectFrom('meta').select('value').where('key', '=', key))?.value ?? null;
}
