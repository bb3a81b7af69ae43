/** Hugging Face folders: written and read back, sharded, refused by name, damaged. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NativeModelConfig } from '../../../lib/index.js';
import { writeModelFolder } from '../../../ts/policy/files/model-folder.js';
import { readModel } from '../../../ts/policy/files/read-model.js';
import { bf16ToF32, f32ToBf16, readSafetensorsHeader, readTensorValues } from '../../../ts/policy/files/safetensors.js';
import { safetensorsFile } from '../../../ts/policy/files/safetensors-writer.js';
import { OpenClawError } from '../../../ts/record/index.js';
import { CHATML, temporaryFolder, tinyConfig, tinyTensors, tinyTokenizer } from './helpers.js';

const root = temporaryFolder();
let made = 0;
const fresh = () => join(root, `m${made++}`);

async function write(config: NativeModelConfig = tinyConfig(), dtype: 'f32' | 'bf16' = 'f32'): Promise<string> {
  const folder = fresh();
  await writeModelFolder(folder, {
    config,
    tensors: tinyTensors(config),
    tokenizerJson: tinyTokenizer(),
    tokenizerConfig: { bos_token: '<|im_start|>', eos_token: '<|im_end|>' },
    chatTemplate: CHATML,
    dtype,
  });
  return folder;
}

function edit(folder: string, file: string, change: (json: Record<string, unknown>) => void): string {
  const copy = fresh();
  cpSync(folder, copy, { recursive: true });
  const json = JSON.parse(readFileSync(join(copy, file), 'utf8'));
  change(json);
  writeFileSync(join(copy, file), JSON.stringify(json));
  return copy;
}

describe('writing and reading', () => {
  it.each(['f32', 'bf16'] as const)('gives back what was written (%s)', async (dtype) => {
    const config = tinyConfig();
    const read = await readModel(await write(config, dtype));
    expect(read.config).toEqual(config);
    expect([...read.stopIds]).toEqual([2, 0]);
    expect(read.templates.default).toBe(CHATML);
    for (const [i, tensor] of tinyTensors(config).entries()) {
      expect(read.tensors[i]).toMatchObject({ name: tensor.name, shape: tensor.shape, type: dtype === 'f32' ? 0 : 30 });
      expect(await readTensorValues(read.tensors[i]!)).toEqual(tensor.data); // the values are exact in bf16
    }
  });

  it.each([
    { arch: 'qwen2', qkvBias: true, tiedHead: false },
    { arch: 'qwen3', qkNorm: true },
    { ropeScaling: { kind: 'linear', factor: 4 }, context: 1024 },
    { ropeScaling: { kind: 'llama3', factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalContext: 128 } },
    {
      ropeScaling: { kind: 'yarn', factor: 4, originalContext: 256, attentionFactor: 1.25, betaFast: 32, betaSlow: 1 },
      context: 1024,
    },
  ] as Array<Partial<NativeModelConfig>>)('keeps %j', async (changes) => {
    const config = tinyConfig(changes);
    expect((await readModel(await write(config))).config).toEqual(config);
  });

  it('keeps heads with more rows than the tokenizer has ids', async () => {
    const read = await readModel(await write(tinyConfig({ vocab: 384 })));
    expect(read.config).toMatchObject({ vocab: 384, sampleable: 320 });
  });

  it('is deterministic and replaces a folder whole', async () => {
    const folder = await write();
    writeFileSync(join(folder, 'left-over'), 'x');
    const before = readFileSync(join(folder, 'model.safetensors'));
    await writeModelFolder(folder, {
      config: tinyConfig(),
      tensors: tinyTensors(tinyConfig()),
      tokenizerJson: tinyTokenizer(),
      tokenizerConfig: {},
      chatTemplate: null,
      dtype: 'f32',
    });
    expect(readFileSync(join(folder, 'model.safetensors')).equals(before)).toBe(true);
    expect(() => readFileSync(join(folder, 'left-over'))).toThrow();
    expect((await readModel(folder)).templates).toEqual({});
  });

  it('refuses tensors that do not fit the config', async () => {
    const config = tinyConfig();
    const model = {
      config,
      tokenizerJson: tinyTokenizer(),
      tokenizerConfig: {},
      chatTemplate: null,
      dtype: 'f32' as const,
    };
    await expect(writeModelFolder(fresh(), { ...model, tensors: tinyTensors(config).slice(1) })).rejects.toThrow(
      /embed_tokens.weight" is missing/,
    );
    await expect(
      writeModelFolder(fresh(), { ...model, tensors: tinyTensors(tinyConfig({ ffn: 96 })) }),
    ).rejects.toThrow(/has shape/);
  });

  it('rounds to bf16 as the native code does', () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true }), (value) => {
        const back = bf16ToF32(f32ToBf16(value));
        if (Number.isFinite(back))
          expect(Math.abs(back - value)).toBeLessThanOrEqual(Math.abs(value) * 2 ** -8 + 2 ** -133);
      }),
    );
    expect(bf16ToF32(f32ToBf16(Number.NaN))).toBeNaN();
    expect(bf16ToF32(f32ToBf16(1 + 2 ** -8))).toBe(1); // a tie goes to the even one
    expect(bf16ToF32(f32ToBf16(1 + 3 * 2 ** -8))).toBe(1 + 2 ** -6);
  });
});

describe('shards', () => {
  async function sharded(change: (map: Record<string, string>) => void = () => {}): Promise<string> {
    const folder = await write();
    rmSync(join(folder, 'model.safetensors'));
    const tensors = tinyTensors(tinyConfig());
    const map: Record<string, string> = {};
    for (const part of [0, 1]) {
      const mine = tensors.filter((_, i) => i % 2 === part);
      const name = `model-0000${part + 1}-of-00002.safetensors`;
      writeFileSync(join(folder, name), Buffer.concat(safetensorsFile(mine)));
      for (const tensor of mine) map[tensor.name] = name;
    }
    change(map);
    writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ metadata: {}, weight_map: map }));
    return folder;
  }

  it('are read as one model', async () => {
    const read = await readModel(await sharded());
    expect(read.tensors.map((t) => t.name)).toEqual(tinyTensors(tinyConfig()).map((t) => t.name));
    expect(new Set(read.tensors.map((t) => t.file)).size).toBe(2);
  });

  it.each([
    ['a path', '../model-00001-of-00002.safetensors', /names the shard/],
    ['a hidden file', '.model.safetensors', /names the shard/],
    ['a shard that is missing', 'model-00003.safetensors', /cannot be opened/],
  ])('refuses %s', async (_, name, message) => {
    const folder = await sharded((map) => {
      map['model.norm.weight'] = name;
    });
    await expect(readModel(folder)).rejects.toThrow(message);
  });

  it('names a tensor that its shard does not hold', async () => {
    const folder = await sharded((map) => {
      map['model.other.weight'] = 'model-00001-of-00002.safetensors';
    });
    await expect(readModel(folder)).rejects.toThrow(/"model.other.weight" is not in the shard/);
  });
});

describe('config.json', () => {
  it.each([
    ['another architecture', { model_type: 'gemma3' }, /architecture "gemma3"/],
    ['a property of every object', { model_type: 'constructor' }, /architecture "constructor"/],
    ['another activation', { hidden_act: 'gelu' }, /activation "gelu"/],
    ['attention biases', { attention_bias: true }, /attention_bias/],
    ['feed-forward biases', { mlp_bias: true }, /mlp_bias/],
    ['sliding windows', { use_sliding_window: true }, /sliding/],
    ['mixed layers', { layer_types: ['full_attention', 'sliding_attention'] }, /"sliding_attention"/],
    ['quantised weights', { quantization_config: { quant_method: 'gptq' } }, /quantization_config/],
    ['unknown rope scaling', { rope_scaling: { rope_type: 'longrope', factor: 2 } }, /"longrope"/],
    ['dynamic rope scaling', { rope_scaling: { type: 'dynamic', factor: 2 } }, /"dynamic"/],
    ['yarn variants', { rope_scaling: { type: 'yarn', factor: 2, mscale: 1 } }, /mscale/],
    ['a partial rotary embedding', { partial_rotary_factor: 0.5 }, /partial_rotary_factor/],
    ['a width that is no number', { hidden_size: '32' }, /"hidden_size" must be a number .* it is "32"/],
    ['a huge width', { hidden_size: 1e15 }, /"hidden_size"/],
    ['heads that do not divide', { num_attention_heads: 3 }, /cannot share/],
    ['a missing key', { num_hidden_layers: undefined }, /"num_hidden_layers" must be .* it is missing/],
    ['an odd head', { head_dim: 7 }, /must be even|has shape/],
    ['too few rows', { vocab_size: 300 }, /only 300 rows/],
  ])('refuses %s', async (_, changes, message) => {
    const folder = edit(await write(), 'config.json', (json) => {
      Object.assign(json, changes);
    });
    await expect(readModel(folder)).rejects.toThrow(message);
  });

  it('reads transformers 5’s rope_parameters and several eos ids', async () => {
    const folder = edit(await write(), 'config.json', (json) => {
      delete json.rope_theta;
      delete json.rope_scaling;
      json.rope_parameters = {
        rope_theta: 500_000,
        rope_type: 'llama3',
        factor: 8,
        low_freq_factor: 1,
        high_freq_factor: 4,
        original_max_position_embeddings: 64,
      };
    });
    const withEnds = edit(folder, 'generation_config.json', (json) => {
      json.eos_token_id = [7, 2];
    });
    const read = await readModel(withEnds);
    expect(read.config).toMatchObject({
      ropeTheta: 500_000,
      ropeScaling: { kind: 'llama3', factor: 8, originalContext: 64 },
    });
    expect([...read.stopIds]).toEqual([2, 7, 0]);
  });

  it('takes templates from tokenizer_config.json, one or several', async () => {
    const folder = await write();
    rmSync(join(folder, 'chat_template.jinja'));
    const one = edit(folder, 'tokenizer_config.json', (json) => {
      json.chat_template = 'A';
      json.eos_token = { content: '<|endoftext|>' };
    });
    const read = await readModel(one);
    expect(read.templates).toEqual({ default: 'A' });
    expect(read.stopIds[0]).toBe(0);
    const named = edit(folder, 'tokenizer_config.json', (json) => {
      json.chat_template = [
        { name: 'default', template: 'A' },
        { name: 'tool_use', template: 'B' },
      ];
    });
    expect((await readModel(named)).templates).toEqual({ default: 'A', tool_use: 'B' });
  });

  it('names what a folder lacks', async () => {
    const folder = await write();
    const without = (file: string) => {
      const copy = fresh();
      cpSync(folder, copy, { recursive: true });
      rmSync(join(copy, file));
      return copy;
    };
    await expect(readModel(without('config.json'))).rejects.toThrow(/config.json: cannot be opened/);
    await expect(readModel(without('tokenizer.json'))).rejects.toThrow(/tokenizer.json: cannot be opened/);
    await expect(readModel(without('model.safetensors'))).rejects.toThrow(/holds no model.safetensors/);
    const old = without('model.safetensors');
    writeFileSync(join(old, 'pytorch_model.bin'), 'x');
    await expect(readModel(old)).rejects.toThrow(/pytorch_model.bin/);
    const empty = fresh();
    mkdirSync(empty);
    writeFileSync(join(empty, 'config.json'), '{"model_type": ');
    await expect(readModel(empty)).rejects.toThrow(/config.json: is not valid JSON/);
  });
});

describe('damaged safetensors', () => {
  const file = join(root, 'one.safetensors');
  const two = [
    { name: 'a', shape: [2, 3], data: new Float32Array(6) },
    { name: 'b', shape: [4], data: new Float32Array(4) },
  ];
  const bytes = Buffer.concat(safetensorsFile(two));

  function withHeader(header: unknown, data = 40): Buffer {
    const json = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(json.length));
    return Buffer.concat([length, json, Buffer.alloc(data)]);
  }
  const entry = (begin: number, end: number, shape = [(end - begin) / 4], dtype = 'F32') => ({
    dtype,
    shape,
    data_offsets: [begin, end],
  });

  it.each([
    ['an impossible header length', Buffer.from([255, 255, 255, 255, 255, 255, 255, 255]), /claims a header/],
    ['a header longer than the file', Buffer.from([200, 0, 0, 0, 0, 0, 0, 0, 123]), /cut short/],
    ['an empty file', Buffer.alloc(0), /too short/],
    ['no JSON', withHeader('{"a"'), /not valid JSON/],
    ['a list', withHeader('[]'), /must be a JSON object/],
    ['bytes that are not UTF-8', withHeader(Buffer.from([0xff, 0xfe]).toString('latin1')), /JSON/],
    [
      'doubled names',
      withHeader(
        '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
      ),
      /same name/,
    ],
    ['overlap', withHeader({ a: entry(0, 16), b: entry(12, 24) }), /overlap/],
    ['data past the end', withHeader({ a: entry(0, 80) }), /ends at byte/],
    [
      'offsets in the wrong order',
      withHeader({ a: { dtype: 'F32', shape: [1], data_offsets: [8, 4] } }),
      /offsets in order/,
    ],
    ['a shape of another size', withHeader({ a: entry(0, 16, [5]) }), /needs 20/],
    ['negative axes', withHeader({ a: entry(0, 16, [-4]) }), /whole numbers >= 0/],
    ['another dtype', withHeader({ a: entry(0, 16, [2], 'F64') }), /"F64"/],
    ['an entry that is no object', withHeader({ a: 7 }), /JSON object/],
  ])('%s', async (_, content, message) => {
    writeFileSync(file, content);
    await expect(readSafetensorsHeader(file)).rejects.toThrow(message);
  });

  it('cut or flipped files never do more than name an error', async () => {
    const change = fc.oneof(
      fc.integer({ min: 0, max: bytes.length - 1 }).map((length) => bytes.subarray(0, length)),
      fc.tuple(fc.integer({ min: 0, max: bytes.length - 1 }), fc.integer({ min: 1, max: 255 })).map(([at, mask]) => {
        const copy = Buffer.from(bytes);
        copy[at]! ^= mask;
        return copy;
      }),
    );
    await fc.assert(
      fc.asyncProperty(change, async (content) => {
        writeFileSync(file, content);
        try {
          await readSafetensorsHeader(file);
        } catch (error) {
          expect(error).toBeInstanceOf(OpenClawError);
          expect(['E_FILE', 'E_UNSUPPORTED']).toContain((error as OpenClawError).code);
        }
      }),
      { numRuns: 300 },
    );
  });
});
