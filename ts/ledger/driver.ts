/**
 * The two SQLite drivers behind one small interface: `node:sqlite` where Node has it (22.13 and newer, nothing to
 * install), else `better-sqlite3`, an optional dependency. Both are synchronous; only the ledger's worker thread uses them.
 */
import { createRequire } from 'node:module';
import { OpenClawError } from '../record/errors.js';

export type SqlValue = string | number | bigint | Uint8Array | null;

export interface SqlStatement {
  all(...parameters: SqlValue[]): unknown[];
  run(...parameters: SqlValue[]): { changes: number | bigint };
}

export interface SqlDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqlStatement;
  close(): void;
}

type DatabaseConstructor = new (path: string) => SqlDatabase;
export type DriverName = 'node:sqlite' | 'better-sqlite3';

const require = createRequire(import.meta.url);
/** first Node that offers node:sqlite without a flag */
const NODE_SQLITE_SINCE: readonly [number, number] = [22, 13];

export function driverFor(nodeVersion: string): DriverName {
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number);
  const [sinceMajor, sinceMinor] = NODE_SQLITE_SINCE;
  return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor) ? 'node:sqlite' : 'better-sqlite3';
}

function constructorOf(driver: DriverName): DatabaseConstructor {
  if (driver === 'node:sqlite') {
    return (require('node:sqlite') as { DatabaseSync: DatabaseConstructor }).DatabaseSync;
  }
  return require('better-sqlite3') as DatabaseConstructor;
}

function loadDriver(): DatabaseConstructor {
  const driver = driverFor(process.versions.node);
  try {
    return constructorOf(driver);
  } catch (cause) {
    throw new OpenClawError(
      'E_LEDGER',
      `no SQLite driver: Node ${process.versions.node} ` +
        (driver === 'node:sqlite'
          ? 'should bring node:sqlite but does not'
          : 'brings none and better-sqlite3 does not load; use Node 22.13 or newer, or run npm install better-sqlite3'),
      undefined,
      { cause },
    );
  }
}

export function openDatabase(path: string): SqlDatabase {
  const Database = loadDriver();
  try {
    return new Database(path);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new OpenClawError('E_LEDGER', `cannot open the ledger at ${path}: ${why}`, 'folder', { cause });
  }
}
