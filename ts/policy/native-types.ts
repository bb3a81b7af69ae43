/** The shapes of the binary that this station speaks of. Types only: what touches the binary itself is native.ts. */
export type {
  NativeAdapter,
  NativeDtype,
  NativeGenerated,
  NativeGeneration,
  NativeModelConfig,
  NativePolicy as NativeHandle,
  NativePolicyOptions,
  NativePolicyStats,
  NativeScored,
  NativeTensor,
  NativeTrainer,
  NativeTrainOptions,
} from '../../lib/index.js';
