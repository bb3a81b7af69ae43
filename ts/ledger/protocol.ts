/** What travels between the ledger's two threads. */
import type { Code } from '../record/errors.js';
import type { OperationName } from './operations/index.js';

export interface Request {
  id: number;
  /** 'close' empties the queue, closes the file and ends the thread */ op: OperationName | 'close';
  args: unknown[];
  /** the caller's clock, ms since the epoch */ now: number;
}

export interface Failure {
  code: Code;
  message: string;
  argument?: string;
}

export type Reply = { id: number; value: unknown } | { id: number; failure: Failure };

/** First message of the worker: it holds the file, or why not. */
export type Opened = { opened: true } | { opened: false; failure: Failure };

export interface WorkerSettings {
  folder: string;
}
