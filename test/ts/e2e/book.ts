/** What lies in a data folder, read from the ledger's file itself while no process owns it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '../../../ts/ledger/driver.js';
import type { TurnState } from '../../../ts/record/index.js';

export interface BookTurn {
  id: string;
  session_id: string;
  kind: 'main' | 'side';
  state: TurnState;
  refusal: string | null;
  version: string | null;
  trained_version: string | null;
  text: string;
  finish: string;
  prompt_ids: Int32Array;
  response_ids: Int32Array;
  logprobs: Float32Array | null;
}

export interface BookVersion {
  version: string;
  parent: string | null;
  state: string;
  folder: string | null;
  turnIds: string[];
  metrics: Record<string, number>;
}

export interface Book {
  /** oldest first */ turns: BookTurn[];
  /** oldest first */ versions: BookVersion[];
  live: string | null;
  /** turn → how often it was written down as trained */ timesTrained: Map<string, number>;
  /** what SQLite finds wrong with the file */ damage: string[];
}

const EMPTY: Book = { turns: [], versions: [], live: null, timesTrained: new Map(), damage: [] };

export function readBook(folder: string): Book {
  const file = join(folder, 'ledger.db');
  if (!existsSync(file)) return EMPTY;
  const db = openDatabase(file);
  try {
    const all = <T>(sql: string) => db.prepare(sql).all() as T[];
    if (all("SELECT 1 FROM sqlite_master WHERE name = 'turn'").length === 0) return EMPTY;
    const turns = all<Record<string, unknown>>('SELECT * FROM turn ORDER BY seq').map(toTurn);
    const versions = all<Omit<BookVersion, 'turnIds' | 'metrics'> & { turn_ids: string; metrics: string }>(
      'SELECT * FROM version ORDER BY seq',
    );
    const trained = all<{ turn_id: string; n: number }>(
      "SELECT turn_id, COUNT(*) AS n FROM event WHERE kind = 'trained' GROUP BY turn_id",
    );
    return {
      turns,
      versions: versions.map(({ turn_ids, metrics, ...row }) => ({
        ...row,
        turnIds: JSON.parse(turn_ids) as string[],
        metrics: JSON.parse(metrics) as Record<string, number>,
      })),
      live: versions.find((row) => row.state === 'live')?.version ?? null,
      timesTrained: new Map(trained.map((row) => [row.turn_id, Number(row.n)])),
      damage: [
        ...all<{ integrity_check: string }>('PRAGMA integrity_check')
          .map((row) => row.integrity_check)
          .filter((line) => line !== 'ok'),
        ...all('PRAGMA foreign_key_check').map((row) => JSON.stringify(row)),
      ],
    };
  } finally {
    db.close();
  }
}

function toTurn(row: Record<string, unknown>): BookTurn {
  const bytes = (value: unknown) => Uint8Array.from(value as Uint8Array).buffer;
  return {
    ...(row as unknown as BookTurn),
    prompt_ids: new Int32Array(bytes(row.prompt_ids)),
    response_ids: new Int32Array(bytes(row.response_ids)),
    logprobs: row.logprobs === null ? null : new Float32Array(bytes(row.logprobs)),
  };
}

/** Every version's parent is the one that was live before it; the newest is live, the others are retired. */
export function problemsOfVersions(versions: readonly BookVersion[], base: string): string[] {
  return versions.flatMap(({ version, parent, state }, i) => {
    const expectedParent = versions[i - 1]?.version ?? base;
    const expectedState = i === versions.length - 1 ? 'live' : 'retired';
    return [
      ...(parent === expectedParent ? [] : [`${version} comes from ${parent}, expected ${expectedParent}`]),
      ...(state === expectedState ? [] : [`${version} is ${state}, expected ${expectedState}`]),
    ];
  });
}

/** A turn is trained in exactly the one version that names it, and every turn a version names is trained in it. */
export function problemsOfTraining({ turns, versions, timesTrained }: Book): string[] {
  const named = new Map<string, string[]>();
  for (const { version, turnIds } of versions)
    for (const id of turnIds) named.set(id, [...(named.get(id) ?? []), version]);
  const known = new Set(turns.map((turn) => turn.id));
  return [
    ...turns.flatMap(({ id, state, trained_version }) => {
      const by = named.get(id) ?? [];
      const expected = state === 'trained' ? [trained_version] : [];
      const right = by.length === expected.length && by[0] === expected[0];
      return right ? [] : [`turn ${id} is ${state} (${trained_version}) but named by ${by.join(', ') || 'no version'}`];
    }),
    ...[...named.keys()].filter((id) => !known.has(id)).map((id) => `turn ${id} is named by a version and not there`),
    ...[...timesTrained].filter(([, n]) => n > 1).map(([id, n]) => `turn ${id} was trained ${n} times`),
  ];
}
