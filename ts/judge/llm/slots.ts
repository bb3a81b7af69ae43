/** At most `size` tasks at once; the others wait in order. Who waits is bounded by the loop: its concurrency times m. */
export class Slots {
  #free: number;
  readonly #waiting: Array<() => void> = [];

  constructor(size: number) {
    this.#free = size;
  }

  async run<T>(task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    await this.#enter(signal);
    try {
      return await task();
    } finally {
      this.#leave();
    }
  }

  #enter(signal: AbortSignal): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        signal.removeEventListener('abort', abandon);
        resolve();
      };
      const abandon = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(signal.reason);
      };
      this.#waiting.push(enter);
      signal.addEventListener('abort', abandon, { once: true });
    });
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free++;
    else next();
  }
}
