/**
 * The judging loop: takes observed turns, has them judged a few at a time, writes the verdicts down. It never waits for serving
 * or training and they never wait for it. A judge that is out of reach is asked again a few times; then the turn is refused
 * ('abstained'), not scored.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { OpenClawError, type Verdict } from '../record/index.js';
import type { Judge, JudgeEvents, JudgeItem, JudgeLedger } from './ports.js';

export interface JudgingOptions {
  ledger: JudgeLedger;
  judge: Judge;
  events: JudgeEvents;
  /** turns judged at once */ concurrency: number;
  /** one turn, all tries together, default 5 min */ deadlineMs?: number;
  /** tries where the judge was out of reach, default 3 */ attempts?: number;
  /** wait before the second try, doubled for each further one, default 1 s */ backoffMs?: number;
  /** how often to look without being poked, default 1 s */ pollMs?: number;
}

export interface Judging {
  /** Stops at once; turns in hand are given back and judged after the next start. */
  close(): Promise<void>;
  /** Resolves when no observed turn is left. E_DEADLINE after `timeoutMs`, default 5 min. */
  idle(o?: { timeoutMs?: number }): Promise<void>;
  /** There may be something to judge. */
  poke(): void;
}

const MINUTE = 60_000;

export function startJudging(o: JudgingOptions): Judging {
  const loop = new Loop({ deadlineMs: 5 * MINUTE, attempts: 3, backoffMs: 1000, pollMs: 1000, ...o });
  return {
    close: () => loop.close(),
    idle: (wait) => loop.idle(wait?.timeoutMs ?? 5 * MINUTE),
    poke: () => loop.poke(),
  };
}

class Loop {
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  /** resolves the present wait, if there is one */ #wake: (() => void) | null = null;
  #poked = true;
  #idlers: Array<() => void> = [];
  readonly #done: Promise<void>;

  constructor(private readonly o: Required<JudgingOptions>) {
    this.#done = this.#run();
  }

  poke(): void {
    this.#poked = true;
    this.#wake?.();
  }

  idle(timeoutMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (run: () => void) => (): void => {
        clearTimeout(timer);
        this.#idlers = this.#idlers.filter((idler) => idler !== done);
        run();
      };
      const done = settle(resolve);
      const late = settle(() => reject(new OpenClawError('E_DEADLINE', `judging was not idle within ${timeoutMs} ms`)));
      const timer = setTimeout(late, timeoutMs);
      this.#idlers.push(done);
      this.poke();
    });
  }

  async close(): Promise<void> {
    this.#stop.abort(new OpenClawError('E_ABORTED', 'judging was stopped'));
    this.#wake?.();
    await this.#done;
    await Promise.all(this.#running);
    for (const idler of [...this.#idlers]) idler();
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      this.#poked = false;
      const claimed = await this.#claim();
      for (const item of claimed ?? []) this.#start(item);
      if (claimed !== null && claimed.length > 0 && this.#running.size < this.o.concurrency) continue;
      if (claimed?.length === 0 && this.#running.size === 0 && !this.#poked) this.#nothingLeft();
      if (!this.#poked && !this.#stop.signal.aborted) await this.#pause();
    }
  }

  /** null: the ledger did not answer. */
  async #claim(): Promise<JudgeItem[] | null> {
    const free = this.o.concurrency - this.#running.size;
    if (free <= 0) return [];
    try {
      return await this.o.ledger.claimObserved(free);
    } catch (error) {
      if (!this.#stop.signal.aborted) this.o.events.emit({ type: 'judge.failed', reason: reasonOf(error) });
      this.#poked = false;
      return null;
    }
  }

  #start(item: JudgeItem): void {
    const work = this.#handle(item).finally(() => {
      this.#running.delete(work);
      this.poke();
    });
    this.#running.add(work);
  }

  #nothingLeft(): void {
    for (const idler of [...this.#idlers]) idler();
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake?.(), this.o.pollMs);
      this.#wake = (): void => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
    });
  }

  /** Never rejects: what goes wrong with one turn is said and leaves the others alone. */
  async #handle(item: JudgeItem): Promise<void> {
    const { id } = item.turn;
    try {
      await this.#settle(item, await this.#judge(item));
    } catch (error) {
      if (!this.#stop.signal.aborted) this.o.events.emit({ type: 'judge.failed', turnId: id, reason: reasonOf(error) });
      // Not at once: a verdict may have cost money, and what stood in its way may still be there.
      await sleep(this.o.backoffMs, undefined, { signal: this.#stop.signal }).catch(() => undefined);
      // The ledger may be closed already; a claim ends with it.
      await this.o.ledger.releaseClaims([id]).catch(() => undefined);
    }
  }

  async #judge(item: JudgeItem): Promise<Verdict> {
    const deadline = AbortSignal.timeout(this.o.deadlineMs);
    const signal = AbortSignal.any([this.#stop.signal, deadline]);
    try {
      return await this.#ask(item, signal);
    } catch (error) {
      this.#stop.signal.throwIfAborted();
      this.o.events.emit({ type: 'judge.failed', turnId: item.turn.id, reason: reasonOf(error) });
      return { reward: null, status: 'failed', votes: [], hints: [], vetoes: [] };
    }
  }

  async #ask(item: JudgeItem, signal: AbortSignal): Promise<Verdict> {
    for (let attempt = 1; ; attempt++) {
      const verdict = await withSignal(this.o.judge.judge(item, signal), signal);
      if (attempt >= this.o.attempts || !outOfReach(verdict)) return verdict;
      this.o.events.emit({ type: 'judge.failed', turnId: item.turn.id, reason: 'out of reach' });
      await sleep(this.o.backoffMs * 2 ** (attempt - 1), undefined, { signal });
    }
  }

  async #settle({ turn }: JudgeItem, verdict: Verdict): Promise<void> {
    const { ledger, events } = this.o;
    if (verdict.status === 'abstained' || verdict.status === 'failed') {
      await ledger.refuse(turn.id, 'abstained');
      events.emit({ type: 'turn.refused', turnId: turn.id, reason: 'abstained' });
      return;
    }
    await ledger.recordVerdict(turn.id, verdict);
    const { reward, status, hints } = verdict;
    events.emit({
      type: 'turn.judged',
      turnId: turn.id,
      sessionId: turn.sessionId,
      reward,
      status,
      hints: hints.length,
    });
  }
}

/** No vote came through, and not because it could not be read: asking again may help. */
function outOfReach({ status, votes }: Verdict): boolean {
  return (
    status === 'abstained' &&
    votes.length > 0 &&
    votes.every((vote) => vote.failure === 'transport' || vote.failure === 'timeout')
  );
}

/** A judge that does not heed its signal must not hold the loop. */
function withSignal<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
