/**
 * The RL kernels: typed arrays in, typed arrays out, C++ in between. Every kernel comes twice: at once, for what takes less than about a
 * millisecond, and `…Async`, off the main thread. Lengths, element types and ranges are checked before any work; an
 * OpenClawError names what was wrong.
 *
 * @packageDocumentation
 */
export type * from '../../lib/kernels.js';
export { type BinaryReport, binaryReport } from './binary.js';
export * from './groups.js';
export * from './logits.js';
export * from './losses.js';
