/**
 * Byte-pair encoding of one word: start from its bytes, then join the neighbouring pair with the lowest merge rank (the leftmost of
 * equals) until none is left. Works on ids: merges live in an open-addressing table of typed arrays, candidates in a binary heap, so a
 * word of n bytes costs O(n log n) even when it is a megabyte long.
 *
 * Why not the library's BPE: it keys merges by JSON texts and copies nodes, which costs several times as much, and it drops bytes it
 * does not know in silence.
 */

/** (left, right) → rank and joined id. Slots hold left + 1, so 0 means empty. */
class MergeTable {
  private readonly mask: number;
  private readonly lefts: Int32Array;
  private readonly rights: Int32Array;
  private readonly ranks: Int32Array;
  private readonly joined: Int32Array;

  constructor(capacity: number) {
    // at most half full: probes stay short
    const slots = 2 ** Math.ceil(Math.log2(Math.max(16, capacity * 2)));
    this.mask = slots - 1;
    this.lefts = new Int32Array(slots);
    this.rights = new Int32Array(slots);
    this.ranks = new Int32Array(slots);
    this.joined = new Int32Array(slots);
  }

  /** A pair that is there already keeps its first, lower rank. */
  add(left: number, right: number, rank: number, joined: number): void {
    const slot = this.probe(left, right);
    if (this.lefts[slot] !== 0) return;
    this.lefts[slot] = left + 1;
    this.rights[slot] = right;
    this.ranks[slot] = rank;
    this.joined[slot] = joined;
  }

  /** Slot of the pair, or -1. */
  find(left: number, right: number): number {
    const slot = this.probe(left, right);
    return this.lefts[slot] === 0 ? -1 : slot;
  }

  rank(slot: number): number {
    return this.ranks[slot]!;
  }

  result(slot: number): number {
    return this.joined[slot]!;
  }

  private probe(left: number, right: number): number {
    let slot = (Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)) >>> 0;
    slot = (slot ^ (slot >>> 15)) & this.mask;
    while (this.lefts[slot] !== 0 && (this.lefts[slot] !== left + 1 || this.rights[slot] !== right))
      slot = (slot + 1) & this.mask;
    return slot;
  }
}

export interface Merge {
  left: number;
  right: number;
  joined: number;
}

export class Bpe {
  private readonly table: MergeTable;

  /** @param merges in order of rank */
  constructor(merges: readonly Merge[]) {
    this.table = new MergeTable(merges.length);
    merges.forEach(({ left, right, joined }, rank) => {
      this.table.add(left, right, rank, joined);
    });
  }

  /** @param symbols ids of the word's bytes; overwritten. Returns the ids after all merges. */
  merge(symbols: Int32Array): Int32Array {
    const n = symbols.length;
    if (n < 2) return symbols;
    // symbols form a doubly linked list by position; a symbol that was joined to its left neighbour is dead (id -1)
    const next = Int32Array.from({ length: n }, (_, i) => i + 1);
    const previous = Int32Array.from({ length: n }, (_, i) => i - 1);
    const heap = new PairHeap();
    const propose = (left: number) => {
      const right = left < 0 ? n : next[left]!;
      if (right >= n) return;
      const slot = this.table.find(symbols[left]!, symbols[right]!);
      if (slot >= 0) heap.push(this.table.rank(slot), left, symbols[left]!, symbols[right]!);
    };
    for (let i = 0; i + 1 < n; i++) propose(i);
    while (heap.pop()) {
      const left = heap.position;
      const right = next[left]!;
      // stale: one of the two was joined to something else since it was proposed
      if (right >= n || symbols[left] !== heap.left || symbols[right] !== heap.right) continue;
      symbols[left] = this.table.result(this.table.find(heap.left, heap.right));
      symbols[right] = -1;
      const after = next[right]!;
      next[left] = after;
      if (after < n) previous[after] = left;
      propose(previous[left]!);
      propose(left);
    }
    return symbols.filter((id) => id >= 0);
  }
}

/** Min-heap of proposed joins ordered by (rank, position). pop() puts the smallest into the public fields. */
class PairHeap {
  position = 0;
  left = 0;
  right = 0;
  private readonly ranks: number[] = [];
  private readonly positions: number[] = [];
  private readonly lefts: number[] = [];
  private readonly rights: number[] = [];

  push(rank: number, position: number, left: number, right: number): void {
    let at = this.ranks.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.before(rank, position, parent)) break;
      this.move(parent, at);
      at = parent;
    }
    this.put(at, rank, position, left, right);
  }

  pop(): boolean {
    if (this.ranks.length === 0) return false;
    this.position = this.positions[0]!;
    this.left = this.lefts[0]!;
    this.right = this.rights[0]!;
    const rank = this.ranks.pop()!;
    const position = this.positions.pop()!;
    const left = this.lefts.pop()!;
    const right = this.rights.pop()!;
    if (this.ranks.length > 0) this.sink(rank, position, left, right);
    return true;
  }

  private sink(rank: number, position: number, left: number, right: number): void {
    const n = this.ranks.length;
    let at = 0;
    for (let child = 1; child < n; child = 2 * at + 1) {
      if (child + 1 < n && this.before(this.ranks[child + 1]!, this.positions[child + 1]!, child)) child++;
      if (this.before(rank, position, child)) break;
      this.move(child, at);
      at = child;
    }
    this.put(at, rank, position, left, right);
  }

  private before(rank: number, position: number, other: number): boolean {
    const otherRank = this.ranks[other]!;
    return rank < otherRank || (rank === otherRank && position < this.positions[other]!);
  }

  private move(from: number, to: number): void {
    this.put(to, this.ranks[from]!, this.positions[from]!, this.lefts[from]!, this.rights[from]!);
  }

  private put(at: number, rank: number, position: number, left: number, right: number): void {
    this.ranks[at] = rank;
    this.positions[at] = position;
    this.lefts[at] = left;
    this.rights[at] = right;
  }
}
