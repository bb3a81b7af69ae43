/** Turn rows to turns. Messages and tools are stored once per user under their hash. */
import { sql } from 'kysely';
import type { Message, NextState, Tool, Turn, Update, Verdict } from '../../record/index.js';
import { numbersFromJson, textHash, toFloat32, toInt32 } from '../codec.js';
import type { TurnTable, VersionTable } from '../schema.js';
import type { Store } from '../store.js';
import type { ChainTurn, StoredTurn } from '../types.js';

export type TurnRow = Omit<TurnTable, 'seq'> & { seq: number };

/** Stores a text of the user's once and returns its hash. */
export function keepText(store: Store, userId: string, value: unknown): string {
  const body = JSON.stringify(value);
  const hash = textHash(body);
  store.run(
    store.queries
      .insertInto('text')
      .values({ user_id: userId, hash, body })
      .onConflict((oc) => oc.doNothing()),
  );
  return hash;
}

function textsOf(store: Store, userId: string, hashes: string[]): Map<string, unknown> {
  const rows = store.all(
    store.queries
      .selectFrom('text')
      .select(['hash', 'body'])
      .where('user_id', '=', userId)
      .where('hash', 'in', sql<string>`(SELECT value FROM json_each(${JSON.stringify(hashes)}))`),
  );
  return new Map(rows.map((row) => [row.hash, JSON.parse(row.body) as unknown]));
}

export function toTurn(store: Store, row: TurnRow): Turn {
  const hashes = JSON.parse(row.messages) as string[];
  const texts = textsOf(store, row.user_id, row.tools === null ? hashes : [...hashes, row.tools]);
  return {
    id: row.id,
    sessionId: row.session_id,
    userId: row.user_id,
    index: row.idx,
    kind: row.kind,
    requestId: row.request_id,
    version: row.version,
    promptIds: toInt32(row.prompt_ids),
    responseIds: toInt32(row.response_ids),
    logprobs: toFloat32(row.logprobs),
    sampling: JSON.parse(row.sampling) as Turn['sampling'],
    messages: hashes.map((hash) => texts.get(hash) as Message),
    tools: row.tools === null ? [] : (texts.get(row.tools) as Tool[]),
    text: row.text,
    toolCalls: JSON.parse(row.tool_calls) as Turn['toolCalls'],
    finish: row.finish,
    servedAt: row.served_at,
  };
}

export function toStoredTurn(store: Store, row: TurnRow): StoredTurn {
  return { ...toTurn(store, row), state: row.state, refusal: row.refusal, trainedVersion: row.trained_version };
}

export type ChainRow = Pick<
  TurnRow,
  | 'id'
  | 'session_id'
  | 'idx'
  | 'served_at'
  | 'state'
  | 'response_ids'
  | 'finish'
  | 'sampling'
  | 'text'
  | 'chain_prompt'
  | 'chain_strict'
  | 'chain_loose'
  | 'chain_system'
>;

export const CHAIN_COLUMNS = [
  'id',
  'session_id',
  'idx',
  'served_at',
  'state',
  'response_ids',
  'finish',
  'sampling',
  'text',
  'chain_prompt',
  'chain_strict',
  'chain_loose',
  'chain_system',
] as const;

export function toChainTurn(row: ChainRow): ChainTurn {
  return {
    turnId: row.id,
    sessionId: row.session_id,
    index: row.idx,
    servedAt: row.served_at,
    open: row.state === 'served',
    chain: { prompt: row.chain_prompt, strict: row.chain_strict, loose: row.chain_loose, system: row.chain_system },
    responseIds: toInt32(row.response_ids),
    stopTexts: (JSON.parse(row.sampling) as Turn['sampling']).stop.length > 0,
    finish: row.finish,
    text: row.text,
  };
}

export function nextStateOf(store: Store, turnId: string): NextState | null {
  const row = store.first(store.queries.selectFrom('next_state').selectAll().where('turn_id', '=', turnId));
  return row === null
    ? null
    : { turnId, items: JSON.parse(row.items) as NextState['items'], arrivedAt: row.arrived_at };
}

export function verdictOf(store: Store, turnId: string): Verdict | null {
  const row = store.first(store.queries.selectFrom('verdict').select('body').where('turn_id', '=', turnId));
  return row === null ? null : (JSON.parse(row.body) as Verdict);
}

export function toUpdate(row: Omit<VersionTable, 'seq'>): Update {
  return {
    id: row.id,
    version: row.version,
    parent: row.parent,
    method: row.method,
    turnIds: JSON.parse(row.turn_ids) as string[],
    metrics: numbersFromJson(row.metrics),
    probes: numbersFromJson(row.probes),
    state: row.state,
    folder: row.folder,
    createdAt: row.created_at,
  };
}
