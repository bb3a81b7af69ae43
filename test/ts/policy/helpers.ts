/** Small made-up models and files for the tests of this station. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import type { NativeModelConfig } from '../../../lib/index.js';
import { expectedTensors } from '../../../ts/policy/files/layout.js';
import type { TensorToWrite } from '../../../ts/policy/files/safetensors-writer.js';
import { trainBpe } from '../../../ts/policy/tokenizer/train-bpe.js';

const MODEL_IN_TREE = fileURLToPath(
  new URL('../../../../shared/models/smollm2-135m-instruct-q4_1.gguf', import.meta.url),
);
const given = process.env.OPENCLAW_RL_TEST_MODEL ?? MODEL_IN_TREE;
/** the public model's GGUF file; null where it is not at hand */
export const smollmFile: string | null = existsSync(given) ? given : null;

export function fixture(name: string): URL {
  return new URL(`../fixtures/${name}`, import.meta.url);
}

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'policy-'));
  folders.push(folder);
  return folder;
}

export const SPECIALS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const;
const TEXTS = [
  'The quick brown fox jumps over the lazy dog. ',
  'She sells sea shells by the sea shore 12345. ',
  'How much wood would a woodchuck chuck? ',
];

/** Byte-level BPE with a few merges; ids 0–2 are special. */
export function tinyTokenizer(): Record<string, unknown> {
  return trainBpe(
    TEXTS.flatMap((text) => [text, text.toUpperCase(), text.repeat(2)]),
    { vocabSize: 320, specialTokens: SPECIALS },
  );
}

export function tinyConfig(changes: Partial<NativeModelConfig> = {}): NativeModelConfig {
  return {
    arch: 'llama',
    vocab: 320,
    sampleable: 320,
    hidden: 32,
    layers: 2,
    heads: 4,
    kvHeads: 2,
    headDim: 8,
    ffn: 64,
    normEps: 1e-5,
    ropeTheta: 10_000,
    ropeScaling: null,
    tiedHead: true,
    qkvBias: false,
    qkNorm: false,
    context: 256,
    ...changes,
  };
}

/** Values that differ from tensor to tensor and are exact in bf16. */
export function tinyTensors(config: NativeModelConfig): TensorToWrite[] {
  let salt = 0;
  return [...expectedTensors(config)].map(([name, shape]) => {
    salt++;
    const data = new Float32Array(shape.reduce((product, n) => product * n, 1)).map(
      (_, i) => ((i * 7 + salt) % 61) / 32 - 1,
    );
    return { name, shape, data };
  });
}

export type GgufEntry = [key: string, type: number, value: unknown];
export interface GgufTensor {
  name: string;
  /** outermost first */ shape: number[];
  type: number;
  bytes: Uint8Array;
}

/** Writes GGUF. Arrays are {of: element type, values}. `changes` make wrong files. */
export function buildGguf(
  entries: readonly GgufEntry[],
  tensors: readonly GgufTensor[],
  changes: {
    version?: number;
    magic?: number;
    tensorCount?: number;
    entryCount?: number;
    offsets?: number[];
    alignment?: number;
  } = {},
): Uint8Array {
  const w = new Writer();
  w.u32(changes.magic ?? 0x46554747);
  w.u32(changes.version ?? 3);
  w.u64(changes.tensorCount ?? tensors.length);
  w.u64(changes.entryCount ?? entries.length);
  for (const [key, type, value] of entries) {
    w.text(key);
    w.u32(type);
    w.value(type, value);
  }
  const alignment = changes.alignment ?? 32;
  let offset = 0;
  tensors.forEach((tensor, i) => {
    w.text(tensor.name);
    w.u32(tensor.shape.length);
    for (const n of [...tensor.shape].reverse()) w.u64(n);
    w.u32(tensor.type);
    w.u64(changes.offsets?.[i] ?? offset);
    offset = Math.ceil((offset + tensor.bytes.length) / alignment) * alignment;
  });
  for (const { bytes } of tensors) {
    w.pad(alignment);
    w.raw(bytes);
  }
  return w.bytes();
}

class Writer {
  private readonly parts: Buffer[] = [];
  private length = 0;

  raw(bytes: Uint8Array): void {
    this.parts.push(Buffer.from(bytes));
    this.length += bytes.length;
  }
  u32(value: number): void {
    const b = Buffer.alloc(4);
    b.writeUInt32LE(value);
    this.raw(b);
  }
  u64(value: number): void {
    const b = Buffer.alloc(8);
    b.writeBigUInt64LE(BigInt(value));
    this.raw(b);
  }
  text(value: string): void {
    const b = Buffer.from(value);
    this.u64(b.length);
    this.raw(b);
  }
  pad(alignment: number): void {
    this.raw(Buffer.alloc((alignment - (this.length % alignment)) % alignment));
  }
  value(type: number, value: unknown): void {
    if (type === 8) {
      this.text(value as string);
    } else if (type === 9) {
      const { of, values } = value as { of: number; values: unknown[] };
      this.u32(of);
      this.u64(values.length);
      for (const item of values) this.value(of, item);
    } else {
      this.raw(scalarBytes(type, value as number));
    }
  }
  bytes(): Uint8Array {
    return new Uint8Array(Buffer.concat(this.parts));
  }
}

function scalarBytes(type: number, value: number): Buffer {
  const b = Buffer.alloc(8);
  switch (type) {
    case 0:
      return b.subarray(0, b.writeUInt8(value));
    case 1:
      return b.subarray(0, b.writeInt8(value));
    case 2:
      return b.subarray(0, b.writeUInt16LE(value));
    case 3:
      return b.subarray(0, b.writeInt16LE(value));
    case 4:
      return b.subarray(0, b.writeUInt32LE(value));
    case 5:
      return b.subarray(0, b.writeInt32LE(value));
    case 6:
      return b.subarray(0, b.writeFloatLE(value));
    case 7:
      return b.subarray(0, b.writeUInt8(value ? 1 : 0));
    case 10:
      return b.subarray(0, b.writeBigUInt64LE(BigInt(value)));
    case 11:
      return b.subarray(0, b.writeBigInt64LE(BigInt(value)));
    case 12:
      return b.subarray(0, b.writeDoubleLE(value));
    default:
      throw new Error(`no scalar of type ${type}`);
  }
}

const GGUF_NAMES: Record<string, string> = {
  'model.embed_tokens.weight': 'token_embd.weight',
  'model.norm.weight': 'output_norm.weight',
  'lm_head.weight': 'output.weight',
  input_layernorm: 'attn_norm',
  post_attention_layernorm: 'ffn_norm',
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.o_proj': 'attn_output',
  'self_attn.q_norm': 'attn_q_norm',
  'self_attn.k_norm': 'attn_k_norm',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
};

function ggufName(name: string): string {
  const [, layer, part, kind] = /^model\.layers\.(\d+)\.(.+)\.(weight|bias)$/.exec(name) ?? [];
  return part === undefined ? GGUF_NAMES[name]! : `blk.${layer}.${GGUF_NAMES[part]}.${kind}`;
}

export const CHATML =
  "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/** Metadata of a tiny GGUF model. */
export function tinyGgufEntries(config: NativeModelConfig): GgufEntry[] {
  const tokenizer = tinyTokenizer() as { model: { vocab: Record<string, number>; merges: string[] } };
  const tokens = Object.entries(tokenizer.model.vocab)
    .sort((a, b) => a[1] - b[1])
    .map(([token]) => token);
  const a = config.arch;
  return [
    ['general.architecture', 8, a],
    [`${a}.block_count`, 4, config.layers],
    [`${a}.context_length`, 4, config.context],
    [`${a}.embedding_length`, 4, config.hidden],
    [`${a}.feed_forward_length`, 4, config.ffn],
    [`${a}.attention.head_count`, 4, config.heads],
    [`${a}.attention.head_count_kv`, 4, config.kvHeads],
    [`${a}.attention.key_length`, 4, config.headDim],
    [`${a}.attention.layer_norm_rms_epsilon`, 6, config.normEps],
    [`${a}.rope.freq_base`, 6, config.ropeTheta],
    ['tokenizer.ggml.model', 8, 'gpt2'],
    ['tokenizer.ggml.pre', 8, 'smollm'],
    ['tokenizer.ggml.tokens', 9, { of: 8, values: tokens }],
    ['tokenizer.ggml.token_type', 9, { of: 5, values: tokens.map((_, id) => (id < SPECIALS.length ? 3 : 1)) }],
    ['tokenizer.ggml.merges', 9, { of: 8, values: tokenizer.model.merges }],
    ['tokenizer.ggml.bos_token_id', 4, 1],
    ['tokenizer.ggml.eos_token_id', 4, 2],
    ['tokenizer.chat_template', 8, CHATML],
  ];
}

export function tinyGgufTensors(config: NativeModelConfig): GgufTensor[] {
  return tinyTensors(config).map(({ name, shape, data }) => ({
    name: ggufName(name),
    shape: [...shape],
    type: 0,
    bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
  }));
}
