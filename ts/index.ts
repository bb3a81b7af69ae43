/**
 * openclaw-rl: an OpenAI-compatible endpoint whose policy learns from what people say next.
 *
 * `createRuntime(config)` is the whole, to run by itself or inside a server of yours; `openPolicy(path)` the policy alone;
 * `IngestClient` reports turns of a model that runs elsewhere; the kernels are at `openclaw-rl/kernels`, too.
 */
export { type Config, loadConfig, type PartialConfig, parseConfig } from './config.js';
export * as kernels from './kernels/index.js';
export { createRuntime, type Runtime, type RuntimeOptions } from './loop.js';
export {
  type AdapterState,
  createPolicy,
  type GenerateOptions,
  type GenerateSampling,
  type Generation,
  NativePolicy,
  type OpenPolicyOptions,
  openPolicy,
  readAdapter,
  type ScoreOptions,
  writeAdapter,
} from './policy/index.js';
export * from './record/index.js';
export {
  type ClientFrameBody,
  IngestClient,
  type IngestClientOptions,
  type Listening,
  type ServerFrame,
} from './serve/index.js';
export type { TrainStatus } from './train/index.js';
