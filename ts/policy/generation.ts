/**
 * One generation as JavaScript sees it: tokens by `for await`, the whole by `result`.
 *
 * The buffer between the native thread and the reader is bounded by the request's own maxTokens: a reader that lags, or never reads, holds
 * at most one reply. A reader that leaves its loop early aborts the generation.
 */

import { OpenClawError } from '../record/index.js';
import { toOpenClawError } from './native-error.js';
import type { NativeGenerated, NativeGeneration } from './native-types.js';

export interface TokenPiece {
  ids: Int32Array;
  /** natural log, full softmax at temperature 1, for exactly these ids */ logprobs: Float32Array;
}

export interface GenerationResult extends NativeGenerated {
  /** the reply's text without special tokens */ text: string;
  /** the seed that was used, also when it was drawn */ seed: number;
}

export interface Generation extends AsyncIterable<TokenPiece> {
  /** settles after the last token */ readonly result: Promise<GenerationResult>;
  /** stops at the next token; the result then has finish "abort". No effect once it is over. */ abort(): void;
}

/** @param start starts the native generation with the given receiver of tokens */
export function runGeneration(
  start: (onTokens: (ids: Int32Array, logprobs: Float32Array) => void) => NativeGeneration,
  finishUp: (native: NativeGenerated) => GenerationResult,
  signal: AbortSignal | undefined,
): Generation {
  const pieces = new PieceQueue();
  const native = start((ids, logprobs) => pieces.add({ ids, logprobs }));
  const abort = () => native.abort();
  const result = native.done.then(finishUp, (error: unknown) => {
    throw toOpenClawError(error);
  });
  result
    .then(
      () => pieces.finish(null),
      (error: unknown) => pieces.finish(error),
    )
    .finally(() => signal?.removeEventListener('abort', abort));
  if (signal?.aborted) abort();
  else signal?.addEventListener('abort', abort, { once: true });
  return { result, abort, [Symbol.asyncIterator]: () => pieces.reader(abort) };
}

class PieceQueue {
  private readonly waiting: TokenPiece[] = [];
  private over = false;
  private error: unknown = null;
  private wake: (() => void) | null = null;
  private taken = false;

  add(piece: TokenPiece): void {
    this.waiting.push(piece);
    this.wake?.();
  }

  finish(error: unknown): void {
    this.over = true;
    this.error = error;
    this.wake?.();
  }

  reader(abort: () => void): AsyncIterator<TokenPiece> {
    if (this.taken)
      throw new OpenClawError('E_ARGUMENT', 'a generation can be read once; its result holds the whole reply');
    this.taken = true;
    return {
      next: () => this.next(),
      return: async () => {
        abort();
        return { done: true, value: undefined };
      },
    };
  }

  private async next(): Promise<IteratorResult<TokenPiece>> {
    while (this.waiting.length === 0 && !this.over) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
      this.wake = null;
    }
    const piece = this.waiting.shift();
    if (piece !== undefined) return { done: false, value: piece };
    if (this.error !== null) throw this.error;
    return { done: true, value: undefined };
  }
}
