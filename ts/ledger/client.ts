/**
 * The caller's end of the ledger's thread: numbers requests, matches replies, bounds how many wait and how long. The
 * thread keeps the process alive only while something is asked of it.
 */
import { Worker } from 'node:worker_threads';
import { OpenClawError } from '../record/errors.js';
import { driverFor } from './driver.js';
import type { Caller } from './ledger.js';
import type { Failure, Opened, Reply, Request, WorkerSettings } from './protocol.js';

const MAX_WAITING = 4096;
const DEADLINE_MS = 30_000;
const OPEN_DEADLINE_MS = 30_000;

interface Waiting {
  resolve(value: unknown): void;
  reject(error: OpenClawError): void;
  timer: NodeJS.Timeout;
  op: Request['op'];
}

export interface ClientSettings {
  folder: string;
  clock: () => number;
  deadlineMs?: number;
  maxWaiting?: number;
}

/** From source (under vitest) as from dist, the thread runs the compiled file. */
export function workerUrl(here: string): URL {
  return here.endsWith('.ts') ? new URL('../../dist/ledger/worker.js', here) : new URL('./worker.js', here);
}

/** Node calls its own SQLite experimental at every start; we know, and test against it. */
const quietly = (): { execArgv?: string[] } =>
  driverFor(process.versions.node) === 'node:sqlite' ? { execArgv: ['--disable-warning=ExperimentalWarning'] } : {};

const toError = (failure: Failure): OpenClawError => new OpenClawError(failure.code, failure.message, failure.argument);

export class Client implements Caller {
  readonly #waiting = new Map<number, Waiting>();
  /** claims whose answer came too late for the caller: given back, or nobody would ever work on them */
  readonly #lateClaims = new Set<number>();
  readonly #settings: Required<ClientSettings>;
  readonly #worker: Worker;
  #lastId = 0;
  #dead: OpenClawError | null = null;

  private constructor(worker: Worker, settings: ClientSettings) {
    this.#settings = { deadlineMs: DEADLINE_MS, maxWaiting: MAX_WAITING, ...settings };
    this.#worker = worker;
    worker.on('message', (reply: Reply) => this.#settle(reply));
    worker.on('error', (cause) => this.#die(`the ledger's thread failed: ${cause.message}`, cause));
    worker.on('exit', () => this.#die('the ledger is closed'));
    worker.unref();
  }

  static async open(settings: ClientSettings): Promise<Client> {
    const workerData: WorkerSettings = { folder: settings.folder };
    const worker = new Worker(workerUrl(import.meta.url), { workerData, name: 'ledger', ...quietly() });
    const opened = await firstMessage(worker, OPEN_DEADLINE_MS);
    if (!opened.opened) throw toError(opened.failure);
    return new Client(worker, settings);
  }

  /** Runs an operation on the ledger's thread. */
  readonly call: Caller['call'] = (op, ...args) => this.#send(op, args) as never;

  async close(): Promise<void> {
    if (this.#dead !== null) return;
    const exited = new Promise<void>((resolve) => this.#worker.once('exit', () => resolve()));
    const closed = this.#send('close', []);
    closed.then(
      () => this.#worker.ref(),
      () => undefined,
    );
    await closed;
    await exited;
  }

  #send(op: Request['op'], args: unknown[]): Promise<unknown> {
    if (this.#dead !== null) return Promise.reject(this.#dead);
    if (this.#waiting.size >= this.#settings.maxWaiting) {
      return Promise.reject(new OpenClawError('E_BUSY', `${this.#waiting.size} requests already wait for the ledger`));
    }
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#expire(id), this.#settings.deadlineMs);
      if (this.#waiting.size === 0) this.#worker.ref();
      this.#waiting.set(id, { resolve, reject, timer, op });
      this.#post({ id, op, args, now: this.#settings.clock() });
    });
  }

  #post(request: Request): void {
    try {
      this.#worker.postMessage(request);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      this.#take(request.id)?.reject(
        new OpenClawError('E_LEDGER', `${request.op}: cannot be sent: ${why}`, undefined, { cause }),
      );
    }
  }

  #settle(reply: Reply): void {
    const waiting = this.#take(reply.id);
    if (waiting === undefined) this.#giveBack(reply);
    else if ('failure' in reply) waiting.reject(toError(reply.failure));
    else waiting.resolve(reply.value);
  }

  #take(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return undefined;
    clearTimeout(waiting.timer);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#worker.unref();
    return waiting;
  }

  #expire(id: number): void {
    const waiting = this.#take(id);
    if (waiting === undefined) return;
    if (waiting.op === 'claimObserved' || waiting.op === 'claimJudged') this.#lateClaims.add(id);
    const message = `${waiting.op}: no answer from the ledger in ${this.#settings.deadlineMs} ms; it may still take place`;
    waiting.reject(new OpenClawError('E_DEADLINE', message));
  }

  #giveBack(reply: Reply): void {
    if (!this.#lateClaims.delete(reply.id) || 'failure' in reply) return;
    const turnIds = (reply.value as Array<{ turn: { id: string } }>).map(({ turn }) => turn.id);
    // Closed meanwhile: then no claim is left either.
    this.call('releaseClaims', turnIds).catch(() => undefined);
  }

  #die(message: string, cause?: Error): void {
    this.#dead ??= new OpenClawError('E_LEDGER', message, undefined, { cause });
    for (const id of [...this.#waiting.keys()]) this.#take(id)?.reject(this.#dead);
  }
}

/** Its listeners are taken off one by one: the worker keeps listeners of its own on itself. */
function firstMessage(worker: Worker, deadlineMs: number): Promise<Opened> {
  return new Promise((resolve, reject) => {
    const settle = (run: () => void): void => {
      clearTimeout(timer);
      worker.off('message', onMessage).off('error', onError);
      run();
    };
    const onMessage = (message: Opened): void => settle(() => resolve(message));
    const onError = (cause: Error): void => {
      const message = `the ledger's thread did not start: ${cause.message}`;
      settle(() => reject(new OpenClawError('E_LEDGER', message, undefined, { cause })));
    };
    const timer = setTimeout(() => {
      settle(() => reject(new OpenClawError('E_DEADLINE', `the ledger did not open in ${deadlineMs} ms`)));
      void worker.terminate();
    }, deadlineMs);
    worker.on('message', onMessage).on('error', onError);
  });
}
