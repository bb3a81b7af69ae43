/** GGUF metadata → NativeModelConfig, GGUF tensor names → Hugging Face names. Keys: gguf-py/gguf/constants.py of llama.cpp. */
import type { NativeModelConfig, NativeTensor } from '../native-types.js';
import { architecture, checkConfig, LIMITS, scaledContext } from './config.js';
import type { GgufHeader, GgufValue } from './gguf.js';
import { matchTensors } from './layout.js';
import { Fields, fileError, show, unsupported } from './reading.js';
import { readTensorValues } from './safetensors.js';
import { F32 } from './tensor-types.js';

type RopeScaling = NonNullable<NativeModelConfig['ropeScaling']>;

/** Metadata as Fields, so that numbers and texts are checked in one way for both formats. */
export function metadataFields(file: string, metadata: ReadonlyMap<string, GgufValue>): Fields {
  return new Fields(file, Object.fromEntries(metadata));
}

export async function configFromGguf(file: string, header: GgufHeader, sampleable: number): Promise<NativeModelConfig> {
  const m = metadataFields(file, header.metadata);
  const arch = architecture(file, m.string('general.architecture'));
  const key = (name: string) => `${arch}.${name}`;
  if (m.number(key('expert_count'), { min: 0, max: 1e6 }, 0) > 0) throw unsupported(file, 'mixture of experts');
  if (m.number(key('attention.sliding_window'), { min: 0, max: 1e9 }, 0) > 0)
    throw unsupported(file, 'sliding-window attention');
  const hidden = m.integer(key('embedding_length'), LIMITS.width);
  const heads = m.integer(key('attention.head_count'), LIMITS.heads);
  const headDim = m.integer(key('attention.key_length'), LIMITS.headDim, hidden / heads);
  requireEqual(m, key('attention.value_length'), headDim, 'value heads of another width than key heads');
  requireEqual(m, key('rope.dimension_count'), headDim, 'rotary embedding over a part of the head');
  const scaling = (await scalingFromFactors(file, header, m, key, headDim)) ?? scalingFromMetadata(m, key);
  const config: NativeModelConfig = {
    arch,
    vocab: embeddingRows(file, header),
    sampleable,
    hidden,
    layers: m.integer(key('block_count'), LIMITS.layers),
    heads,
    kvHeads: m.integer(key('attention.head_count_kv'), LIMITS.heads, heads),
    headDim,
    ffn: m.integer(key('feed_forward_length'), LIMITS.ffn),
    normEps: m.number(key('attention.layer_norm_rms_epsilon'), LIMITS.eps),
    ropeTheta: m.number(key('rope.freq_base'), LIMITS.theta, 10_000),
    ropeScaling: scaling,
    tiedHead: !header.tensors.has('output.weight'),
    qkvBias: header.tensors.has('blk.0.attn_q.bias'),
    qkNorm: header.tensors.has('blk.0.attn_q_norm.weight'),
    context: scaledContext(m.integer(key('context_length'), LIMITS.context), scaling),
  };
  checkConfig(file, config);
  return config;
}

function requireEqual(m: Fields, key: string, expected: number, otherwise: string): void {
  if (m.number(key, { min: 0, max: 1e9 }, expected) !== expected)
    throw unsupported(m.file, `${otherwise} (${key} ${show(m.get(key))})`);
}

function embeddingRows(file: string, header: GgufHeader): number {
  const rows = header.tensors.get('token_embd.weight')?.shape[0];
  if (rows === undefined) throw fileError(file, 'tensor "token_embd.weight" is missing');
  return rows;
}

function scalingFromMetadata(m: Fields, key: (name: string) => string): RopeScaling | null {
  const kind = m.string(key('rope.scaling.type'), 'none');
  if (kind === 'none') return null;
  const factor = m.number(key('rope.scaling.factor'), LIMITS.factor);
  if (kind === 'linear') return { kind, factor };
  if (kind !== 'yarn') throw unsupported(m.file, `rope scaling ${show(kind)}; supported are none, linear, yarn`);
  return {
    kind,
    factor,
    originalContext: m.integer(
      key('rope.scaling.original_context_length'),
      LIMITS.context,
      m.integer(key('context_length'), LIMITS.context),
    ),
    attentionFactor:
      m.number(key('rope.scaling.attn_factor'), LIMITS.factor, 1) * (factor <= 1 ? 1 : 0.1 * Math.log(factor) + 1),
    betaFast: m.number(key('rope.scaling.yarn_beta_fast'), LIMITS.factor, 32),
    betaSlow: m.number(key('rope.scaling.yarn_beta_slow'), LIMITS.factor, 1),
  };
}

/** The parameters Llama 3.1 (8) and 3.2 (32) were released with. */
const LLAMA3 = { lowFreqFactor: 1, highFreqFactor: 4, originalContext: 8192 };
const LLAMA3_FACTORS = [8, 32, 16, 4, 2];

/**
 * GGUF keeps Llama 3's rope scaling only as its result, `rope_freqs.weight` [E/2] (what each frequency is divided by). The known
 * parameter sets are tried; one must give these numbers, else the file is refused rather than computed wrongly.
 */
async function scalingFromFactors(
  file: string,
  header: GgufHeader,
  m: Fields,
  key: (name: string) => string,
  headDim: number,
): Promise<RopeScaling | null> {
  const tensor = header.tensors.get('rope_freqs.weight');
  if (tensor === undefined) return null;
  if (tensor.type !== F32 || tensor.bytes !== headDim * 2)
    throw fileError(file, `"rope_freqs.weight" must be ${headDim / 2} F32 values`);
  const factors = await readTensorValues(tensor);
  const theta = m.number(key('rope.freq_base'), LIMITS.theta, 10_000);
  for (const factor of LLAMA3_FACTORS) {
    const scaling: RopeScaling = { kind: 'llama3', factor, ...LLAMA3 };
    const expected = llama3Divisors(theta, headDim, factor);
    if (expected.every((value, i) => Math.abs(value - factors[i]!) <= 1e-3 * value)) return scaling;
  }
  throw unsupported(file, 'rotary factors ("rope_freqs.weight") of no known Llama 3 model');
}

/** Llama 3's scaling: long wavelengths are divided by `factor`, short ones kept, smooth in between (transformers: _compute_llama3_parameters). */
function llama3Divisors(theta: number, headDim: number, factor: number): number[] {
  const { lowFreqFactor: low, highFreqFactor: high, originalContext } = LLAMA3;
  return Array.from({ length: headDim / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * theta ** ((2 * i) / headDim);
    if (wavelength < originalContext / high) return 1;
    if (wavelength > originalContext / low) return factor;
    const smooth = (originalContext / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

const GLOBAL_NAMES: Readonly<Record<string, string>> = {
  'token_embd.weight': 'model.embed_tokens.weight',
  'output_norm.weight': 'model.norm.weight',
  'output.weight': 'lm_head.weight',
};
const LAYER_NAMES: Readonly<Record<string, string>> = {
  attn_norm: 'input_layernorm',
  ffn_norm: 'post_attention_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  attn_q_norm: 'self_attn.q_norm',
  attn_k_norm: 'self_attn.k_norm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
};

/** The Hugging Face name of a GGUF tensor; a name we do not know is returned unchanged (and refused by matchTensors). */
export function huggingFaceName(name: string): string {
  const global = Object.hasOwn(GLOBAL_NAMES, name) ? GLOBAL_NAMES[name] : undefined;
  if (global !== undefined) return global;
  const [, layer, part, kind] = /^blk\.(\d+)\.(\w+)\.(weight|bias)$/.exec(name) ?? [];
  const inLayer = part !== undefined && Object.hasOwn(LAYER_NAMES, part) ? LAYER_NAMES[part] : undefined;
  return inLayer === undefined ? name : `model.layers.${layer}.${inLayer}.${kind}`;
}

/** The model's tensors under their Hugging Face names. llama.cpp's converter permutes q and k rows for the llama architecture only. */
export function tensorsFromGguf(file: string, header: GgufHeader, config: NativeModelConfig): NativeTensor[] {
  const renamed = new Map<string, NativeTensor>();
  for (const [ggufName, tensor] of header.tensors) {
    if (ggufName === 'rope_freqs.weight') continue; // read by scalingFromFactors
    const name = huggingFaceName(ggufName);
    renamed.set(name, { ...tensor, name, unpermuteHeads: permutedHeads(name, config) });
  }
  return matchTensors(file, config, renamed);
}

function permutedHeads(name: string, config: NativeModelConfig): number {
  if (config.arch !== 'llama') return 0;
  if (name.includes('.self_attn.q_proj.')) return config.heads;
  if (name.includes('.self_attn.k_proj.')) return config.kvHeads;
  return 0;
}
