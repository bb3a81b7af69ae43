/**
 * Seeded randomness for the world: the same seed gives the same stories, talks and model on every machine.
 * (mulberry32 over an FNV-1a hash of the seed's text; plenty for choosing words, not for secrets.)
 */

/** FNV-1a, 32 bits: a stable number for a text. */
export function hashText(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

export class Random {
  #state: number;

  constructor(seed: string | number) {
    this.#state = hashText(`world:${seed}`);
  }

  /** Uniform in [0, 1). */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** A whole number in [low, high]. */
  int(low: number, high: number): number {
    return low + Math.floor(this.unit() * (high - low + 1));
  }

  chance(p: number): boolean {
    return this.unit() < p;
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError('pick from an empty list');
    return items[this.int(0, items.length - 1)]!;
  }

  /** One of the entries, each with its weight. */
  weighted<T>(entries: ReadonlyArray<readonly [T, number]>): T {
    let left = this.unit() * entries.reduce((sum, [, w]) => sum + w, 0);
    for (const [item, w] of entries) {
      left -= w;
      if (left < 0) return item;
    }
    return entries[entries.length - 1]![0];
  }
}
