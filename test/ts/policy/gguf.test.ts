/** GGUF files: what is read, what is refused by name, and that damage is always an error with a name. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NativeModelConfig } from '../../../lib/index.js';
import { parseGguf } from '../../../ts/policy/files/gguf.js';
import { huggingFaceName } from '../../../ts/policy/files/gguf-model.js';
import { readModel } from '../../../ts/policy/files/read-model.js';
import { OpenClawError } from '../../../ts/record/index.js';
import {
  buildGguf,
  type GgufEntry,
  type GgufTensor,
  smollmFile,
  temporaryFolder,
  tinyConfig,
  tinyGgufEntries,
  tinyGgufTensors,
} from './helpers.js';

const folder = temporaryFolder();
let made = 0;
function save(bytes: Uint8Array): string {
  const file = join(folder, `${made++}.gguf`);
  writeFileSync(file, bytes);
  return file;
}
function model(
  config: NativeModelConfig,
  more: GgufEntry[] = [],
  tensors: GgufTensor[] = tinyGgufTensors(config),
): string {
  return save(buildGguf([...tinyGgufEntries(config), ...more], tensors));
}
function parse(bytes: Uint8Array) {
  return parseGguf('x.gguf', bytes, bytes.length);
}

describe('metadata', () => {
  it('reads every type', () => {
    const entries: GgufEntry[] = [
      ['u8', 0, 255],
      ['i8', 1, -128],
      ['u16', 2, 65535],
      ['i16', 3, -32768],
      ['u32', 4, 4294967295],
      ['i32', 5, -2147483648],
      ['f32', 6, 0.5],
      ['bool', 7, true],
      ['text', 8, 'größe 👩'],
      ['u64', 10, Number.MAX_SAFE_INTEGER],
      ['i64', 11, -5],
      ['f64', 12, 0.1],
      ['list', 9, { of: 5, values: [1, -2] }],
      ['texts', 9, { of: 8, values: ['a', ''] }],
      [
        'nested',
        9,
        {
          of: 9,
          values: [
            { of: 7, values: [true, false] },
            { of: 0, values: [] },
          ],
        },
      ],
    ];
    for (const version of [2, 3]) {
      const { metadata } = parse(buildGguf(entries, [], { version }))!;
      expect(Object.fromEntries(metadata)).toEqual({
        u8: 255,
        i8: -128,
        u16: 65535,
        i16: -32768,
        u32: 4294967295,
        i32: -2147483648,
        f32: 0.5,
        bool: true,
        text: 'größe 👩',
        u64: Number.MAX_SAFE_INTEGER,
        i64: -5,
        f64: 0.1,
        list: [1, -2],
        texts: ['a', ''],
        nested: [[true, false], []],
      });
    }
  });

  it('asks for more of the file only where the file goes on', () => {
    const bytes = buildGguf([['text', 8, 'x'.repeat(100)]], []);
    expect(parseGguf('x', bytes.subarray(0, 60), bytes.length)).toBeNull();
    expect(() => parseGguf('x', bytes.subarray(0, 60), 60)).toThrow(/100 bytes|cut short/);
  });

  it.each([
    ['another file', { magic: 0x04034b50 }, /not a GGUF file/],
    ['version 1', { version: 1 }, /version 1/],
    ['big-endian', { version: 0x03000000 }, /big-endian/],
    ['a damaged tensor count', { tensorCount: 2 ** 40 }, /1099511627776 tensors/],
    ['a damaged value count', { entryCount: 2 ** 50 }, /metadata values/],
  ])('refuses %s', (_, changes, message) => {
    expect(() => parse(buildGguf([['a', 4, 1]], [], changes))).toThrow(message);
  });

  it('refuses doubled keys, unknown types, deep nesting and huge arrays', () => {
    expect(() =>
      parse(
        buildGguf(
          [
            ['a', 4, 1],
            ['a', 4, 2],
          ],
          [],
        ),
      ),
    ).toThrow(/"a" stands there twice/);
    const unknown = buildGguf([['a', 4, 1]], []);
    unknown[24 + 8 + 1] = 77;
    expect(() => parse(unknown)).toThrow(/unknown type 77/);
    const deep = { of: 9, values: [{ of: 9, values: [{ of: 9, values: [{ of: 9, values: [] }] }] }] };
    expect(() => parse(buildGguf([['a', 9, deep]], []))).toThrow(/too deeply/);
    const huge = buildGguf([['a', 9, { of: 0, values: [1, 2, 3] }]], []);
    new DataView(huge.buffer).setBigUint64(24 + 8 + 1 + 4 + 4, 2n ** 33n, true);
    expect(() => parse(huge)).toThrow(/claims 8589934592 values/);
    expect(() => parseGguf('x', huge, 2 ** 40)).toThrow(/more than a header/);
  });
});

describe('tensors', () => {
  const block = (type: number, bytes: number, shape = [2, 256]): GgufTensor => ({
    name: 't',
    shape,
    type,
    bytes: new Uint8Array(bytes),
  });

  it.each([
    [0, 2048],
    [1, 1024],
    [30, 1024],
    [8, 544],
    [2, 288],
    [3, 320],
    [6, 352],
    [7, 384],
    [12, 288],
    [14, 420],
  ])('type %i of 512 values has %i bytes', (type, bytes) => {
    const table = parse(buildGguf([], [block(type, bytes)]))!.tensors;
    expect(table.get('t')).toMatchObject({ shape: [2, 256], type, bytes });
    expect(() => parse(buildGguf([], [block(type, bytes - 1)]))).toThrow(/ends at byte/);
  });

  it('names a type that is not read', () => {
    expect(() => parse(buildGguf([], [block(11, 512)]))).toThrow(/"t" is stored as Q3_K/);
    expect(() => parse(buildGguf([], [block(99, 512)]))).toThrow(/type 99/);
  });

  it('refuses rows that are not whole blocks, doubled names, overlaps, misalignment and impossible shapes', () => {
    expect(() => parse(buildGguf([], [block(8, 544, [16, 17])]))).toThrow(/not whole Q8_0 blocks/);
    expect(() => parse(buildGguf([], [block(0, 2048), block(0, 2048)]))).toThrow(/"t" stands there twice/);
    const two = [block(0, 2048), { ...block(0, 2048), name: 'u' }];
    expect(() => parse(buildGguf([], two, { offsets: [0, 1024] }))).toThrow(/"t" and "u" overlap/);
    expect(() => parse(buildGguf([], two, { offsets: [0, 2052] }))).toThrow(/not aligned/);
    expect(() => parse(buildGguf([], [block(0, 2048, [2 ** 30, 2 ** 30])]))).toThrow(/impossible|ends at/);
    expect(() => parse(buildGguf([], [block(0, 4, [1, 1, 1, 1, 1])]))).toThrow(/5 axes/);
  });

  it('honours general.alignment', () => {
    const tensors = [block(0, 2048), { ...block(0, 2048), name: 'u' }];
    const aligned = parse(buildGguf([['general.alignment', 4, 256]], tensors, { alignment: 256 }))!;
    expect(aligned.tensors.get('u')!.offset % 256).toBe(0);
    expect(() => parse(buildGguf([['general.alignment', 4, 48]], []))).toThrow(/power of two/);
  });
});

describe('models', () => {
  it('reads a llama: config, names, permuted heads, tokenizer, template, ends of turn', async () => {
    const config = tinyConfig();
    const read = await readModel(model(config));
    expect(read.config).toMatchObject({ ...config, normEps: expect.closeTo(1e-5, 10) });
    expect(read.tensors.map((t) => t.name)[1]).toBe('model.layers.0.input_layernorm.weight');
    const heads = Object.fromEntries(
      read.tensors.filter((t) => t.unpermuteHeads > 0).map((t) => [t.name, t.unpermuteHeads]),
    );
    expect(heads).toEqual({
      'model.layers.0.self_attn.q_proj.weight': 4,
      'model.layers.0.self_attn.k_proj.weight': 2,
      'model.layers.1.self_attn.q_proj.weight': 4,
      'model.layers.1.self_attn.k_proj.weight': 2,
    });
    expect([...read.stopIds]).toEqual([2, 0]);
    expect(read.templates.default).toContain('im_start');
    expect(read.specialTexts).toEqual({ bos_token: '<|im_start|>', eos_token: '<|im_end|>' });
  });

  it.each([
    ['qwen2', { qkvBias: true, tiedHead: false }],
    ['qwen3', { qkNorm: true }],
  ] as const)('reads a %s without permuting heads', async (arch, changes) => {
    const config = tinyConfig({ arch, ...changes });
    const read = await readModel(model(config));
    expect(read.config).toMatchObject({ arch, ...changes });
    expect(read.tensors.every((t) => t.unpermuteHeads === 0)).toBe(true);
  });

  it('finds Llama 3’s rope scaling in its factors', async () => {
    const config = tinyConfig({ headDim: 64, ropeTheta: 500_000, context: 131_072 });
    const factors = new Float32Array(32).map((_, i) => {
      const wavelength = 2 * Math.PI * 500_000 ** ((2 * i) / 64);
      if (wavelength < 8192 / 4) return 1;
      if (wavelength > 8192) return 32;
      const smooth = (8192 / wavelength - 1) / 3;
      return 1 / ((1 - smooth) / 32 + smooth);
    });
    const tensor = (values: Float32Array): GgufTensor => ({
      name: 'rope_freqs.weight',
      shape: [32],
      type: 0,
      bytes: new Uint8Array(values.buffer),
    });
    const read = await readModel(model(config, [], [...tinyGgufTensors(config), tensor(factors)]));
    expect(read.config.ropeScaling).toEqual({
      kind: 'llama3',
      factor: 32,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      originalContext: 8192,
    });
    expect(read.config.context).toBe(131_072);
    await expect(
      readModel(model(config, [], [...tinyGgufTensors(config), tensor(factors.map((f) => f * 1.5))])),
    ).rejects.toThrow(/no known Llama 3/);
  });

  it.each([
    ['another architecture', tinyConfig({ arch: 'gemma3' as never }), [], /architecture "gemma3"/],
    ['mixture of experts', tinyConfig(), [['llama.expert_count', 4, 8]], /mixture of experts/],
    ['sliding windows', tinyConfig(), [['llama.attention.sliding_window', 4, 4096]], /sliding/],
    ['partial rotary embedding', tinyConfig(), [['llama.rope.dimension_count', 4, 4]], /part of the head/],
    [
      'unknown rope scaling',
      tinyConfig(),
      [
        ['llama.rope.scaling.type', 8, 'longrope'],
        ['llama.rope.scaling.factor', 6, 2],
      ],
      /"longrope"/,
    ],
  ] as Array<[string, NativeModelConfig, GgufEntry[], RegExp]>)(
    'refuses %s by name',
    async (_, config, more, message) => {
      await expect(readModel(model(config, more))).rejects.toThrow(message);
    },
  );

  it('reads linear and yarn scaling', async () => {
    const of = async (kind: string) =>
      (
        await readModel(
          model(tinyConfig(), [
            ['llama.rope.scaling.type', 8, kind],
            ['llama.rope.scaling.factor', 6, 4],
          ]),
        )
      ).config;
    expect(await of('linear')).toMatchObject({ ropeScaling: { kind: 'linear', factor: 4 }, context: 1024 });
    expect(await of('yarn')).toMatchObject({
      ropeScaling: { kind: 'yarn', factor: 4, originalContext: 256 },
      context: 1024,
    });
  });

  it('names what is missing, extra, misshapen or contradictory', async () => {
    const config = tinyConfig();
    const tensors = tinyGgufTensors(config);
    const without = tensors.filter((t) => t.name !== 'blk.1.ffn_up.weight');
    await expect(readModel(model(config, [], without))).rejects.toThrow(
      /1 tensors are missing: model.layers.1.mlp.up_proj.weight/,
    );
    const extra: GgufTensor = { name: 'blk.0.ffn_gate_inp.weight', shape: [4], type: 0, bytes: new Uint8Array(16) };
    await expect(readModel(model(config, [], [...tensors, extra]))).rejects.toThrow(
      /"blk.0.ffn_gate_inp.weight" has no place/,
    );
    const turned = tensors.map((t) => (t.name === 'blk.0.ffn_up.weight' ? { ...t, shape: [...t.shape].reverse() } : t));
    await expect(readModel(model(config, [], turned))).rejects.toThrow(
      /has shape \[32,64\], the config asks for \[64,32\]/,
    );
    const entries = tinyGgufEntries(config).filter(([key]) => key !== 'llama.block_count');
    await expect(readModel(save(buildGguf(entries, tensors)))).rejects.toThrow(
      /"llama.block_count" must be .* it is missing/,
    );
    await expect(readModel(model(tinyConfig({ heads: 3 }), [], tensors))).rejects.toThrow(
      /3 query heads cannot share 2/,
    );
    await expect(readModel(model(tinyConfig({ vocab: 300 })))).rejects.toThrow(
      /tokenizer has 320 ids, the embedding only 300 rows/,
    );
    await expect(readModel(join(folder, 'none.gguf'))).rejects.toThrow(/none.gguf: cannot be opened/);
  });

  it.each([
    ['tokenizer.ggml.model', 8, 'llama', /tokenizer model "llama"/],
    ['tokenizer.ggml.pre', 8, 'tekken', /pre-tokenizer "tekken"/],
    ['tokenizer.ggml.tokens', 9, { of: 4, values: [1] }, /list of texts/],
    ['tokenizer.ggml.tokens', 9, { of: 8, values: ['a', 'a'] }, /one number for each|twice/],
    ['tokenizer.ggml.token_type', 9, { of: 5, values: [1] }, /one number for each/],
  ])('%s %i %j', async (key, type, value, message) => {
    const entries = tinyGgufEntries(tinyConfig()).map(
      (entry): GgufEntry => (entry[0] === key ? [key, type, value] : entry),
    );
    await expect(readModel(save(buildGguf(entries, tinyGgufTensors(tinyConfig()))))).rejects.toThrow(message);
  });

  it('translates no name it does not know', () => {
    expect(huggingFaceName('blk.3.attn_q.weight')).toBe('model.layers.3.self_attn.q_proj.weight');
    for (const name of ['constructor', 'blk.0.constructor.weight', 'blk.x.attn_q.weight', '__proto__'])
      expect(huggingFaceName(name)).toBe(name);
  });
});

/** Any outcome is good but a crash, a hang, or an error without a name. */
async function survives(work: () => unknown): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(OpenClawError);
    expect(['E_FILE', 'E_UNSUPPORTED']).toContain((error as OpenClawError).code);
    return false;
  }
}

describe('damage', () => {
  const config = tinyConfig({ hidden: 8, ffn: 8, heads: 2, kvHeads: 1, headDim: 4, layers: 1 });
  const whole = buildGguf(tinyGgufEntries(config), tinyGgufTensors(config));
  const header = whole.length - 4 * tinyGgufTensors(config).reduce((sum, t) => sum + t.bytes.length / 4, 0);

  it('a file cut anywhere is refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.length - 1 }), async (length) => {
        expect(await survives(() => readModel(save(whole.subarray(0, length))))).toBe(false);
      }),
      { numRuns: 150 },
    );
  });

  it('flipped bits never do more than name an error', async () => {
    const flips = fc.array(fc.tuple(fc.integer({ min: 0, max: header - 1 }), fc.integer({ min: 1, max: 255 })), {
      minLength: 1,
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(flips, async (changes) => {
        const bytes = whole.slice();
        for (const [at, mask] of changes) bytes[at]! ^= mask;
        await survives(() => readModel(save(bytes)));
      }),
      { numRuns: 300 },
    );
  });

  it('random bytes after the magic number are refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (tail) => {
        const bytes = new Uint8Array([0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0, ...tail]);
        expect(await survives(() => readModel(save(bytes)))).toBe(false);
      }),
    );
  });
});

describe.skipIf(smollmFile === null)('the public model (skipped without its GGUF file)', () => {
  it('is read whole', async () => {
    const read = await readModel(smollmFile!);
    expect(read.config).toMatchObject({
      arch: 'llama',
      vocab: 49152,
      sampleable: 49152,
      hidden: 576,
      layers: 30,
      heads: 9,
      kvHeads: 3,
      headDim: 64,
      ffn: 1536,
      ropeTheta: 100_000,
      tiedHead: true,
      context: 8192,
    });
    expect(read.tensors).toHaveLength(272);
    expect([...read.stopIds]).toEqual([2, 0]);
  });
});
