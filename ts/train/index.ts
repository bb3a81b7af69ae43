/**
 * The training loop: judged turns in, versions out. Waits for nobody and nobody waits for it.
 *
 * Order of an update, each step safe to be cut off at: claim (in memory) → train → write the version's folder and sync it
 * → one ledger transaction (version live, turns trained) → publish to serving. A crash before the transaction leaves the turns
 * judged and a folder nobody names; a crash after it finds the version on start and serves it.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { OpenClawError, type Refusal, type Update } from '../record/index.js';
import { type Admitted, admit } from './admission.js';
import type { Baseline } from './advantage.js';
import type { TrainConfig } from './config.js';
import type {
  AdapterStore,
  EmitTrainEvent,
  JudgedTurn,
  Learner,
  OverlapKernel,
  TrainerState,
  TrainLedger,
  TrainPolicy,
} from './ports.js';
import { type AnchorSequence, trainStep } from './step.js';
import { pruneVersions, versionFolder, versionName, versionNumber } from './versions.js';

export * from './anchors.js';
export * from './config.js';
export type * from './ports.js';
export type { AnchorSequence } from './step.js';

export interface TrainStatus {
  state: 'off' | 'waiting' | 'training' | 'failed';
  /** judged turns admitted and waiting for a batch */ queued: number;
  /** turns that make a batch */ batchTurns: number;
  updates: number;
  live: string;
  /** the last failure, null when there was none */ failure: string | null;
}

export interface Training {
  poke(): void;
  /** Resolves when no full (or due) batch is left and no update runs; `flush`: smaller batches count as due. */
  idle(o?: { timeoutMs?: number; flush?: boolean }): Promise<boolean>;
  status(): TrainStatus;
  close(): Promise<void>;
}

export interface TrainingOptions {
  ledger: TrainLedger;
  policy: TrainPolicy;
  kernels: OverlapKernel;
  store: AdapterStore;
  config: TrainConfig;
  dataFolder: string;
  /** conversations the anchor replays; may be empty */ anchors?: AnchorSequence[];
  emit: EmitTrainEvent;
  clock?: () => number;
}

/** How many judged turns are held in memory at most, in batches. */
const QUEUE_BATCHES = 4;
const POLL_MS = 250;

/** Restores the live version (adapter, moments, baseline) from the ledger, then trains as turns are judged. */
export async function startTraining(o: TrainingOptions): Promise<Training> {
  const loop = new TrainingLoop(o);
  await loop.restore();
  loop.start();
  return loop;
}

class TrainingLoop implements Training {
  private readonly learner: Learner;
  private readonly clock: () => number;
  private queue: Array<Admitted & { since: number }> = [];
  /** the learner as it starts, before any version */ private initial: TrainerState | null = null;
  private failuresInARow = 0;
  private retryAt = 0;
  private baseline: Baseline = { mean: null };
  private running: Promise<void> | null = null;
  private timer: NodeJS.Timeout | null = null;
  private stopping = false;
  private flushing = false;
  private training = false;
  private failure: string | null = null;
  private updates = 0;
  private live: string;
  private readonly waiters = new Set<() => void>();

  constructor(private readonly o: TrainingOptions) {
    const { config, policy } = o;
    this.clock = o.clock ?? Date.now;
    this.live = policy.live();
    this.learner = policy.trainer({
      rank: config.lora.rank,
      alpha: config.lora.alpha,
      targets: config.lora.targets,
      firstLayer: config.lora.topLayers === null ? 0 : Math.max(0, policy.layers - config.lora.topLayers),
      seed: config.seed,
    });
  }

  async restore(): Promise<void> {
    const live = await this.o.ledger.liveUpdate();
    this.updates = (await this.o.ledger.counts()).updates;
    this.initial = await this.learner.exportState(true);
    const mean = await this.o.ledger.getMeta('train.baseline');
    if (mean !== null) this.baseline = { mean: Number(mean) };
    if (!live?.folder) return;
    const state = await this.o.store.read(join(this.o.dataFolder, live.folder));
    await this.learner.importState(state);
    await this.learner.publish(live.version);
    this.live = live.version;
  }

  start(): void {
    if (this.o.config.method === 'none') return;
    this.timer = setInterval(() => this.poke(), POLL_MS);
    this.timer.unref();
    this.poke();
  }

  poke(): void {
    if (this.stopping || this.running || this.o.config.method === 'none' || this.clock() < this.retryAt) return;
    this.running = this.drain()
      .catch((error: unknown) => this.fail(error))
      .finally(() => {
        this.running = null;
        for (const wake of this.waiters) wake();
      });
  }

  async idle({ timeoutMs = 600_000, flush = false }: { timeoutMs?: number; flush?: boolean } = {}): Promise<boolean> {
    if (this.o.config.method === 'none') return true;
    const deadline = this.clock() + timeoutMs;
    this.flushing ||= flush;
    // One full round after the call: what was judged before it has then been claimed.
    for (;;) {
      if (this.running) await this.settled(deadline);
      this.poke();
      await this.settled(deadline);
      if (this.stopping || this.failure || !this.due()) return true;
      if (this.clock() >= deadline) return false;
    }
  }

  status(): TrainStatus {
    const state =
      this.o.config.method === 'none' ? 'off' : this.failure ? 'failed' : this.training ? 'training' : 'waiting';
    return {
      state,
      queued: this.queue.length,
      batchTurns: this.o.config.batchTurns,
      updates: this.updates,
      live: this.live,
      failure: this.failure,
    };
  }

  async close(): Promise<void> {
    this.stopping = true;
    if (this.timer) clearInterval(this.timer);
    await this.running;
    await this.o.ledger.releaseClaims(this.queue.map((q) => q.turn.id));
    this.queue = [];
    this.learner.dispose();
  }

  /** Claims what is judged, then trains batch after batch until none is due. */
  private async drain(): Promise<void> {
    for (;;) {
      await this.claim();
      if (this.stopping || !this.due()) break;
      await this.update(this.queue.splice(0, this.o.config.batchTurns));
    }
    this.flushing = false;
  }

  private due(): boolean {
    const { batchTurns, flushMs } = this.o.config;
    const oldest = this.queue[0];
    if (!oldest) return false;
    return this.queue.length >= batchTurns || this.flushing || this.clock() - oldest.since >= flushMs;
  }

  private async claim(): Promise<void> {
    const room = this.o.config.batchTurns * QUEUE_BATCHES - this.queue.length;
    if (room <= 0) return;
    const turns: JudgedTurn[] = await this.o.ledger.claimJudged(room);
    const { admitted, refused } = admit(turns, this.o.config, (v) => this.lag(v));
    for (const { turnId, reason } of refused) await this.refuse(turnId, reason);
    const since = this.clock();
    for (const a of admitted) this.queue.push({ ...a, since });
  }

  private async refuse(turnId: string, reason: Refusal): Promise<void> {
    await this.o.ledger.refuse(turnId, reason);
    this.o.emit({ type: 'turn.refused', turnId, reason });
  }

  private lag(version: string | null): number | null {
    const [then, now] = [versionNumber(version), versionNumber(this.live)];
    return then === null || now === null ? null : now - then;
  }

  private async update(batch: Admitted[]): Promise<void> {
    const { o } = this;
    const started = this.clock();
    this.training = true;
    o.emit({ type: 'update.started', turns: batch.length });
    try {
      const result = await trainStep(batch, {
        policy: o.policy,
        learner: this.learner,
        kernels: o.kernels,
        config: o.config,
        baseline: this.baseline,
        anchors: this.pickAnchors(),
        emit: o.emit,
        stopping: () => this.stopping,
      });
      if (result.skipped === 'stopping') return await this.giveBack(batch);
      this.baseline = result.baseline;
      if (this.baseline.mean !== null) await o.ledger.setMeta('train.baseline', String(this.baseline.mean));
      if (result.skipped) return await this.skip(batch, result.skipped);
      await this.publish(batch, result.metrics, started);
    } catch (error) {
      await this.giveBack(batch);
      await this.rollBack();
      throw error;
    } finally {
      this.training = false;
    }
  }

  private async giveBack(batch: Admitted[]): Promise<void> {
    await this.o.ledger.releaseClaims(batch.map((b) => b.turn.id));
  }

  /** The learner's parameters back to the live version's: a step whose version was never committed did not happen. */
  private async rollBack(): Promise<void> {
    const live = await this.o.ledger.liveUpdate();
    const state = live?.folder ? await this.o.store.read(join(this.o.dataFolder, live.folder)) : this.initial;
    if (state) await this.learner.importState(state);
  }

  private async skip(batch: Admitted[], reason: string): Promise<void> {
    for (const { turn } of batch) await this.refuse(turn.id, reason === 'grad-norm' ? 'gate-failed' : 'no-signal');
    this.o.emit({ type: 'update.skipped', reason, turns: batch.length });
  }

  private async publish(batch: Admitted[], metrics: Record<string, number>, started: number): Promise<void> {
    const { o } = this;
    const parent = this.live;
    const state = await this.learner.exportState(true);
    const number = await o.ledger.nextUpdateNumber();
    const version = versionName(o.policy.name, number, state);
    const folder = versionFolder(version);
    await o.store.write(join(o.dataFolder, folder), state, {
      targets: o.config.lora.targets,
      baseModel: o.policy.name,
    });
    const turnIds = batch.map((b) => b.turn.id);
    const update: Update = {
      id: `update_${randomUUID()}`,
      version,
      parent,
      method: o.config.method as Update['method'],
      turnIds,
      metrics,
      probes: {},
      state: 'live',
      folder,
      createdAt: this.clock(),
    };
    await o.ledger.commitUpdate(update, { trained: turnIds, refused: [] });
    await this.learner.publish(version);
    this.live = version;
    this.updates++;
    this.failure = null;
    this.failuresInARow = 0;
    o.emit({ type: 'update.done', version, parent, turns: batch.length, metrics, ms: this.clock() - started });
    await pruneVersions(o.dataFolder, await o.ledger.updates(), version, o.config.keepVersions);
  }

  /** A different window of the anchor conversations in each update, by its number: the same run picks the same ones. */
  private pickAnchors(): AnchorSequence[] {
    const all = this.o.anchors ?? [];
    const want = Math.min(this.o.config.anchor.perUpdate, all.length);
    return Array.from({ length: want }, (_, i) => all[(this.updates * want + i) % all.length]!);
  }

  /** A failed update is never silent; its turns wait and are tried again, later and later. Serving goes on. */
  private fail(error: unknown): void {
    this.retryAt = this.clock() + Math.min(60_000, 1000 * 2 ** this.failuresInARow++);
    this.failure = error instanceof OpenClawError ? `${error.code}: ${error.message}` : String(error);
    this.o.emit({ type: 'update.failed', reason: this.failure, turns: 0 });
  }

  private async settled(deadline: number): Promise<void> {
    if (!this.running) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, Math.max(0, deadline - this.clock()));
      const { waiters } = this;
      function done() {
        clearTimeout(timer);
        waiters.delete(done);
        resolve();
      }
      waiters.add(done);
    });
  }
}
