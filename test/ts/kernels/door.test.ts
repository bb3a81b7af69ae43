/** What is refused before any work, and how: one case per way of being wrong, each through both doors. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { binary } from '../../../lib/index.js';
import * as kernels from '../../../ts/kernels/index.js';
import { OpenClawError } from '../../../ts/record/index.js';

const f = (...x: number[]) => Float32Array.of(...x);
const i = (...x: number[]): Int32Array => Int32Array.of(...x);
const u = (...x: number[]): Uint8Array => Uint8Array.of(...x);

const valid = {
  logitStats: { logits: f(1, 2, 3, 4), rows: 2, vocab: 2 },
  logitGrad: { logits: f(1, 2, 3, 4), rows: 2, vocab: 2, lse: f(2.3, 4.3), ids: i(0, 1), grads: f(1, 1) },
  crossEntropy: { logits: f(1, 2, 3, 4), rows: 2, vocab: 2, ids: i(0, 1) },
  ppoLoss: { current: f(-1, -1), old: f(-1, -1), advantage: f(1, 1) },
  opdLoss: { positions: 1, k: 2, current: f(-1, -1), old: f(-1, -1), teacher: f(-1, -1), ids: i(0, 1) },
  hybridLoss: { offsets: i(0, 2), current: f(-1, -1), old: f(-1, -1), advantage: f(1, 1) },
  hintOverlap: { positions: 1, hints: 1, k: 2, student: i(1, 2), teachers: i(1, 2) },
  groupAdvantages: { rewards: f(1, 2), group: i(0, 0) },
  stepRewards: { steps: 1, votesPerStep: 2, votes: f(1, 1) },
};
type Name = keyof typeof valid;
const top = { k: 1, topIds: i(0, 0), topCurrent: f(-1, -1), topOld: f(-1, -1), topTeacher: f(-1, -1) };

function detached() {
  const array = f(1, 2, 3, 4);
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return array;
}
function resizable(): Float32Array {
  const Resizable = ArrayBuffer as unknown as new (bytes: number, o: { maxByteLength: number }) => ArrayBuffer;
  return new Float32Array(new Resizable(16, { maxByteLength: 64 }));
}
function overlapping(): { logits: Float32Array; out: Float32Array } {
  const buffer = new ArrayBuffer(32);
  return { logits: new Float32Array(buffer, 0, 4), out: new Float32Array(buffer, 4, 4) };
}

/** kernel, what is changed in its valid options, the code, the argument at fault */
const refusals: Array<[Name, Record<string, unknown>, string, string]> = [
  ['logitStats', { logits: new Float64Array(4) }, 'E_DTYPE', 'logits'],
  ['logitStats', { logits: [1, 2, 3, 4] }, 'E_DTYPE', 'logits'],
  ['logitStats', { logits: undefined }, 'E_DTYPE', 'logits'],
  ['logitStats', { logits: f() }, 'E_SHAPE', 'logits'],
  ['logitStats', { logits: f(1, 2, 3) }, 'E_SHAPE', 'logits'],
  ['logitStats', { logits: detached() }, 'E_SHAPE', 'logits'],
  ['logitStats', { logits: resizable() }, 'E_ARGUMENT', 'logits'],
  ['logitStats', { rows: 0 }, 'E_ARGUMENT', 'rows'],
  ['logitStats', { rows: 1.5 }, 'E_ARGUMENT', 'rows'],
  ['logitStats', { rows: '2' }, 'E_ARGUMENT', 'rows'],
  ['logitStats', { vocab: -1 }, 'E_ARGUMENT', 'vocab'],
  ['logitStats', { stride: 1 }, 'E_ARGUMENT', 'stride'],
  ['logitStats', { k: 3 }, 'E_ARGUMENT', 'k'],
  ['logitStats', { k: -1 }, 'E_ARGUMENT', 'k'],
  ['logitStats', { temperature: 0 }, 'E_ARGUMENT', 'temperature'],
  ['logitStats', { temperature: NaN }, 'E_ARGUMENT', 'temperature'],
  ['logitStats', { mask: u(1) }, 'E_SHAPE', 'mask'],
  ['logitStats', { mask: f(1, 1) }, 'E_DTYPE', 'mask'],
  ['logitStats', { gather: i(0, 1, 0) }, 'E_SHAPE', 'gather'],
  ['logitStats', { gather: i(0, 2) }, 'E_TOKEN_ID', 'gather'],
  ['logitStats', { gather: f(0, 1) }, 'E_DTYPE', 'gather'],
  ['logitStats', { entropy: 1 }, 'E_ARGUMENT', 'entropy'],
  ['logitGrad', { lse: f(1) }, 'E_SHAPE', 'lse'],
  ['logitGrad', { lse: f(1, NaN) }, 'E_NOT_FINITE', 'lse'],
  ['logitGrad', { lse: undefined }, 'E_ARGUMENT', 'lse'],
  ['logitGrad', { max: f(1, 1), logSum: f(1, 1) }, 'E_ARGUMENT', 'lse'],
  ['logitGrad', { ids: i(0, 2) }, 'E_TOKEN_ID', 'ids'],
  ['logitGrad', { ids: i(0, 1, 1) }, 'E_SHAPE', 'ids'],
  ['logitGrad', { grads: f(1) }, 'E_SHAPE', 'grads'],
  ['logitGrad', { grads: f(1, Infinity) }, 'E_NOT_FINITE', 'grads'],
  ['logitGrad', { out: f(1, 2, 3) }, 'E_SHAPE', 'out'],
  ['logitGrad', overlapping(), 'E_ARGUMENT', 'out'],
  ['crossEntropy', { ids: i(0, 2) }, 'E_TOKEN_ID', 'ids'],
  ['crossEntropy', { ids: i(0) }, 'E_SHAPE', 'ids'],
  ['crossEntropy', { reduction: 'none' }, 'E_ARGUMENT', 'reduction'],
  ['ppoLoss', { current: f() }, 'E_SHAPE', 'current'],
  ['ppoLoss', { current: f(-1, NaN) }, 'E_NOT_FINITE', 'current'],
  ['ppoLoss', { old: f(-1) }, 'E_SHAPE', 'old'],
  ['ppoLoss', { old: f(-1, 1) }, 'E_ARGUMENT', 'old'], // 1 is no log-prob: a sentinel of others
  ['ppoLoss', { advantage: f(1, -Infinity) }, 'E_NOT_FINITE', 'advantage'],
  ['ppoLoss', { epsLow: 1.5 }, 'E_ARGUMENT', 'epsLow'],
  ['ppoLoss', { epsHigh: -0.1 }, 'E_ARGUMENT', 'epsHigh'],
  ['opdLoss', { k: 0 }, 'E_ARGUMENT', 'k'],
  ['opdLoss', { teacher: f(-1, -Infinity) }, 'E_NOT_FINITE', 'teacher'],
  ['opdLoss', { ids: i(1) }, 'E_SHAPE', 'ids'],
  ['opdLoss', { deltaClip: -1 }, 'E_ARGUMENT', 'deltaClip'],
  ['hybridLoss', { offsets: i(0, 3, 2) }, 'E_SHAPE', 'offsets'],
  ['hybridLoss', { offsets: i(1, 2) }, 'E_SHAPE', 'offsets'],
  ['hybridLoss', { offsets: i(0) }, 'E_SHAPE', 'offsets'],
  ['hybridLoss', { old: undefined }, 'E_DTYPE', 'old'],
  ['hybridLoss', { advantage: undefined, old: undefined }, 'E_ARGUMENT', 'advantage'],
  ['hybridLoss', { current: undefined }, 'E_DTYPE', 'current'],
  ['hybridLoss', { ...top, topOld: undefined }, 'E_DTYPE', 'topOld'],
  ['hybridLoss', { ...top, topOld: f(-1, NaN) }, 'E_NOT_FINITE', 'topOld'],
  ['hybridLoss', { hasReward: u(1, 1) }, 'E_SHAPE', 'hasReward'],
  ['hybridLoss', { aggregate: 'fixed' }, 'E_ARGUMENT', 'divisor'],
  ['hybridLoss', { aggregate: 'sum' }, 'E_ARGUMENT', 'aggregate'],
  ['hintOverlap', { hints: 0 }, 'E_ARGUMENT', 'hints'],
  ['hintOverlap', { student: i(1) }, 'E_SHAPE', 'student'],
  ['hintOverlap', { teachers: new Uint32Array(2) }, 'E_DTYPE', 'teachers'],
  ['groupAdvantages', { rewards: f(1, NaN) }, 'E_NOT_FINITE', 'rewards'],
  ['groupAdvantages', { group: i(0) }, 'E_SHAPE', 'group'],
  ['stepRewards', { votes: f(1, NaN) }, 'E_NOT_FINITE', 'votes'],
  ['stepRewards', { votesPerStep: 0 }, 'E_ARGUMENT', 'votesPerStep'],
  ['stepRewards', { outcome: f(NaN) }, 'E_NOT_FINITE', 'outcome'],
];

type Kernel = (options: object) => unknown;
const everything = new Map<string, unknown>(Object.entries(kernels));
const sync = (name: Name) => everything.get(name) as Kernel;
const async = (name: Name) => everything.get(`${name}Async`) as (options: object) => Promise<unknown>;

function caught(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('the door of the kernels', () => {
  it.each(Object.keys(valid) as Name[])('%s takes the options that the refusals below change', async (name) => {
    expect(caught(() => sync(name)(valid[name]))).toBeUndefined();
    await async(name)(valid[name]);
  });

  it.each(refusals)('%s refuses %o with %s, naming %s', async (name, change, code, argument) => {
    const options = { ...valid[name], ...change };
    const thrown = caught(() => sync(name)(options));
    expect(thrown).toBeInstanceOf(OpenClawError);
    expect(thrown).toMatchObject({ code, argument });
    expect((thrown as Error).message).toMatch(new RegExp(`^${name}\\.${argument}: expected .+`));
    await expect(async(name)(options)).rejects.toMatchObject({ name: 'OpenClawError', code, argument });
  });

  it('refuses a call without options', async () => {
    for (const name of Object.keys(valid) as Name[]) {
      expect(caught(() => (sync(name) as () => unknown)())).toMatchObject({ code: 'E_ARGUMENT' });
      await expect((async(name) as () => Promise<unknown>)()).rejects.toMatchObject({ code: 'E_ARGUMENT' });
    }
  });

  it('shows the caller in the stack of both kinds of error', async () => {
    const asked = { ...valid.logitStats, k: 9 };
    function atOnce() {
      return caught(() => kernels.logitStats(asked)) as Error;
    }
    async function later() {
      return kernels.logitStatsAsync(asked).catch((error: Error) => error) as Promise<Error>;
    }
    expect(atOnce().stack).toContain('atOnce');
    expect((await later()).stack).toContain('later');
  });

  it('reports a failure of the work itself with the place of the call', async () => {
    async function begin() {
      await kernels.crossEntropyAsync({ ...valid.crossEntropy, logits: f(1, 2, NaN, 4) });
    }
    const error = await begin().catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'E_NOT_FINITE', argument: 'logits' });
    expect((error as Error).message).toContain('row 1');
    expect((error as Error).stack).toContain('begin');
  });

  it('notices an array that was transferred under an async call', async () => {
    const logits = new Float32Array(1 << 20);
    const promise = kernels.logitStatsAsync({ logits, rows: 1, vocab: 1 << 20 });
    const moved = structuredClone(logits.buffer, { transfer: [logits.buffer] });
    await expect(promise).rejects.toMatchObject({ code: 'E_ARGUMENT', argument: 'logits' });
    expect(moved.byteLength).toBe(4 << 20);
  });

  it('exports exactly what the types say', () => {
    const names = Object.keys(valid).flatMap((name) => [name, `${name}Async`]);
    expect(Object.keys(binary.kernels).sort()).toEqual(names.sort());
    const types = readFileSync(new URL('../../../lib/kernels.d.ts', import.meta.url), 'utf8');
    for (const name of Object.keys(valid)) expect(types).toContain(`Both<'${name}',`);
  });
});
