/**
 * The door to the native binary: what it exports, typed. Only ts/kernels and ts/policy/native may import this.
 * A test compares these names with the binary's keys.
 */

export interface BinaryReport {
  /** file that was loaded */ path: string;
  /** why this one: "prebuilds/linux-x64", "build/Release" … */ source: string;
  /** instruction set in use: v2 | v3 | v4 | neon */ isa: string;
  napi: number;
  node: string;
  /** files that were tried before it and could not be loaded, with the loader's reason */ passedOver: Array<{
    path: string;
    why: string;
  }>;
}

/** Says which binary was loaded, from where and why. Throws E_NO_BINARY with what to run when there is none. */
export function report(): BinaryReport;
/** The raw binary. */
export const binary: NativeBinary;

export type NativeDtype = 'f32' | 'bf16';
export interface NativeModelConfig {
  arch: 'llama' | 'qwen2' | 'qwen3';
  vocab: number;
  sampleable: number;
  hidden: number;
  layers: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  ffn: number;
  normEps: number;
  ropeTheta: number;
  ropeScaling: {
    kind: 'none' | 'linear' | 'llama3' | 'yarn';
    factor: number;
    lowFreqFactor?: number;
    highFreqFactor?: number;
    originalContext?: number;
    attentionFactor?: number;
    betaFast?: number;
    betaSlow?: number;
  } | null;
  tiedHead: boolean;
  qkvBias: boolean;
  qkNorm: boolean;
  context: number;
}
export interface NativeTensor {
  /** Hugging Face name */ name: string;
  /** GGML type number (F32 0, F16 1, BF16 30, Q8_0 8 …) */ type: number;
  shape: number[];
  file: string;
  offset: number;
  bytes: number;
  /** > 0: rows of each head are in neighbouring-pair order and are put into halves */ unpermuteHeads: number;
}
export interface NativeAdapter {
  rank: number;
  alpha: number /** "layers.3.q_proj.A" [rank,in], "….B" [out,rank] */;
  tensors: Record<string, Float32Array>;
}

export interface NativeGenerateRequest {
  ids: Int32Array;
  maxTokens: number;
  temperature: number;
  topP: number;
  topK: number;
  seed: number;
  /** ids that end the reply; the end id is part of the reply */ stopIds: Int32Array;
  /** ms from now; 0: none */ deadlineMs: number;
}
export interface NativeGenerated {
  ids: Int32Array;
  /** full softmax at temperature 1 over all rows of the head, whatever the sampling parameters */ logprobs: Float32Array;
  finish: 'stop' | 'length' | 'abort' | 'deadline';
  version: string;
  /** prompt tokens whose keys and values an earlier request had computed */ cachedTokens: number;
  /** from submission to the first token; NaN when none came */ msToFirst: number;
  /** from submission to the end */ ms: number;
}
export interface NativeGeneration {
  done: Promise<NativeGenerated>;
  abort(): void;
}

export interface NativeScoreRequest {
  ids: Int32Array /** first scored position: log p(ids[i]) for i >= from, from >= 1 */;
  from: number;
  topK: number /** [R*g] ids whose log-probs are wanted at each of the R = ids.length - from positions, or null */;
  gather: Int32Array | null /** 'live', 'base', or a version still held */;
  version: string /** which lane does the work */;
  lane: 'serve' | 'train';
}
export interface NativeScored {
  /** [R] */ logprobs: Float32Array /** [R] */;
  entropy: Float32Array /** [R*topK] */;
  topIds: Int32Array /** [R*topK] */;
  topLogprobs: Float32Array /** [R*g] or null */;
  gathered: Float32Array | null;
  version: string;
}

export interface NativeSequenceLoss {
  from: number;
  mask?: Float32Array;
  /** weight of the mean cross-entropy */ ce?: number;
  advantage?: Float32Array;
  oldLogprob?: Float32Array;
  wRl?: number;
  k?: number;
  topIds?: Int32Array;
  topOld?: Float32Array;
  topTeacher?: Float32Array;
  wOpd?: number;
  refLogprob?: Float32Array;
  beta?: number;
  wAnchor?: number;
  epsLow?: number;
  epsHigh?: number;
  deltaClip?: number;
}
export interface NativeLossReport {
  loss: number;
  ce: number;
  rl: number;
  opd: number;
  k3: number;
  anchor: number;
  tokens: number;
  ratioClippedLow: number;
  ratioClippedHigh: number;
  deltaClipped: number;
  topEntries: number;
  exponentClamped: number;
  meanRatio: number;
  entropy: number /** per sequence [R], when asked */;
  curLogprobs?: Float32Array[];
}
export interface NativeStepReport {
  gradNorm: number;
  skipped: boolean;
}
export interface NativeTrainOptions {
  full?: boolean;
  rank?: number;
  alpha?: number;
  targets?: string[];
  firstLayer?: number;
  seed?: number;
  activationBytes?: number;
}

export interface NativeBatch {
  dispose(): void;
  readonly sequences: number;
  readonly tokens: number;
}
/** All work runs on the train lane, one call at a time in call order. */
export interface NativeTrainer {
  prepare(sequences: Int32Array[]): Promise<NativeBatch>;
  forwardBackward(
    batch: NativeBatch,
    losses: Array<NativeSequenceLoss | null>,
    options?: { curLogprobs?: boolean },
  ): Promise<NativeLossReport>;
  optimStep(h: {
    lr: number;
    beta1: number;
    beta2: number;
    eps: number;
    weightDecay: number;
    maxGradNorm: number;
    stopNorm?: number;
  }): Promise<NativeStepReport>;
  zeroGrad(): Promise<void>;
  /** Makes the parameters as they are now the live version of the policy. Requests under way keep theirs. */
  publish(version: string): Promise<void>;
  exportState(
    moments: boolean,
  ): Promise<{ step: number; rank: number; alpha: number; tensors: Record<string, Float32Array> }>;
  importState(state: { step: number; tensors: Record<string, Float32Array> }): Promise<void>;
  exportGradients(): Promise<Record<string, Float32Array>>;
  dispose(): void;
}
export interface NativePolicyStats {
  inFlight: number;
  waiting: number;
  live: string;
  versionsHeld: string[];
  kvBytes: number;
  kvBytesLimit: number;
  weightBytes: number;
  cachedTokens: number;
  generatedTokens: number;
  promptTokens: number;
  trainYields: number;
}
export interface NativePolicy {
  generate(
    request: NativeGenerateRequest,
    onTokens: (ids: Int32Array, logprobs: Float32Array) => void,
  ): NativeGeneration;
  score(request: NativeScoreRequest): Promise<NativeScored>;
  trainer(options: NativeTrainOptions): NativeTrainer;
  /** Adds an adapter as the live version (null: the base weights). */
  setAdapter(adapter: NativeAdapter | null, version: string): Promise<void>;
  /** Every parameter as stored, for writing a Hugging Face folder; `version` 'live' or 'base'. Full-parameter versions differ from base. */
  exportWeights(
    version: string,
    dtype: NativeDtype,
  ): Promise<Array<{ name: string; shape: number[]; data: Float32Array | Uint16Array }>>;
  stats(): NativePolicyStats;
  /** Aborts what is in flight, waits for the threads. A second call returns the same promise. */
  close(): Promise<void>;
}
export interface NativePolicyOptions {
  dtype: NativeDtype;
  threads: number;
  kvBytes: number;
  maxInFlight: number;
  maxWaiting: number;
  version: string;
  adapter?: NativeAdapter;
}

export interface NativeBinary {
  isa(): string;
  openPolicy(config: NativeModelConfig, tensors: NativeTensor[], options: NativePolicyOptions): Promise<NativePolicy>;
  /** A model with random weights, for making models. */
  randomPolicy(
    config: NativeModelConfig,
    init: { seed: number; std: number },
    options: NativePolicyOptions,
  ): Promise<NativePolicy>;
  /** For tests of the dequantisers. */
  dequantize(type: number, blocks: Uint8Array, values: number): Float32Array;
  kernels: NativeKernels;
}
/** Filled by the kernels' own file: each entry sync and async (name + "Async"). Typed in lib/kernels.d.ts. */
export type NativeKernels = import('./kernels.d.ts').NativeKernels;
