/** A policy of random weights, small enough that a test opens it in a millisecond. */
import { binary, type NativeGenerateRequest, type NativePolicy, type NativePolicyOptions } from '../../../lib/index.js';

export const tinyConfig = {
  arch: 'llama' as const,
  vocab: 97,
  sampleable: 90,
  hidden: 32,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  ffn: 48,
  normEps: 1e-5,
  ropeTheta: 10000,
  ropeScaling: null,
  tiedHead: true,
  qkvBias: false,
  qkNorm: false,
  context: 512,
};

export const tinyOptions: NativePolicyOptions = {
  dtype: 'f32',
  threads: 2,
  kvBytes: 1 << 22,
  maxInFlight: 16,
  maxWaiting: 256,
  version: 'v0',
};

export function tinyPolicy(options: Partial<NativePolicyOptions> = {}): Promise<NativePolicy> {
  return binary.randomPolicy(tinyConfig, { seed: 3, std: 0.3 }, { ...tinyOptions, ...options });
}

export function request(change: Partial<NativeGenerateRequest> = {}): NativeGenerateRequest {
  return {
    ids: Int32Array.of(5, 6, 7, 8),
    maxTokens: 16,
    temperature: 1,
    topP: 1,
    topK: 0,
    seed: 1,
    stopIds: new Int32Array(0),
    deadlineMs: 0,
    ...change,
  };
}

export const scoreRequest = {
  ids: Int32Array.of(5, 6, 7, 8),
  from: 1,
  topK: 0,
  gather: null,
  version: 'live',
  lane: 'serve' as const,
};

export const ignore = () => {};
