/**
 * The durable record of turns, next states, verdicts and versions: SQLite in the data folder, on a thread of its own.
 * What it promises: a write that resolved is on disk; a turn moves along served → observed → judged → trained or
 * refused(reason) and along no other way; a turn is trained at most once, in the transaction that makes the version live.
 */
import { Client } from './client.js';
import { toLedger } from './ledger.js';
import type { Ledger } from './types.js';

export type * from './types.js';

export interface LedgerOptions {
  /** the data folder; made when missing; one process at a time */ folder: string;
  /** ms since the epoch, default Date.now */ clock?: () => number;
  /** longest wait for an answer, default 30 s */ deadlineMs?: number;
  /** requests that may wait at once (then E_BUSY), default 4096 */ maxWaiting?: number;
}

/** Opens or makes the ledger. E_LEDGER: another process owns the folder, no driver, a newer file. */
export async function openLedger(options: LedgerOptions): Promise<Ledger> {
  return toLedger(await Client.open({ clock: Date.now, ...options }));
}
