/** Hugging Face config.json ⇄ NativeModelConfig. What the kernels cannot compute is refused by name, never approximated. */
import type { NativeModelConfig } from '../native-types.js';
import { Fields, fileError, show, unsupported } from './reading.js';

type Arch = NativeModelConfig['arch'];
type RopeScaling = NonNullable<NativeModelConfig['ropeScaling']>;

const ARCHITECTURES: Readonly<Record<string, Arch>> = { llama: 'llama', qwen2: 'qwen2', qwen3: 'qwen3' };
const CLASS_NAMES: Readonly<Record<Arch, string>> = {
  llama: 'LlamaForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
};

/** Far above any model that fits this code; a damaged number beyond them is caught here. */
export const LIMITS = {
  vocab: { min: 1, max: 4_194_304 },
  width: { min: 1, max: 131_072 },
  layers: { min: 1, max: 1024 },
  heads: { min: 1, max: 1024 },
  headDim: { min: 2, max: 1024 },
  ffn: { min: 1, max: 1_048_576 },
  context: { min: 1, max: 16_777_216 },
  eps: { min: 0, max: 1 },
  theta: { min: 1, max: 1e12 },
  factor: { min: 1e-3, max: 1e6 },
} as const;

export function architecture(file: string, name: string): Arch {
  const arch = Object.hasOwn(ARCHITECTURES, name) ? ARCHITECTURES[name] : undefined;
  if (arch === undefined)
    throw unsupported(file, `architecture ${show(name)}; supported are ${Object.keys(ARCHITECTURES).join(', ')}`);
  return arch;
}

/** @param sampleable ids the tokenizer knows; heads are often padded to more rows */
export function configFromHuggingFace(file: string, json: unknown, sampleable: number): NativeModelConfig {
  const c = Fields.of(file, json);
  const arch = architecture(file, c.string('model_type'));
  refuseWhatIsNotComputed(c, arch);
  const hidden = c.integer('hidden_size', LIMITS.width);
  const heads = c.integer('num_attention_heads', LIMITS.heads);
  const scaling = ropeScaling(c);
  const config: NativeModelConfig = {
    arch,
    vocab: c.integer('vocab_size', LIMITS.vocab),
    sampleable,
    hidden,
    layers: c.integer('num_hidden_layers', LIMITS.layers),
    heads,
    kvHeads: c.integer('num_key_value_heads', LIMITS.heads, heads),
    // Qwen3's default differs from hidden / heads (transformers: Qwen3Config.head_dim)
    headDim: c.integer('head_dim', LIMITS.headDim, arch === 'qwen3' ? 128 : hidden / heads),
    ffn: c.integer('intermediate_size', LIMITS.ffn),
    normEps: c.number('rms_norm_eps', LIMITS.eps, 1e-6),
    ropeTheta: ropeFields(c).number('rope_theta', LIMITS.theta, c.number('rope_theta', LIMITS.theta, 10_000)),
    ropeScaling: scaling,
    tiedHead: c.boolean('tie_word_embeddings', false),
    qkvBias: arch === 'qwen2',
    qkNorm: arch === 'qwen3',
    context: scaledContext(c.integer('max_position_embeddings', LIMITS.context, 2048), scaling),
  };
  checkConfig(file, config);
  return config;
}

/** Relations between values that both file formats must keep. */
export function checkConfig(file: string, c: NativeModelConfig): void {
  if (c.heads % c.kvHeads !== 0)
    throw fileError(file, `${c.heads} query heads cannot share ${c.kvHeads} key/value heads evenly`);
  if (c.headDim % 2 !== 0) throw fileError(file, `the head width ${c.headDim} must be even (rotary pairs)`);
  if (c.sampleable > c.vocab)
    throw fileError(file, `the tokenizer has ${c.sampleable} ids, the embedding only ${c.vocab} rows`);
}

function refuseWhatIsNotComputed(c: Fields, arch: Arch): void {
  const refuse = (what: string) => unsupported(c.file, what);
  if (c.has('quantization_config'))
    throw refuse('quantised weights (quantization_config); use the plain model or a GGUF file');
  const activation = c.string('hidden_act', 'silu');
  if (activation !== 'silu') throw refuse(`activation ${show(activation)}; supported is "silu"`);
  if (arch !== 'qwen2' && c.boolean('attention_bias', false)) throw refuse(`attention_bias in ${arch}`);
  if (c.boolean('mlp_bias', false)) throw refuse('mlp_bias');
  if (c.number('partial_rotary_factor', { min: 0, max: 1 }, 1) !== 1)
    throw refuse('partial_rotary_factor other than 1');
  if (c.boolean('use_sliding_window', false)) throw refuse('sliding-window attention (use_sliding_window)');
  const kinds = c.get('layer_types');
  if (Array.isArray(kinds)) {
    const other = kinds.find((kind) => kind !== 'full_attention');
    if (other !== undefined) throw refuse(`layers of type ${show(other)}; supported is "full_attention"`);
  }
}

/** transformers 5 writes rope_parameters (theta inside), earlier versions rope_scaling. */
function ropeFields(c: Fields): Fields {
  return c.object('rope_parameters') ?? c.object('rope_scaling') ?? Fields.of(c.file, {});
}

function ropeScaling(c: Fields): RopeScaling | null {
  const r = ropeFields(c);
  // "type" is the name before transformers 4.43
  const kind = r.string('rope_type', r.string('type', 'default'));
  switch (kind) {
    case 'default':
      return null;
    case 'linear':
      return { kind, factor: r.number('factor', LIMITS.factor) };
    case 'llama3':
      return {
        kind,
        factor: r.number('factor', LIMITS.factor),
        lowFreqFactor: r.number('low_freq_factor', LIMITS.factor),
        highFreqFactor: r.number('high_freq_factor', LIMITS.factor),
        originalContext: r.integer('original_max_position_embeddings', LIMITS.context),
      };
    case 'yarn':
      return yarn(c, r);
    default:
      throw unsupported(c.file, `rope scaling ${show(kind)}; supported are default, linear, llama3, yarn`);
  }
}

function yarn(c: Fields, r: Fields): RopeScaling {
  for (const key of ['mscale', 'mscale_all_dim'])
    if (r.has(key)) throw unsupported(c.file, `rope scaling "yarn" with ${key}`);
  if (!r.boolean('truncate', true)) throw unsupported(c.file, 'rope scaling "yarn" with truncate false');
  const factor = r.number('factor', LIMITS.factor);
  return {
    kind: 'yarn',
    factor,
    originalContext: r.integer(
      'original_max_position_embeddings',
      LIMITS.context,
      c.integer('max_position_embeddings', LIMITS.context, 2048),
    ),
    // YaRN, Peng et al. 2023, eq. 22: sqrt(1/t) = 0.1 ln(s) + 1
    attentionFactor: r.number('attention_factor', LIMITS.factor, factor <= 1 ? 1 : 0.1 * Math.log(factor) + 1),
    betaFast: r.number('beta_fast', LIMITS.factor, 32),
    betaSlow: r.number('beta_slow', LIMITS.factor, 1),
  };
}

/** Configs of linear and yarn models may state the length before scaling; llama3 configs state the length after it. */
export function scaledContext(stated: number, scaling: RopeScaling | null): number {
  if (scaling === null || scaling.kind === 'llama3' || scaling.kind === 'none') return stated;
  return Math.max(stated, Math.floor((scaling.originalContext ?? stated) * scaling.factor));
}

/** Inverse of scaledContext. */
function statedContext(c: NativeModelConfig): number {
  return c.ropeScaling?.kind === 'linear' ? Math.ceil(c.context / c.ropeScaling.factor) : c.context;
}

/** The config.json of a native model: what transformers and configFromHuggingFace read back. */
export function configToHuggingFace(
  c: NativeModelConfig,
  dtype: 'f32' | 'bf16',
  ids: { bos: number | null; eos: readonly number[] },
): Record<string, unknown> {
  const eos = ids.eos.length === 1 ? ids.eos[0] : [...ids.eos];
  return {
    architectures: [CLASS_NAMES[c.arch]],
    model_type: c.arch,
    vocab_size: c.vocab,
    hidden_size: c.hidden,
    intermediate_size: c.ffn,
    num_hidden_layers: c.layers,
    num_attention_heads: c.heads,
    num_key_value_heads: c.kvHeads,
    head_dim: c.headDim,
    hidden_act: 'silu',
    max_position_embeddings: statedContext(c),
    rms_norm_eps: c.normEps,
    rope_theta: c.ropeTheta,
    rope_scaling: scalingToHuggingFace(c.ropeScaling),
    tie_word_embeddings: c.tiedHead,
    ...(c.arch === 'qwen2' ? { use_sliding_window: false } : { attention_bias: false }),
    ...(ids.bos === null ? {} : { bos_token_id: ids.bos }),
    ...(ids.eos.length === 0 ? {} : { eos_token_id: eos }),
    torch_dtype: dtype === 'f32' ? 'float32' : 'bfloat16',
  };
}

function scalingToHuggingFace(s: NativeModelConfig['ropeScaling']): Record<string, unknown> | null {
  if (s === null || s.kind === 'none') return null;
  const all = {
    rope_type: s.kind,
    factor: s.factor,
    low_freq_factor: s.kind === 'llama3' ? s.lowFreqFactor : undefined,
    high_freq_factor: s.kind === 'llama3' ? s.highFreqFactor : undefined,
    original_max_position_embeddings: s.kind === 'linear' ? undefined : s.originalContext,
    attention_factor: s.kind === 'yarn' ? s.attentionFactor : undefined,
    beta_fast: s.kind === 'yarn' ? s.betaFast : undefined,
    beta_slow: s.kind === 'yarn' ? s.betaSlow : undefined,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}
