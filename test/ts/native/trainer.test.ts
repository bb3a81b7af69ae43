/** The trainer through N-API: order, results, refusals, states. Its numbers are held against a real model in smollm2.test.ts. */
import { describe, expect, it } from 'vitest';
import type { NativeBatch, NativePolicy, NativeSequenceLoss, NativeTrainer } from '../../../lib/index.js';
import { farthest } from './oracle.js';
import { ignore, request, scoreRequest, tinyPolicy } from './tiny.js';

const ids = Int32Array.of(1, 2, 3, 4, 5, 6);
const R = 4;
const ce: NativeSequenceLoss = { from: 2, ce: 1 };
const adam = { lr: 0.01, beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0, maxGradNorm: 1e9 };

interface Bench {
  policy: NativePolicy;
  trainer: NativeTrainer;
  batch: NativeBatch;
}

async function withTrainer(body: (bench: Bench) => Promise<void>, options = {}): Promise<void> {
  const policy = await tinyPolicy();
  try {
    const trainer = policy.trainer({ rank: 4, alpha: 8, seed: 1, ...options });
    await body({ policy, trainer, batch: await trainer.prepare([ids, ids.slice(0, 3)]) });
  } finally {
    await policy.close();
  }
}

const coded = (code: string, message?: RegExp) =>
  expect.objectContaining({ code, ...(message ? { message: expect.stringMatching(message) } : {}) });

describe.each([
  ['LoRA', {}],
  ['all parameters', { full: true }],
])('training %s', (kind, options) => {
  it('lowers the loss, and serves it only once it is published', () =>
    withTrainer(async ({ policy, trainer, batch }) => {
      expect([batch.sequences, batch.tokens]).toEqual([2, 9]);
      const first = await trainer.forwardBackward(batch, [ce, null], { curLogprobs: true });
      expect(
        farthest(first.curLogprobs![0]!, (await policy.score({ ...scoreRequest, ids, from: 2 })).logprobs),
      ).toBeLessThan(1e-4);
      let last = first;
      for (let step = 0; step < 8; step++) {
        const { skipped, gradNorm } = await trainer.optimStep(adam);
        expect(skipped).toBe(false);
        expect(gradNorm).toBeGreaterThan(0);
        await trainer.zeroGrad();
        last = await trainer.forwardBackward(batch, [ce, null], { curLogprobs: true });
      }
      expect(last.loss).toBeLessThan(first.loss * 0.8);
      const before = await policy.score({ ...scoreRequest, ids, from: 2 });
      expect(farthest(before.logprobs, first.curLogprobs![0]!)).toBeLessThan(1e-4);
      await trainer.publish('v1');
      const after = await policy.score({ ...scoreRequest, ids, from: 2 });
      expect(after.version).toBe('v1');
      expect(farthest(after.logprobs, last.curLogprobs![0]!)).toBeLessThan(1e-4);
      const base = await policy.score({ ...scoreRequest, ids, from: 2, version: 'base' });
      expect(farthest(base.logprobs, first.curLogprobs![0]!)).toBeLessThan(1e-4);
      await trainer.optimStep(adam);
      const later = await policy.score({ ...scoreRequest, ids, from: 2 });
      expect([...later.logprobs]).toEqual([...after.logprobs]);
    }, options));

  it('goes on from an exported state exactly', () =>
    withTrainer(async ({ policy, trainer, batch }) => {
      await trainer.forwardBackward(batch, [ce, ce]);
      await trainer.optimStep(adam);
      await trainer.zeroGrad();
      const state = await trainer.exportState(true);
      expect(state).toMatchObject(kind === 'LoRA' ? { step: 1, rank: 4, alpha: 8 } : { step: 1, rank: 0, alpha: 0 });
      const second = policy.trainer({ rank: 4, alpha: 8, seed: 99, ...options });
      await second.importState(state);
      const finish = async (of: NativeTrainer, on: NativeBatch) => {
        await of.forwardBackward(on, [ce, ce]);
        await of.optimStep(adam);
        return (await of.exportState(true)).tensors;
      };
      const one = await finish(trainer, batch);
      const two = await finish(second, await second.prepare([ids, ids.slice(0, 3)]));
      expect(Object.keys(two)).toEqual(Object.keys(one));
      for (const [name, values] of Object.entries(one)) expect(farthest(two[name]!, values), name).toBe(0);
    }, options));
});

describe('the train thread', () => {
  it('does calls in the order in which they were made', () =>
    withTrainer(async ({ policy, trainer, batch }) => {
      const order: string[] = [];
      const note = (what: string) => () => order.push(what);
      const scored = { ...scoreRequest, lane: 'train' as const };
      const versions: string[] = [];
      await Promise.all([
        trainer.forwardBackward(batch, [ce, ce]).then(note('forward')),
        trainer.optimStep(adam).then(note('step')),
        policy.score(scored).then((s) => versions.push(s.version)),
        trainer.publish('v1').then(note('publish')),
        policy.score(scored).then((s) => versions.push(s.version)),
        trainer.exportState(false).then(note('export')),
      ]);
      expect(order).toEqual(['forward', 'step', 'publish', 'export']);
      expect(versions).toEqual(['v0', 'v1']);
    }));

  it('has a bounded queue', () =>
    withTrainer(async ({ trainer, batch }) => {
      const calls = Array.from({ length: 2000 }, () => trainer.forwardBackward(batch, [ce, ce]));
      const results = await Promise.allSettled(calls);
      const refused = results.filter((r) => r.status === 'rejected');
      expect(refused.length).toBeGreaterThan(0);
      for (const { reason } of refused) expect(reason).toEqual(coded('E_BUSY', /256/));
      await trainer.zeroGrad();
    }));

  it('trains while requests are served', () =>
    withTrainer(async ({ policy, trainer, batch }) => {
      const served = Array.from(
        { length: 8 },
        (_, seed) => policy.generate(request({ seed, maxTokens: 300 }), ignore).done,
      );
      await trainer.forwardBackward(batch, [ce, ce]);
      await trainer.optimStep(adam);
      await trainer.publish('v1');
      for (const result of await Promise.all(served)) expect(['v0', 'v1']).toContain(result.version);
      expect(policy.stats().live).toBe('v1');
    }));
});

describe('refusals', () => {
  const numbers = (n: number, value = -1) => new Float32Array(n).fill(value);
  const opd = {
    from: 2,
    k: 2,
    topIds: new Int32Array(R * 2),
    topOld: numbers(R * 2),
    topTeacher: numbers(R * 2),
    wOpd: 1,
  };
  it.each<[string, object, string, RegExp]>([
    ['from below', { from: 0, ce: 1 }, 'E_ARGUMENT', /losses\[0\]\.from: expected an integer from 1 to 5, got 0/],
    ['from above', { from: 6, ce: 1 }, 'E_ARGUMENT', /from/],
    ['mask length', { ...ce, mask: numbers(R + 1, 1) }, 'E_SHAPE', /mask: expected 4 numbers, got 5/],
    ['mask values', { ...ce, mask: numbers(R, 0.5) }, 'E_ARGUMENT', /mask\[0\]/],
    ['mask kind', { ...ce, mask: new Uint8Array(R) }, 'E_DTYPE', /mask: expected a Float32Array/],
    ['advantage without its weight', { from: 2, advantage: numbers(R), oldLogprob: numbers(R) }, 'E_ARGUMENT', /wRl/],
    ['advantage without old log-probs', { from: 2, advantage: numbers(R), wRl: 1 }, 'E_DTYPE', /oldLogprob/],
    [
      'advantage not finite',
      { from: 2, advantage: numbers(R, Number.NaN), oldLogprob: numbers(R), wRl: 1 },
      'E_NOT_FINITE',
      /advantage\[0\]/,
    ],
    ['top ids length', { ...opd, topIds: new Int32Array(3) }, 'E_SHAPE', /topIds: expected 8 ids/],
    ['top ids range', { ...opd, topIds: new Int32Array(R * 2).fill(97) }, 'E_TOKEN_ID', /topIds\[0\]/],
    [
      'top log-probs not finite',
      { ...opd, topOld: numbers(R * 2, Number.NEGATIVE_INFINITY) },
      'E_NOT_FINITE',
      /topOld\[0\]/,
    ],
    ['k', { ...opd, k: 0 }, 'E_ARGUMENT', /\.k:/],
    ['reference length', { ...ce, refLogprob: numbers(1), beta: 0.1 }, 'E_SHAPE', /refLogprob/],
    ['ce', { ...ce, ce: -1 }, 'E_ARGUMENT', /\.ce:/],
    ['epsilon', { ...ce, epsLow: 2 }, 'E_ARGUMENT', /epsLow/],
  ])('of a loss: %s', (_, loss, code, message) =>
    withTrainer(async ({ trainer, batch }) => {
      await expect(trainer.forwardBackward(batch, [loss as NativeSequenceLoss, null])).rejects.toEqual(
        coded(code, message),
      );
    }),
  );

  it('lets padding ids carry anything', () =>
    withTrainer(async ({ trainer, batch }) => {
      const topIds = Int32Array.from({ length: R * 2 }, (_, i) => (i % 2 ? -1 : 5));
      const topOld = Float32Array.from(topIds, (id) => (id < 0 ? Number.NEGATIVE_INFINITY : -2));
      const report = await trainer.forwardBackward(batch, [{ ...opd, topIds, topOld, topTeacher: topOld }, null]);
      expect(report.topEntries).toBe(R);
    }));

  it('of batches that are foreign, disposed or no batches', () =>
    withTrainer(async ({ policy, trainer, batch }) => {
      const other = await policy.trainer({}).prepare([ids]);
      await expect(trainer.forwardBackward(other, [ce])).rejects.toEqual(coded('E_ARGUMENT', /another trainer/));
      for (const not of [trainer, policy, {}, null, undefined, 7])
        await expect(trainer.forwardBackward(not as never, [ce])).rejects.toEqual(
          coded('E_ARGUMENT', /batch: expected a batch/),
        );
      await expect(trainer.forwardBackward(batch, [ce])).rejects.toEqual(coded('E_SHAPE', /losses: expected 2/));
      batch.dispose();
      batch.dispose();
      await expect(trainer.forwardBackward(batch, [ce, null])).rejects.toEqual(coded('E_DISPOSED'));
    }));

  it.each<[string, unknown, string]>([
    ['no sequences', [], 'E_ARGUMENT'],
    ['one token', [Int32Array.of(1)], 'E_ARGUMENT'],
    ['plain numbers', [[1, 2, 3]], 'E_DTYPE'],
    ['a foreign id', [Int32Array.of(1, 97)], 'E_TOKEN_ID'],
    ['beyond the context', [new Int32Array(513)], 'E_CONTEXT'],
    ['nothing', undefined, 'E_ARGUMENT'],
  ])('of sequences: %s', (_, sequences, code) =>
    withTrainer(async ({ trainer }) => {
      await expect(trainer.prepare(sequences as Int32Array[])).rejects.toEqual(coded(code));
    }),
  );

  it.each([
    { rank: 0 },
    { rank: 33 },
    { alpha: -1 },
    { targets: ['x_proj'] },
    { targets: [] },
    { firstLayer: 2 },
    { seed: -1 },
    { full: 'yes' },
  ])('of options: %o', async (options) => {
    const policy = await tinyPolicy();
    expect(() => policy.trainer(options as object)).toThrow(coded('E_ARGUMENT', new RegExp(Object.keys(options)[0]!)));
    await policy.close();
  });

  it('of states with other names or sizes, which change nothing', () =>
    withTrainer(async ({ trainer }) => {
      const { tensors } = await trainer.exportState(false);
      const name = Object.keys(tensors)[0]!;
      const { [name]: gone, ...missing } = tensors;
      for (const wrong of [missing, { ...tensors, more: gone! }, { ...tensors, [name]: gone!.subarray(1) }])
        await expect(trainer.importState({ step: 0, tensors: wrong })).rejects.toEqual(
          expect.objectContaining({ code: expect.stringMatching(/^E_(ARGUMENT|SHAPE)$/) }),
        );
      expect((await trainer.exportState(false)).tensors).toEqual(tensors);
    }));

  it('of version names used before, at once', () =>
    withTrainer(async ({ policy, trainer }) => {
      const twice = [trainer.publish('v1'), trainer.publish('v1')];
      const [first, second] = await Promise.allSettled(twice);
      expect(first!.status).toBe('fulfilled');
      expect(second).toMatchObject({ status: 'rejected', reason: coded('E_ARGUMENT', /never reused/) });
      await expect(policy.setAdapter(null, 'v1')).rejects.toEqual(coded('E_ARGUMENT'));
    }));
});

describe('dispose', () => {
  type Method = (trainer: NativeTrainer, batch: NativeBatch) => Promise<unknown>;
  const methods: Array<[string, Method]> = [
    ['prepare', (t) => t.prepare([ids])],
    ['forwardBackward', (t, b) => t.forwardBackward(b, [ce, null])],
    ['optimStep', (t) => t.optimStep(adam)],
    ['zeroGrad', (t) => t.zeroGrad()],
    ['publish', (t) => t.publish('v9')],
    ['exportState', (t) => t.exportState(true)],
    ['importState', async (t) => t.importState({ step: 0, tensors: {} })],
    ['exportGradients', (t) => t.exportGradients()],
  ];

  it.each(methods)('%s is E_DISPOSED after it and after the policy closed', async (_, method) => {
    await withTrainer(async ({ policy, trainer, batch }) => {
      const kept = policy.trainer({});
      trainer.dispose();
      trainer.dispose();
      await expect(method(trainer, batch)).rejects.toEqual(coded('E_DISPOSED', /trainer was disposed/));
      await policy.close();
      await expect(method(kept, batch)).rejects.toEqual(coded('E_DISPOSED', /policy is closed/));
    });
  });

  it('lets calls made before it finish', () =>
    withTrainer(async ({ trainer, batch }) => {
      const before = trainer.forwardBackward(batch, [ce, null]);
      batch.dispose();
      trainer.dispose();
      expect((await before).tokens).toBe(R);
    }));
});
