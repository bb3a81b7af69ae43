/**
 * Requests that arrive while a commit waits for the disk are gathered and share the next transaction and its fsync; none
 * is answered before that transaction is on disk. An operation that fails is undone alone (savepoint); a commit that
 * fails fails every request in it.
 */
import { OpenClawError } from '../record/errors.js';
import { Claims } from './claims.js';
import type { Context } from './operations/context.js';
import { FORGETS, OPERATIONS, READS } from './operations/index.js';
import type { Failure, Reply, Request } from './protocol.js';
import type { Store } from './store.js';

/** requests in one transaction at most, so that nobody waits long behind a crowd */
const MAX_BATCH = 256;

type Operation = (context: Context, ...args: unknown[]) => unknown;

export function toFailure(error: unknown): Failure {
  if (error instanceof OpenClawError) {
    const { code, message, argument } = error;
    return argument === undefined ? { code, message } : { code, message, argument };
  }
  return { code: 'E_LEDGER', message: error instanceof Error ? error.message : String(error) };
}

export class Batcher {
  readonly #queue: Request[] = [];
  readonly #claims = new Claims();
  #scheduled = false;

  constructor(
    private readonly store: Store,
    private readonly reply: (reply: Reply) => void,
    private readonly onClosed: () => void,
  ) {}

  push(request: Request): void {
    this.#queue.push(request);
    if (!this.#scheduled) this.#schedule();
  }

  /** After the messages that have already arrived: they all take part. */
  #schedule(): void {
    this.#scheduled = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const batch = this.#queue.splice(0, MAX_BATCH);
    const close = batch.findIndex((request) => request.op === 'close');
    const work = close < 0 ? batch : batch.slice(0, close);
    if (work.length > 0) this.#answer(work);
    const closing = batch[close];
    if (closing !== undefined) this.#close(closing);
    else if (this.#queue.length > 0) this.#schedule();
  }

  #answer(batch: Request[]): void {
    const undo: Array<() => void> = [];
    const writes = batch.some((request) => request.op !== 'close' && !READS.has(request.op));
    try {
      if (writes) this.store.exec('BEGIN IMMEDIATE');
      const replies = batch.map((request) => this.#perform(request, undo));
      if (writes) this.store.exec('COMMIT');
      this.#forget(batch);
      for (const reply of replies) this.reply(reply);
    } catch (error) {
      this.#abandon(batch, undo, error);
    }
  }

  #perform(request: Request, undo: Array<() => void>): Reply {
    const op = request.op as Exclude<Request['op'], 'close'>;
    const context: Context = { store: this.store, claims: this.#claims, now: request.now, undo: [] };
    const run = (): unknown => (OPERATIONS[op] as Operation)(context, ...request.args);
    try {
      const value = READS.has(op) ? run() : this.#guarded(run);
      undo.push(...context.undo);
      return { id: request.id, value };
    } catch (error) {
      for (const revert of context.undo) revert();
      return { id: request.id, failure: toFailure(error) };
    }
  }

  #guarded<T>(run: () => T): T {
    this.store.exec('SAVEPOINT operation');
    try {
      const value = run();
      this.store.exec('RELEASE operation');
      return value;
    } catch (error) {
      this.store.exec('ROLLBACK TO operation; RELEASE operation');
      throw error;
    }
  }

  /** The transaction is not on disk: nobody is told it is. */
  #abandon(batch: Request[], undo: Array<() => void>, error: unknown): void {
    try {
      this.store.exec('ROLLBACK');
    } catch {
      // SQLite has rolled back by itself (disk full, I/O error).
    }
    for (const revert of undo) revert();
    const failure: Failure = { ...toFailure(error), code: 'E_LEDGER' };
    for (const { id } of batch) this.reply({ id, failure });
  }

  #forget(batch: Request[]): void {
    if (batch.some((request) => request.op !== 'close' && FORGETS.has(request.op))) {
      this.store.pragma('wal_checkpoint(TRUNCATE)');
    }
  }

  #close({ id }: Request): void {
    this.store.close();
    this.reply({ id, value: undefined });
    this.onClosed();
  }
}
