/**
 * The database as the operations use it. Kysely builds and types the queries; it does not run them: its own execution is
 * asynchronous, and on this thread, which does nothing else, a synchronous run lets many requests share one transaction
 * without their statements interleaving.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  type CompiledQuery,
  DummyDriver,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import { OpenClawError } from '../record/errors.js';
import { openDatabase, type SqlDatabase, type SqlStatement, type SqlValue } from './driver.js';
import { lockFolder } from './lock.js';
import { migrate } from './migrations.js';
import type { EventKind, Schema } from './schema.js';

export const DATABASE_FILE = 'ledger.db';

/** Kysely writes a fixed set of statements (lists go in as JSON), so this bound is never met; it is here to be one. */
const MAX_STATEMENTS = 256;

interface Compilable<O> {
  compile(): CompiledQuery<O>;
}

/*
 * WAL with synchronous=FULL: one fsync per commit, and what was acknowledged survives loss of power.
 * secure_delete: a deleted user's words are overwritten, not only unlinked.
 */
const PRAGMAS = `
  PRAGMA busy_timeout = 5000;
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA foreign_keys = ON;
  PRAGMA secure_delete = ON;
`;

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new OpenClawError('E_LEDGER', `cannot make the data folder ${folder}: ${why}`, 'folder', { cause });
  }
}

export class Store {
  readonly queries = new Kysely<Schema>({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  });
  readonly #statements = new Map<string, SqlStatement>();
  readonly #db: SqlDatabase;
  readonly #unlock: () => void;

  constructor(folder: string) {
    makeFolder(folder);
    this.#unlock = lockFolder(folder);
    try {
      this.#db = openDatabase(join(folder, DATABASE_FILE));
      this.#db.exec(PRAGMAS);
      migrate(this.#db);
    } catch (error) {
      this.#unlock();
      throw error;
    }
  }

  /** All rows of a query. */
  all<O>(query: Compilable<O>): O[] {
    const compiled = query.compile();
    return this.#statement(compiled.sql).all(...(compiled.parameters as SqlValue[])) as O[];
  }

  first<O>(query: Compilable<O>): O | null {
    return this.all(query)[0] ?? null;
  }

  /** Runs a statement and says how many rows it changed. */
  run(query: Compilable<unknown>): number {
    const compiled = query.compile();
    return Number(this.#statement(compiled.sql).run(...(compiled.parameters as SqlValue[])).changes);
  }

  /** Plain SQL: transactions and pragmas only. */
  exec(sql: string): void {
    this.#db.exec(sql);
  }

  pragma(name: string): unknown[] {
    return this.#db.prepare(`PRAGMA ${name}`).all();
  }

  /** Adds to the append-only record of what happened. */
  log(at: number, kind: EventKind, turnId: string | null, reason: string | null): void {
    this.run(this.queries.insertInto('event').values({ at, kind, turn_id: turnId, reason }));
  }

  close(): void {
    this.#statements.clear();
    this.#db.close();
    this.#unlock();
  }

  #statement(sql: string): SqlStatement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      if (this.#statements.size >= MAX_STATEMENTS) this.#statements.clear();
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}
