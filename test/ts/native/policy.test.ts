/** The open policy through N-API: what it gives, what it refuses, in which states, and that nothing is left behind. */
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { binary, type NativePolicy } from '../../../lib/index.js';
import { farthest } from './oracle.js';
import { ignore, request, scoreRequest, tinyConfig, tinyOptions, tinyPolicy } from './tiny.js';

async function withPolicy(body: (policy: NativePolicy) => Promise<void>, options = {}): Promise<void> {
  const policy = await tinyPolicy(options);
  try {
    await body(policy);
  } finally {
    await policy.close();
  }
}

const coded = (code: string, message?: RegExp) =>
  expect.objectContaining({ code, ...(message ? { message: expect.stringMatching(message) } : {}) });

describe('generate', () => {
  it('streams exactly what the result holds', () =>
    withPolicy(async (policy) => {
      const ids: number[] = [];
      const logprobs: number[] = [];
      const generation = policy.generate(request({ maxTokens: 300 }), (i, l) => {
        expect(i.length).toBe(l.length);
        ids.push(...i);
        logprobs.push(...l);
      });
      const result = await generation.done;
      expect([...result.ids]).toEqual(ids);
      expect([...result.logprobs]).toEqual(logprobs);
      expect(result).toMatchObject({ finish: 'length', version: 'v0', cachedTokens: 0 });
      expect(ids.length).toBe(300);
      expect(result.ms).toBeGreaterThanOrEqual(result.msToFirst);
    }));

  it('gives fifty at once what each gets alone, whatever the seeds around it', () =>
    withPolicy(async (policy) => {
      const of = (seed: number) => request({ seed, maxTokens: 20, ids: Int32Array.of(seed, 2, 3, 4, 5) });
      const alone = [];
      for (let seed = 0; seed < 50; seed++) alone.push(await policy.generate(of(seed), ignore).done);
      const together = await Promise.all(alone.map((_, seed) => policy.generate(of(seed), ignore).done));
      for (const [seed, result] of together.entries()) {
        expect([...result.ids]).toEqual([...alone[seed]!.ids]);
        expect(farthest(result.logprobs, alone[seed]!.logprobs)).toBeLessThan(1e-4);
      }
    }));

  it('ends on abort with what was sampled, and abort after the end does nothing', () =>
    withPolicy(async (policy) => {
      const generation = policy.generate(request({ maxTokens: 500 }), () => generation.abort());
      const result = await generation.done;
      expect(result.finish).toBe('abort');
      expect(result.ids.length).toBeGreaterThan(0);
      generation.abort();
      expect((await policy.generate(request(), ignore).done).finish).toBe('length');
    }));

  it('ends at the deadline', () =>
    withPolicy(
      async (policy) => {
        const running = Array.from({ length: 40 }, (_, seed) =>
          policy.generate(request({ seed, maxTokens: 500, deadlineMs: 1 }), ignore),
        );
        const finishes = new Set((await Promise.all(running.map((g) => g.done))).map((r) => r.finish));
        expect(finishes).toContain('deadline');
      },
      { maxInFlight: 1 },
    ));

  it('ends a generation whose listener throws, with what it threw', () =>
    withPolicy(async (policy) => {
      const broken = policy.generate(request({ maxTokens: 500 }), () => {
        throw new Error('listener broke');
      });
      await expect(broken.done).rejects.toThrow('listener broke');
      expect((await policy.generate(request(), ignore).done).finish).toBe('length');
    }));

  it('refuses beyond its queue with E_BUSY and takes requests again later', () =>
    withPolicy(
      async (policy) => {
        const accepted = [];
        let refused = 0;
        for (let i = 0; i < 20; i++) {
          try {
            accepted.push(policy.generate(request({ maxTokens: 400 }), ignore).done);
          } catch (error) {
            expect(error).toEqual(coded('E_BUSY', /maxWaiting/));
            refused++;
          }
        }
        expect(refused).toBeGreaterThan(0);
        await Promise.all(accepted);
        expect((await policy.generate(request(), ignore).done).finish).toBe('length');
      },
      { maxInFlight: 2, maxWaiting: 3 },
    ));

  it.each([
    ['ids', new Float32Array(3), 'E_DTYPE', /request\.ids: expected an Int32Array/],
    ['ids', [1, 2], 'E_DTYPE', /ids/],
    ['ids', new Int32Array(0), 'E_ARGUMENT', /ids: expected at least one token/],
    ['ids', Int32Array.of(1, 97), 'E_TOKEN_ID', /ids\[1\].*0\.\.96, got 97/],
    ['ids', Int32Array.of(-1), 'E_TOKEN_ID', /ids\[0\]/],
    ['ids', new Int32Array(512), 'E_CONTEXT', /at most 511 tokens.*context 512.*got 512/],
    ['maxTokens', 0, 'E_ARGUMENT', /maxTokens: expected an integer from 1/],
    ['maxTokens', 1.5, 'E_ARGUMENT', /maxTokens/],
    ['maxTokens', '3', 'E_ARGUMENT', /maxTokens.*got '3'/],
    ['temperature', -0.1, 'E_ARGUMENT', /temperature/],
    ['temperature', Number.NaN, 'E_ARGUMENT', /temperature/],
    ['topP', 0, 'E_ARGUMENT', /topP/],
    ['topP', 1.01, 'E_ARGUMENT', /topP/],
    ['topK', -1, 'E_ARGUMENT', /topK/],
    ['seed', -1, 'E_ARGUMENT', /seed/],
    ['seed', 2 ** 60, 'E_ARGUMENT', /seed/],
    ['stopIds', Int32Array.of(97), 'E_TOKEN_ID', /stopIds\[0\]/],
    ['stopIds', null, 'E_DTYPE', /stopIds/],
    ['deadlineMs', -1, 'E_ARGUMENT', /deadlineMs/],
  ])('refuses %s = %o', (field, value, code, message) =>
    withPolicy(async (policy) => {
      const bad = request({ [field]: value } as object);
      expect(() => policy.generate(bad, ignore)).toThrow(coded(code, message));
    }),
  );

  it('refuses a missing listener, a missing request and a foreign `this`', () =>
    withPolicy(async (policy) => {
      const wrong = policy as unknown as Record<string, (...args: unknown[]) => unknown>;
      expect(() => wrong.generate!(request())).toThrow(coded('E_ARGUMENT', /onTokens/));
      expect(() => wrong.generate!()).toThrow(coded('E_ARGUMENT', /request: expected an object, got nothing/));
      for (const self of [undefined, {}, policy.trainer({}), 3])
        expect(() => policy.generate.call(self as NativePolicy, request(), ignore)).toThrow(
          coded('E_ARGUMENT', /this/),
        );
    }));
});

describe('score', () => {
  it('agrees between lanes and with what was recorded while sampling', () =>
    withPolicy(async (policy) => {
      const said = await policy.generate(request({ maxTokens: 100 }), ignore).done;
      const ids = Int32Array.from([5, 6, 7, 8, ...said.ids]);
      const gather = Int32Array.from({ length: 200 }, (_, i) => (i % 2 ? 3 : ids[4 + (i >> 1)]!));
      const lanes = await Promise.all(
        (['serve', 'train'] as const).map((lane) =>
          policy.score({ ...scoreRequest, ids, from: 4, topK: 3, gather, lane }),
        ),
      );
      for (const scored of lanes) {
        expect(farthest(scored.logprobs, said.logprobs)).toBeLessThan(1e-4);
        expect(
          farthest(
            scored.gathered!.filter((_, i) => i % 2 === 0),
            said.logprobs,
          ),
        ).toBeLessThan(1e-4);
        expect(scored.topIds.length).toBe(300);
        expect(scored.version).toBe('v0');
      }
      expect(farthest(lanes[0]!.entropy, lanes[1]!.entropy)).toBeLessThan(1e-4);
      expect((await policy.score(scoreRequest)).gathered).toBeNull();
    }));

  it.each([
    ['from', 0, 'E_ARGUMENT'],
    ['from', 4, 'E_ARGUMENT'],
    ['topK', 98, 'E_ARGUMENT'],
    ['ids', Int32Array.of(1), 'E_ARGUMENT'],
    ['ids', new Int32Array(513), 'E_CONTEXT'],
    ['gather', Int32Array.of(1, 2), 'E_SHAPE'],
    ['gather', Int32Array.of(1, 2, 97), 'E_TOKEN_ID'],
    ['version', 'nobody', 'E_ARGUMENT'],
    ['lane', 'fast', 'E_ARGUMENT'],
  ])('rejects %s = %o', (field, value, code) =>
    withPolicy(async (policy) => {
      const bad = { ...scoreRequest, [field]: value } as typeof scoreRequest;
      await expect(policy.score(bad)).rejects.toEqual(coded(code));
    }),
  );
});

describe.each([
  ['llama', {}],
  ['llama with its own head', { tiedHead: false }],
  ['llama with scaled rotation', { ropeScaling: { kind: 'llama3' as const, factor: 8, originalContext: 128 } }],
  ['qwen2', { arch: 'qwen2' as const, qkvBias: true }],
  ['qwen3', { arch: 'qwen3' as const, qkNorm: true, headDim: 16 }],
])('%s', (_, change) => {
  it.each(['f32', 'bf16'] as const)('in %s records what both lanes score, in chunks or one by one', async (dtype) => {
    const policy = await binary.randomPolicy(
      { ...tinyConfig, ...change },
      { seed: 5, std: 0.2 },
      { ...tinyOptions, dtype },
    );
    const ids = Int32Array.from({ length: 300 }, (_, i) => (i * 7) % 90);
    const said = await policy.generate(request({ ids, maxTokens: 80 }), ignore).done;
    for (const lane of ['serve', 'train'] as const) {
      const all = Int32Array.from([...ids, ...said.ids]);
      const scored = await policy.score({ ...scoreRequest, ids: all, from: 300, lane });
      expect(farthest(scored.logprobs, said.logprobs)).toBeLessThan(dtype === 'f32' ? 1e-4 : 1e-3);
    }
    await policy.close();
  });
});

describe('versions', () => {
  const ones = (n: number, value: number) => new Float32Array(n).fill(value);
  const adapter = (strength: number) => ({
    rank: 1,
    alpha: 1,
    tensors: { 'layers.0.q_proj.A': ones(32, strength), 'layers.0.q_proj.B': ones(32, strength) },
  });

  it('are kept by requests under way and never mixed', () =>
    withPolicy(async (policy) => {
      const before = await policy.generate(request({ maxTokens: 200 }), ignore).done;
      let published: Promise<void> | undefined;
      const during = policy.generate(request({ maxTokens: 200 }), () => {
        published ??= policy.setAdapter(adapter(0.5), 'v1');
      });
      const held = await during.done;
      await published;
      expect(held.version).toBe('v0');
      expect([...held.ids]).toEqual([...before.ids]);
      const after = await policy.generate(request({ maxTokens: 200 }), ignore).done;
      expect(after.version).toBe('v1');
      expect([...after.ids]).not.toEqual([...before.ids]);
      expect(policy.stats()).toMatchObject({ live: 'v1', versionsHeld: ['v0', 'v1'] });
      await policy.setAdapter(null, 'v2');
      const again = await policy.generate(request({ maxTokens: 200 }), ignore).done;
      expect(again).toMatchObject({ version: 'v2', ids: before.ids });
    }));

  it('do not share cached prefixes', () =>
    withPolicy(async (policy) => {
      const ids = Int32Array.from({ length: 100 }, (_, i) => i % 90);
      const cached = async () => (await policy.generate(request({ ids, maxTokens: 1 }), ignore).done).cachedTokens;
      expect([await cached(), await cached()]).toEqual([0, 96]);
      await policy.setAdapter(adapter(0.5), 'v1');
      expect([await cached(), await cached()]).toEqual([0, 96]);
    }));

  it('never reuse a name', () =>
    withPolicy(async (policy) => {
      await policy.setAdapter(adapter(0.5), 'v1');
      for (const name of ['v0', 'v1', 'live', 'base', ''])
        await expect(policy.setAdapter(null, name)).rejects.toEqual(coded('E_ARGUMENT'));
    }));

  it.each([
    ['names', { 'layers.2.q_proj.A': ones(32, 1) }, 'E_ARGUMENT'],
    ['targets', { 'layers.0.x_proj.A': ones(32, 1) }, 'E_ARGUMENT'],
    ['halves', { 'layers.0.q_proj.A': ones(32, 1) }, 'E_ARGUMENT'],
    ['sizes', { 'layers.0.q_proj.A': ones(31, 1), 'layers.0.q_proj.B': ones(32, 1) }, 'E_SHAPE'],
    ['values', { 'layers.0.q_proj.A': ones(32, Number.NaN), 'layers.0.q_proj.B': ones(32, 1) }, 'E_NOT_FINITE'],
    ['types', { 'layers.0.q_proj.A': new Float64Array(32) as unknown as Float32Array }, 'E_DTYPE'],
  ])('refuse adapters with wrong %s', (_, tensors, code) =>
    withPolicy(async (policy) => {
      const bad = { rank: 1, alpha: 1, tensors: tensors as Record<string, Float32Array> };
      await expect(policy.setAdapter(bad, 'v1')).rejects.toEqual(coded(code));
      expect(policy.stats().live).toBe('v0');
      await policy.setAdapter(adapter(0.1), 'v1'); // a refused name is still free
    }),
  );
});

describe('weights out', () => {
  it('come by their Hugging Face names in both dtypes', () =>
    withPolicy(async (policy) => {
      const f32 = await policy.exportWeights('live', 'f32');
      const bf16 = await policy.exportWeights('base', 'bf16');
      expect(f32.map((t) => t.name)).toEqual(bf16.map((t) => t.name));
      expect(f32[0]).toMatchObject({ name: 'model.embed_tokens.weight', shape: [97, 32] });
      for (const [i, tensor] of f32.entries()) {
        const size = tensor.shape.reduce((a, b) => a * b, 1);
        expect(tensor.data).toBeInstanceOf(Float32Array);
        expect(bf16[i]!.data).toBeInstanceOf(Uint16Array);
        expect([tensor.data.length, bf16[i]!.data.length]).toEqual([size, size]);
      }
      const wide = new Float32Array(Uint32Array.from(bf16[0]!.data, (half) => half << 16).buffer);
      expect(farthest(wide, f32[0]!.data)).toBeLessThan(0.01);
    }));
});

describe('closing', () => {
  type Method = (policy: NativePolicy) => unknown;
  const methods: Array<[string, Method]> = [
    ['generate', (policy) => policy.generate(request(), ignore).done],
    ['score', (policy) => policy.score(scoreRequest)],
    ['score on the train lane', (policy) => policy.score({ ...scoreRequest, lane: 'train' })],
    ['trainer', (policy) => policy.trainer({})],
    ['setAdapter', (policy) => policy.setAdapter(null, 'v9')],
    ['exportWeights', (policy) => policy.exportWeights('live', 'f32')],
    ['stats', (policy) => policy.stats()],
  ];

  it.each(methods)('%s works while open and is E_DISPOSED while closing and after', async (_, method) => {
    const policy = await tinyPolicy();
    const call = async () => method(policy);
    await call();
    const closed = policy.close();
    await expect(call()).rejects.toEqual(coded('E_DISPOSED'));
    await closed;
    await expect(call()).rejects.toEqual(coded('E_DISPOSED'));
  });

  it('is the same promise every time', async () => {
    const policy = await tinyPolicy();
    const first = policy.close();
    expect(policy.close()).toBe(first);
    await first;
    expect(policy.close()).toBe(first);
  });

  it('settles everything under way before it resolves', async () => {
    const policy = await tinyPolicy({ maxInFlight: 2 });
    const settled: string[] = [];
    const running = Array.from({ length: 10 }, (_, seed) =>
      policy.generate(request({ seed, maxTokens: 500 }), ignore).done.then((r) => settled.push(r.finish)),
    );
    const trainer = policy.trainer({});
    const jobs = Array.from({ length: 5 }, () =>
      trainer.prepare([Int32Array.of(1, 2, 3)]).then(
        () => settled.push('done'),
        (error) => settled.push(error.code),
      ),
    );
    await policy.close();
    expect(settled.length).toBe(15);
    await Promise.all([...running, ...jobs]);
    for (const end of settled) expect(['abort', 'length', 'done', 'E_ABORTED']).toContain(end);
    await expect(trainer.zeroGrad()).rejects.toEqual(coded('E_DISPOSED'));
  });
});

describe('opening', () => {
  it.each([
    [{ ...tinyConfig, arch: 'gpt2' }, tinyOptions, 'E_ARGUMENT', /config\.arch/],
    [{ ...tinyConfig, sampleable: 98 }, tinyOptions, 'E_ARGUMENT', /sampleable/],
    [{ ...tinyConfig, heads: 3 }, tinyOptions, 'E_ARGUMENT', /heads|kvHeads/],
    [{ ...tinyConfig, tiedHead: 1 }, tinyOptions, 'E_ARGUMENT', /tiedHead/],
    [tinyConfig, { ...tinyOptions, kvBytes: 100 }, 'E_ARGUMENT', /kvBytes: expected at least 8192/],
    [tinyConfig, { ...tinyOptions, dtype: 'f16' }, 'E_ARGUMENT', /dtype/],
    [tinyConfig, { ...tinyOptions, version: '' }, 'E_ARGUMENT', /version/],
    [tinyConfig, { ...tinyOptions, version: 'base' }, 'E_ARGUMENT', /version/],
    [tinyConfig, { ...tinyOptions, maxInFlight: 0 }, 'E_ARGUMENT', /maxInFlight/],
    [tinyConfig, undefined, 'E_ARGUMENT', /options: expected an object, got nothing/],
  ])('rejects a wrong description (%#)', async (config, options, code, message) => {
    const open = binary.randomPolicy(config as typeof tinyConfig, { seed: 1, std: 0.1 }, options as typeof tinyOptions);
    await expect(open).rejects.toEqual(coded(code, message));
  });

  it('rejects files that are not there, by name', async () => {
    const tensor = {
      name: 'model.norm.weight',
      type: 0,
      shape: [32],
      file: '/no/such/file',
      offset: 0,
      bytes: 128,
      unpermuteHeads: 0,
    };
    await expect(binary.openPolicy(tinyConfig, [tensor], tinyOptions)).rejects.toEqual(
      coded('E_FILE', /no\/such\/file|model/),
    );
    await expect(binary.openPolicy(tinyConfig, [], tinyOptions)).rejects.toEqual(coded('E_FILE'));
  });

  it('counts what it does', () =>
    withPolicy(async (policy) => {
      expect(policy.stats()).toMatchObject({ inFlight: 0, waiting: 0, live: 'v0', kvBytes: 0, generatedTokens: 0 });
      const ids = Int32Array.from({ length: 65 }, (_, i) => i);
      await policy.generate(request({ ids }), ignore).done;
      await policy.generate(request({ ids }), ignore).done;
      const stats = policy.stats();
      expect(stats).toMatchObject({
        generatedTokens: 32,
        promptTokens: 130,
        cachedTokens: 64,
        inFlight: 0,
        waiting: 0,
      });
      expect(stats.kvBytes).toBeGreaterThan(0);
      expect(stats.kvBytes).toBeLessThanOrEqual(stats.kvBytesLimit);
      expect(stats.weightBytes).toBeGreaterThan(0);
    }));
});

describe('memory', () => {
  it('stays where it was over thousands of calls', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    await withPolicy(async (policy) => {
      const round = async (calls: number) => {
        for (let i = 0; i < calls; i += 20) {
          const some = Array.from({ length: 10 }, (_, j) => policy.generate(request({ seed: i + j }), ignore).done);
          const scores = Array.from({ length: 10 }, () => policy.score(scoreRequest));
          await Promise.all([...some, ...scores]);
          const refused = request({ maxTokens: 0 });
          expect(() => policy.generate(refused, ignore)).toThrow();
        }
        for (let i = 0; i < 5; i++) {
          collect();
          await sleep(5);
        }
        return process.memoryUsage();
      };
      await round(2000);
      const before = await round(1000);
      const after = await round(4000);
      expect((after.heapUsed - before.heapUsed) / 4000).toBeLessThan(100);
      expect((after.rss - before.rss) / 4000).toBeLessThan(4000);
    });
  });
});
