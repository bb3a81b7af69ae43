/**
 * How the native kernels are called: errors come back as OpenClawError, with the code and the argument that the native side named and
 * the caller's stack, also from calls that ran off the main thread.
 */
import { binary } from '../../lib/index.js';
import type { NativeKernels } from '../../lib/kernels.js';
import { type Code, OpenClawError } from '../record/errors.js';

type Name = keyof NativeKernels;
type Options<N extends Name> = Parameters<NativeKernels[N]>[0];
type Result<N extends Name> = ReturnType<NativeKernels[N]>;

/** Calls a kernel; for the Async ones the promise is returned as it comes, use `settle`. */
export function call<N extends Name>(name: N, options: Options<N>): Result<N> {
  try {
    const kernel = binary.kernels[name] as (options: Options<N>) => Result<N>;
    return kernel(options);
  } catch (error) {
    throw translated(error);
  }
}

/** The same for a kernel that answers later. Never throws: every error is a rejection. */
export async function settle<N extends Extract<Name, `${string}Async`>>(
  name: N,
  options: Options<N>,
): Promise<Awaited<Result<N>>> {
  try {
    return await call(name, options);
  } catch (error) {
    throw translated(error);
  }
}

interface NativeError extends Error {
  code: Code;
  argument?: string;
}

function isNative(error: unknown): error is NativeError {
  return error instanceof Error && !(error instanceof OpenClawError) && typeof Reflect.get(error, 'code') === 'string';
}

function translated(error: unknown): unknown {
  if (!isNative(error)) return error;
  const own = new OpenClawError(error.code, error.message, error.argument, { cause: error });
  // The native error knows where the call began; this place only where the answer came in.
  const frames = error.stack?.indexOf('\n    at ') ?? -1;
  if (frames >= 0) own.stack = `${own.name}: ${own.message}${error.stack!.slice(frames)}`;
  return own;
}
