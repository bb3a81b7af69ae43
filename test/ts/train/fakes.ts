/** Turns and stand-ins for the stations around training. */
import type { Refusal, Turn, Update, Verdict } from '../../../ts/record/index.js';
import type {
  AdapterStore,
  JudgedTurn,
  Learner,
  LossReport,
  OverlapKernel,
  SequenceLoss,
  TrainerState,
  TrainLedger,
  TrainPolicy,
} from '../../../ts/train/index.js';

export function turn(id: string, over: Partial<Turn> = {}): Turn {
  const responseIds = over.responseIds ?? Int32Array.from([5, 6, 7, 2]);
  return {
    id,
    sessionId: `session of ${id}`,
    userId: 'user',
    index: 0,
    kind: 'main',
    requestId: `request ${id}`,
    version: 'fake@0-00000000',
    promptIds: Int32Array.from([1, 3, 4]),
    responseIds,
    logprobs: new Float32Array(responseIds.length).fill(-0.5),
    sampling: { temperature: 0.6, topP: 1, topK: 0, maxTokens: 32, seed: 1, stop: [] },
    messages: [{ role: 'user', content: 'question' }],
    tools: [],
    text: 'reply',
    toolCalls: [],
    finish: 'stop',
    servedAt: 0,
    ...over,
  };
}

export function verdict(over: Partial<Verdict> = {}): Verdict {
  return { reward: 1, status: 'scored', votes: [], hints: [], vetoes: [], ...over };
}

export function judged(id: string, v: Partial<Verdict> = {}, t: Partial<Turn> = {}): JudgedTurn {
  return { turn: turn(id, t), next: { turnId: id, items: [], arrivedAt: 0 }, verdict: verdict(v) };
}

/** A ledger in memory that keeps the rules: one transaction per update, a claim is held until it is let go. */
export class MemoryLedger implements TrainLedger {
  judged: JudgedTurn[] = [];
  claimed = new Set<string>();
  refused = new Map<string, Refusal>();
  trained = new Map<string, string>();
  committed: Update[] = [];
  meta = new Map<string, string>();
  async claimJudged(limit: number) {
    const free = this.judged.filter(
      (j) => !this.claimed.has(j.turn.id) && !this.refused.has(j.turn.id) && !this.trained.has(j.turn.id),
    );
    const taken = free.slice(0, limit);
    for (const j of taken) this.claimed.add(j.turn.id);
    return taken;
  }
  async releaseClaims(ids: string[]) {
    for (const id of ids) this.claimed.delete(id);
  }
  async refuse(id: string, reason: Refusal) {
    if (this.trained.has(id)) throw new Error(`refused after training: ${id}`);
    this.refused.set(id, reason);
  }
  async commitUpdate(update: Update, o: { trained: string[] }) {
    for (const id of o.trained) {
      if (this.trained.has(id)) throw new Error(`trained twice: ${id}`);
      this.trained.set(id, update.version);
    }
    this.committed.push(update);
  }
  async updates() {
    return this.committed;
  }
  async liveUpdate() {
    return this.committed.at(-1) ?? null;
  }
  private numbers = 0;
  async nextUpdateNumber() {
    return ++this.numbers;
  }
  async counts() {
    return { updates: this.committed.length };
  }
  async getMeta(key: string) {
    return this.meta.get(key) ?? null;
  }
  async setMeta(key: string, value: string) {
    this.meta.set(key, value);
  }
}

/** One parameter that every step moves by 1. */
export class FakeLearner implements Learner {
  weight = 0;
  steps = 0;
  published: string[] = [];
  lossesSeen: Array<Array<SequenceLoss | null>> = [];
  disposedBatches = 0;
  disposed = false;
  fail: Error | null = null;
  gradNorm = 1;
  constructor(private readonly policy: FakePolicy) {}
  async prepare() {
    return { dispose: () => void this.disposedBatches++ };
  }
  async forwardBackward(_b: unknown, losses: Array<SequenceLoss | null>): Promise<LossReport> {
    if (this.fail) throw this.fail;
    this.lossesSeen.push(losses);
    return {
      loss: 1,
      rl: 0,
      opd: 0,
      k3: 0,
      anchor: 0,
      tokens: 4,
      ratioClippedLow: 0,
      ratioClippedHigh: 0,
      deltaClipped: 0,
      topEntries: 4,
      exponentClamped: 0,
      meanRatio: 1,
      entropy: 1,
    };
  }
  async optimStep({ stopNorm }: { stopNorm?: number }) {
    const skipped = !!stopNorm && this.gradNorm > stopNorm;
    if (!skipped) {
      this.weight += 1;
      this.steps++;
    }
    return { gradNorm: this.gradNorm, skipped };
  }
  async zeroGrad() {}
  async publish(version: string) {
    this.published.push(version);
    this.policy.version = version;
  }
  async exportState(): Promise<TrainerState> {
    return { step: this.steps, rank: 1, alpha: 1, tensors: { 'layers.0.q_proj.A': Float32Array.of(this.weight) } };
  }
  async importState(state: { step: number; tensors: Record<string, Float32Array> }) {
    this.weight = state.tensors['layers.0.q_proj.A']![0]!;
    this.steps = state.step;
  }
  dispose() {
    this.disposed = true;
  }
}

export class FakePolicy implements TrainPolicy {
  readonly name = 'fake';
  readonly layers = 2;
  version = 'fake@0-00000000';
  learner = new FakeLearner(this);
  scored: Array<{ from: number; gather: boolean }> = [];
  live() {
    return this.version;
  }
  renderChat(messages: Array<{ content: string | null }>) {
    return Int32Array.from([1, ...Array.from(messages.at(-1)?.content ?? '', (c) => 10 + (c.codePointAt(0)! % 50))]);
  }
  async score(ids: Int32Array, o: { from: number; topK: number; gather?: Int32Array }) {
    const R = ids.length - o.from;
    this.scored.push({ from: o.from, gather: !!o.gather });
    return {
      logprobs: new Float32Array(R).fill(o.gather ? -0.25 : -0.5),
      topIds: Int32Array.from({ length: R * o.topK }, (_, i) => i % o.topK),
      topLogprobs: new Float32Array(R * o.topK).fill(-1),
      gathered: o.gather ? new Float32Array(o.gather.length).fill(-0.5) : null,
    };
  }
  trainer() {
    return this.learner;
  }
}

export const overlap: OverlapKernel = {
  hintOverlap: (_s, _t, { M, T }) => ({
    sequenceChoice: M - 1,
    tokenChoice: new Int32Array(T).fill(0),
    sums: Array.from({ length: M }, (_, m) => m),
  }),
};

export class MemoryStore implements AdapterStore {
  folders = new Map<string, TrainerState>();
  async write(folder: string, state: TrainerState) {
    this.folders.set(folder, structuredClone(state));
  }
  async read(folder: string) {
    return this.folders.get(folder)!;
  }
}
