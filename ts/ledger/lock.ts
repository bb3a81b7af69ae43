/**
 * One owner per data folder. The lock is an exclusive transaction on a tiny database beside the ledger: the operating
 * system holds it and lets go when the process dies, however it dies, so no stale lock can be left. The ledger itself stays
 * readable for other tools. `ledger.owner` says who holds it; it is read for the error message only.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { OpenClawError } from '../record/errors.js';
import { openDatabase } from './driver.js';

const LOCK_FILE = 'ledger.lock';
const OWNER_FILE = 'ledger.owner';

/** Takes the folder or throws E_LEDGER; returns what gives it back. */
export function lockFolder(folder: string): () => void {
  const lock = openDatabase(join(folder, LOCK_FILE));
  try {
    lock.exec('PRAGMA busy_timeout = 200; BEGIN EXCLUSIVE');
  } catch (cause) {
    lock.close();
    throw new OpenClawError(
      'E_LEDGER',
      `the data folder ${folder} belongs to another process (${owner(folder)}); stop it, or use another data folder`,
      'folder',
      { cause },
    );
  }
  writeFileSync(join(folder, OWNER_FILE), `process ${process.pid}\n`);
  return () => lock.close();
}

function owner(folder: string): string {
  try {
    return readFileSync(join(folder, OWNER_FILE), 'utf8').trim();
  } catch {
    return 'unknown process';
  }
}
