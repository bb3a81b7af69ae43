import { describe, expect, it } from 'vitest';
import {
  startTraining,
  type TrainConfigInput,
  type TrainEvent,
  type Training,
  trainConfigSchema,
} from '../../../ts/train/index.js';
import { FakePolicy, judged, MemoryLedger, MemoryStore, overlap } from './fakes.js';

interface World {
  ledger: MemoryLedger;
  policy: FakePolicy;
  store: MemoryStore;
  events: TrainEvent[];
}

function world(): World {
  return { ledger: new MemoryLedger(), policy: new FakePolicy(), store: new MemoryStore(), events: [] };
}

function start(w: World, config: TrainConfigInput = {}): Promise<Training> {
  return startTraining({
    ...w,
    kernels: overlap,
    config: trainConfigSchema.parse({ batchTurns: 2, epochs: 3, flushMs: 1e9, ...config }),
    dataFolder: 'nowhere',
    emit: (e) => w.events.push(e),
  });
}

const types = (w: World) => w.events.filter((e) => !e.type.endsWith('progress')).map((e) => e.type);

describe('the training loop', () => {
  it('trains a full batch once: epochs steps, one version, the turns named in it', async () => {
    const w = world();
    w.ledger.judged = [judged('a', { reward: -1, hints: ['Use plain text.'] }), judged('b')];
    const training = await start(w);
    expect(await training.idle()).toBe(true);
    expect(w.policy.learner.steps).toBe(3);
    expect(w.ledger.committed.length).toBe(1);
    expect(w.ledger.committed[0]).toMatchObject({ turnIds: ['a', 'b'], parent: 'fake@0-00000000', state: 'live' });
    expect(w.policy.live()).toBe(w.ledger.committed[0]?.version);
    expect(w.policy.live()).toMatch(/^fake@1-[0-9a-f]{8}$/);
    expect(w.policy.learner.disposedBatches).toBe(1);
    await training.close();
    expect(w.policy.learner.disposed).toBe(true);
  });

  it('waits for a full batch, trains a small one when flushed', async () => {
    const w = world();
    w.ledger.judged = [judged('a')];
    const training = await start(w);
    await training.idle();
    expect(w.ledger.committed.length).toBe(0);
    expect(training.status()).toMatchObject({ state: 'waiting', queued: 1 });
    await training.idle({ flush: true });
    expect(w.ledger.committed.length).toBe(1);
    await training.close();
  });

  it('trains a small batch when its oldest turn has waited long enough', async () => {
    const w = world();
    w.ledger.judged = [judged('a')];
    const training = await start(w, { flushMs: 0 });
    await training.idle();
    expect(w.ledger.committed.length).toBe(1);
    await training.close();
  });

  it('makes no step of a batch with nothing to say, and says so', async () => {
    const w = world();
    w.ledger.meta.set('train.baseline', '1');
    w.ledger.judged = [judged('a', { reward: 1 }), judged('b', { reward: 1 })];
    const training = await start(w);
    await training.idle();
    expect(w.policy.learner.steps).toBe(0);
    expect(w.ledger.committed.length).toBe(0);
    expect([...w.ledger.refused.values()]).toEqual(['no-signal', 'no-signal']);
    expect(types(w)).toContain('update.skipped');
    await training.close();
  });

  it('publishes nothing when every step stopped at the gradient norm', async () => {
    const w = world();
    w.policy.learner.gradNorm = 1e9;
    w.ledger.judged = [judged('a'), judged('b')];
    const training = await start(w);
    await training.idle();
    expect(w.ledger.committed.length).toBe(0);
    expect([...w.ledger.refused.values()]).toEqual(['gate-failed', 'gate-failed']);
    await training.close();
  });

  it('keeps the turns and the old parameters when an update fails, and tries again', async () => {
    const w = world();
    w.policy.learner.fail = new Error('out of luck');
    w.ledger.judged = [judged('a'), judged('b')];
    let now = 0;
    const training = await startTraining({
      ...w,
      kernels: overlap,
      config: trainConfigSchema.parse({ batchTurns: 2, epochs: 1 }),
      dataFolder: 'nowhere',
      emit: (e) => w.events.push(e),
      clock: () => now,
    });
    await training.idle();
    expect(training.status()).toMatchObject({ state: 'failed', failure: 'Error: out of luck' });
    expect(w.policy.learner.weight).toBe(0);
    expect(w.ledger.refused.size).toBe(0);
    w.policy.learner.fail = null;
    now = 60_000;
    training.poke();
    await training.idle();
    expect([...w.ledger.trained.keys()]).toEqual(['a', 'b']);
    expect(training.status().state).toBe('waiting');
    await training.close();
  });

  it('goes on from the committed version after a restart', async () => {
    const w = world();
    w.ledger.judged = [judged('a'), judged('b')];
    const first = await start(w);
    await first.idle();
    await first.close();
    const again = { ...w, policy: new FakePolicy() };
    again.ledger.judged.push(
      judged('c', {}, { version: w.policy.live() }),
      judged('d', {}, { version: w.policy.live() }),
    );
    const second = await start(again);
    expect(again.policy.live()).toBe(w.policy.live());
    await second.idle();
    expect(again.policy.learner.weight).toBe(6);
    expect(w.ledger.committed.map((u) => u.version.split('-')[0])).toEqual(['fake@1', 'fake@2']);
    expect(w.ledger.committed[1]?.turnIds).toEqual(['c', 'd']);
    await second.close();
  });

  it('never trains with method none', async () => {
    const w = world();
    w.ledger.judged = [judged('a'), judged('b')];
    const training = await start(w, { method: 'none' });
    await training.idle({ flush: true });
    expect(w.policy.learner.steps).toBe(0);
    expect(training.status().state).toBe('off');
    await training.close();
  });

  it('asks the teacher on exactly the ids of the student, from where the reply begins', async () => {
    const w = world();
    w.ledger.judged = [judged('a', { reward: null, hints: ['Use plain text.', 'Use plain text, please.'] })];
    const training = await start(w, { batchTurns: 1, topK: 2 });
    await training.idle();
    expect(w.policy.scored.map((s) => s.gather)).toEqual([false, true, true]);
    expect(w.policy.scored[0]?.from).toBe(3);
    const loss = w.policy.learner.lossesSeen[0]?.[0];
    expect(loss).toMatchObject({ from: 3, k: 2 });
    expect(loss?.advantage).toBeUndefined();
    await training.close();
  });
});
