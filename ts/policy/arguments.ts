/** Checks at the policy's door: the message names the argument, what was expected and what came. */
import { OpenClawError, type Sampling } from '../record/index.js';
import { show } from './files/reading.js';

export function checkIds(ids: Int32Array, argument: string, limits: { vocab: number; context: number }): void {
  if (!(ids instanceof Int32Array) || ids.length === 0)
    throw new OpenClawError('E_ARGUMENT', `${argument} must be a non-empty Int32Array`, argument);
  if (ids.length > limits.context) {
    throw new OpenClawError(
      'E_CONTEXT',
      `${argument} has ${ids.length} tokens, the context holds ${limits.context}`,
      argument,
    );
  }
  checkIdRange(ids, argument, limits.vocab);
}

export function checkIdRange(ids: Int32Array, argument: string, vocab: number): void {
  const bad = ids.findIndex((id) => id < 0 || id >= vocab);
  if (bad >= 0)
    throw new OpenClawError('E_TOKEN_ID', `${argument}[${bad}] is ${ids[bad]}, expected 0 to ${vocab - 1}`, argument);
}

export function checkSampling(sampling: Omit<Sampling, 'stop'>): void {
  const { temperature, topP, topK, maxTokens, seed } = sampling;
  requireNumber('temperature', temperature, temperature >= 0 && temperature <= 2, 'from 0 to 2');
  requireNumber('topP', topP, topP > 0 && topP <= 1, 'above 0, at most 1');
  requireNumber('topK', topK, Number.isInteger(topK) && topK >= 0, 'a whole number >= 0');
  requireNumber('maxTokens', maxTokens, Number.isInteger(maxTokens) && maxTokens >= 1, 'a whole number >= 1');
  if (seed !== null)
    requireNumber('seed', seed, Number.isSafeInteger(seed) && seed >= 0, 'null or a whole number >= 0');
}

export function requireNumber(argument: string, value: unknown, good: boolean, expected: string): void {
  if (typeof value !== 'number' || !good)
    throw new OpenClawError('E_ARGUMENT', `${argument} must be ${expected}, it is ${show(value)}`, argument);
}
