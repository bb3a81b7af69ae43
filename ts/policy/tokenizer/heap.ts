/** Binary heap: pop gives the entry that stands before all others. */
export class Heap<T> {
  private readonly entries: T[] = [];

  constructor(private readonly before: (a: T, b: T) => boolean) {}

  push(entry: T): void {
    const { entries } = this;
    let at = entries.push(entry) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.before(entry, entries[parent]!)) break;
      entries[at] = entries[parent]!;
      at = parent;
    }
    entries[at] = entry;
  }

  pop(): T | undefined {
    const first = this.entries[0];
    const last = this.entries.pop();
    if (last !== undefined && this.entries.length > 0) this.sink(last);
    return first;
  }

  private sink(entry: T): void {
    const { entries } = this;
    let at = 0;
    for (let child = 1; child < entries.length; child = 2 * at + 1) {
      if (child + 1 < entries.length && this.before(entries[child + 1]!, entries[child]!)) child++;
      if (!this.before(entries[child]!, entry)) break;
      entries[at] = entries[child]!;
      at = child;
    }
    entries[at] = entry;
  }
}
