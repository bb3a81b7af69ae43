/** The policy's door with a made-up native side: arguments, streaming, abort, errors. The real one is tested in test/ts/native. */
import { describe, expect, it, vi } from 'vitest';
import type {
  NativeGenerated,
  NativeGenerateRequest,
  NativePolicy as NativeHandle,
  NativeScoreRequest,
} from '../../../lib/index.js';
import { NativePolicy } from '../../../ts/policy/native.js';
import { Tokenizer } from '../../../ts/policy/tokenizer/tokenizer.js';
import { OpenClawError, type Sampling } from '../../../ts/record/index.js';
import { CHATML, tinyConfig, tinyTokenizer } from './helpers.js';

const tokenizer = new Tokenizer(tinyTokenizer(), 'tiny');
const sampling: Sampling = { temperature: 1, topP: 1, topK: 0, maxTokens: 8, seed: null, stop: [] };
const done = (ids: number[], finish: NativeGenerated['finish'] = 'stop'): NativeGenerated => ({
  ids: Int32Array.from(ids),
  logprobs: new Float32Array(ids.length),
  finish,
  version: 'tiny@0',
  cachedTokens: 0,
  msToFirst: 1,
  ms: 2,
});

/** A native side whose generations are driven by the test. */
function fake() {
  const requests: NativeGenerateRequest[] = [];
  const scores: NativeScoreRequest[] = [];
  let emit: (ids: number[]) => void = () => {};
  let settle: (result: NativeGenerated | Error) => void = () => {};
  const abort = vi.fn(() => settle(done([], 'abort')));
  const handle = {
    generate(request: NativeGenerateRequest, onTokens: (ids: Int32Array, logprobs: Float32Array) => void) {
      requests.push(request);
      emit = (ids) => onTokens(Int32Array.from(ids), new Float32Array(ids.length));
      const promise = new Promise<NativeGenerated>((resolve, reject) => {
        settle = (result) => (result instanceof Error ? reject(result) : resolve(result));
      });
      return { done: promise, abort };
    },
    score: async (request: NativeScoreRequest) => {
      scores.push(request);
      throw Object.assign(new Error('version gone'), { code: 'E_NOT_FOUND' });
    },
    trainer: () => {
      throw Object.assign(new Error('targets: none known'), { code: 'E_ARGUMENT' });
    },
    stats: () => ({ live: 'tiny@0' }),
    close: async () => {},
  };
  const policy = new NativePolicy(handle as unknown as NativeHandle, {
    name: 'tiny',
    config: tinyConfig(),
    tokenizer,
    tokenizerConfig: {},
    templates: { default: CHATML },
    specialTexts: {},
    stopIds: Int32Array.of(2, 0),
  });
  return {
    policy,
    requests,
    scores,
    abort,
    emit: (ids: number[]) => emit(ids),
    settle: (r: NativeGenerated | Error) => settle(r),
  };
}

describe('generate', () => {
  it('without sampling draws from the policy itself, to the end of the context', () => {
    const t = fake();
    t.policy.generate(Int32Array.of(5, 6));
    const [request] = t.requests;
    expect(request).toMatchObject({ temperature: 1, topP: 1, topK: 0, maxTokens: t.policy.context - 2 });
    expect(Array.from(request!.stopIds)).toEqual([2, 0]);
    expect(request!.seed).toBeGreaterThanOrEqual(0);
  });

  it('streams what comes, then gives the whole with its text', async () => {
    const t = fake();
    const ids = [...tokenizer.encode('sea'), 2];
    const generation = t.policy.generate(Int32Array.of(5, 6), sampling);
    t.emit(ids.slice(0, 1));
    t.emit(ids.slice(1));
    t.settle(done(ids));
    const got: number[] = [];
    for await (const piece of generation) got.push(...piece.ids);
    expect(got).toEqual(ids);
    expect(await generation.result).toMatchObject({
      text: 'sea',
      finish: 'stop',
      version: 'tiny@0',
      seed: t.requests[0]!.seed,
    });
  });

  it('lets a reader wait for tokens that come later', async () => {
    const t = fake();
    const generation = t.policy.generate(Int32Array.of(5), sampling);
    const reading = (async () => {
      const got: number[] = [];
      for await (const piece of generation) got.push(...piece.ids);
      return got;
    })();
    await new Promise((resolve) => setTimeout(resolve, 5));
    t.emit([7]);
    await new Promise((resolve) => setTimeout(resolve, 5));
    t.settle(done([7]));
    expect(await reading).toEqual([7]);
  });

  it('draws a seed where none is given and passes one that is', () => {
    const t = fake();
    t.policy.generate(Int32Array.of(5), sampling);
    t.policy.generate(Int32Array.of(5), sampling);
    t.policy.generate(Int32Array.of(5), { ...sampling, seed: 3 });
    expect(t.requests[0]!.seed).not.toBe(t.requests[1]!.seed);
    expect(t.requests[2]!.seed).toBe(3);
  });

  it('cuts maxTokens to the context and uses the model’s stop ids', () => {
    const t = fake();
    t.policy.generate(new Int32Array(250).fill(5), { ...sampling, maxTokens: 178_220 });
    expect(t.requests[0]).toMatchObject({ maxTokens: 6, stopIds: Int32Array.of(2, 0), deadlineMs: 0 });
    t.policy.generate(Int32Array.of(5), { ...sampling, stopIds: Int32Array.of(9) }, { deadlineMs: 50 });
    expect(t.requests[1]).toMatchObject({ stopIds: Int32Array.of(9), deadlineMs: 50 });
  });

  it('is aborted by its signal, by a signal that fired before, and by a reader that leaves', async () => {
    const t = fake();
    const controller = new AbortController();
    const first = t.policy.generate(Int32Array.of(5), sampling, { signal: controller.signal });
    expect(t.abort).not.toHaveBeenCalled();
    controller.abort();
    expect((await first.result).finish).toBe('abort');
    const second = t.policy.generate(Int32Array.of(5), sampling, { signal: AbortSignal.abort() });
    expect((await second.result).finish).toBe('abort');
    const third = t.policy.generate(Int32Array.of(5), sampling);
    t.emit([7]);
    for await (const _ of third) break;
    expect((await third.result).finish).toBe('abort');
    expect(t.abort).toHaveBeenCalledTimes(3);
  });

  it('gives errors to the reader and to the result, as OpenClawErrors, and never as an unhandled rejection', async () => {
    const t = fake();
    const generation = t.policy.generate(Int32Array.of(5), sampling);
    t.settle(Object.assign(new Error('queue is full'), { code: 'E_BUSY' }));
    await expect(async () => {
      for await (const _ of generation);
    }).rejects.toMatchObject({ code: 'E_BUSY', name: 'OpenClawError' });
    await expect(generation.result).rejects.toThrow('queue is full');
    t.policy.generate(Int32Array.of(5), sampling);
    t.settle(new Error('nobody listens'));
    await new Promise((resolve) => setTimeout(resolve, 5));
  });

  it('is read once', () => {
    const generation = fake().policy.generate(Int32Array.of(5), sampling);
    generation[Symbol.asyncIterator]();
    expect(() => generation[Symbol.asyncIterator]()).toThrow(/read once/);
  });

  it.each([
    ['no ids', () => new Int32Array(0), {}, 'E_ARGUMENT'],
    ['an id too high', () => Int32Array.of(1, 320), {}, 'E_TOKEN_ID'],
    ['a negative id', () => Int32Array.of(-1), {}, 'E_TOKEN_ID'],
    ['no room for a token', () => new Int32Array(256).fill(5), {}, 'E_CONTEXT'],
    ['a temperature', () => Int32Array.of(1), { temperature: 2.5 }, 'E_ARGUMENT'],
    ['a temperature that is no number', () => Int32Array.of(1), { temperature: Number.NaN }, 'E_ARGUMENT'],
    ['a topP', () => Int32Array.of(1), { topP: 0 }, 'E_ARGUMENT'],
    ['a topK', () => Int32Array.of(1), { topK: 1.5 }, 'E_ARGUMENT'],
    ['a maxTokens', () => Int32Array.of(1), { maxTokens: 0 }, 'E_ARGUMENT'],
    ['a seed', () => Int32Array.of(1), { seed: -1 }, 'E_ARGUMENT'],
    ['a stop id', () => Int32Array.of(1), { stopIds: Int32Array.of(400) }, 'E_TOKEN_ID'],
  ])('refuses %s at once', (_, ids, changes, code) => {
    const t = fake();
    expect(() => t.policy.generate(ids(), { ...sampling, ...changes })).toThrow(expect.objectContaining({ code }));
    expect(t.requests).toHaveLength(0);
  });
});

describe('the rest of the door', () => {
  it('scores with defaults and converts errors', async () => {
    const t = fake();
    await expect(t.policy.score(Int32Array.of(1, 2, 3))).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
    expect(t.scores[0]).toEqual({
      ids: Int32Array.of(1, 2, 3),
      from: 1,
      topK: 0,
      gather: null,
      version: 'live',
      lane: 'serve',
    });
    await expect(t.policy.score(Int32Array.of(1, 2), { from: 2 })).rejects.toMatchObject({ code: 'E_ARGUMENT' });
    await expect(t.policy.score(Int32Array.of(1, 2, 3), { gather: Int32Array.of(1) })).rejects.toThrow(
      /multiple of the 2 scored/,
    );
    await expect(t.policy.score(Int32Array.of(1, 2), { topK: -1 })).rejects.toMatchObject({ code: 'E_ARGUMENT' });
  });

  it('throws OpenClawErrors where the native side throws', () => {
    expect(() => fake().policy.trainer({})).toThrow(OpenClawError);
    expect(() => fake().policy.trainer({})).toThrow(/targets: none known/);
  });

  it('tokenizes with and without special tokens', () => {
    const { policy } = fake();
    expect([...policy.tokenize('<|im_end|>')]).toEqual([2]);
    expect([...policy.tokenize('<|im_end|>', { special: false })]).not.toContain(2);
    expect(policy.decode(Int32Array.of(2, 5), { skipSpecial: true })).toBe(policy.decode([5]));
    expect(policy.live()).toBe('tiny@0');
    expect(policy.decode(policy.renderChat([{ role: 'user', content: 'a' }], { addGenerationPrompt: false }))).toBe(
      '<|im_start|>user\na<|im_end|>\n',
    );
  });
});
