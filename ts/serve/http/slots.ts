/** Places for requests that generate: a bounded number runs, a bounded number waits in order, one more is turned away. */
import { overloaded } from './errors.js';

interface Waiter {
  start(): void;
}

export class Slots {
  private running = 0;
  private readonly waiters = new Set<Waiter>();

  constructor(
    private readonly maxRunning: number,
    private readonly maxWaiting: number,
  ) {}

  get inFlight(): number {
    return this.running;
  }

  get waiting(): number {
    return this.waiters.size;
  }

  /** Resolves with the way to give the place back (which may be called twice). Rejects with the signal's reason when it aborts first. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.running < this.maxRunning) this.running++;
    else if (this.waiters.size >= this.maxWaiting)
      throw overloaded(`${this.running} requests run and ${this.waiters.size} wait`);
    else await this.wait(signal);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.release();
    };
  }

  private wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.waiters.delete(waiter);
        reject(signal.reason as Error);
      };
      const waiter: Waiter = {
        start: () => {
          signal.removeEventListener('abort', leave);
          resolve();
        },
      };
      signal.addEventListener('abort', leave, { once: true });
      this.waiters.add(waiter);
    });
  }

  /** The place goes to whoever waits longest, without becoming free in between. */
  private release(): void {
    const next = this.waiters.values().next();
    if (next.done) {
      this.running--;
      return;
    }
    this.waiters.delete(next.value);
    next.value.start();
  }
}
