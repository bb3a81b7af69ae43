/** Errors of the native code carry a code of our table; here they become OpenClawErrors. */
import { CODES, type Code, OpenClawError } from '../record/index.js';

export function toOpenClawError(error: unknown): OpenClawError {
  if (error instanceof OpenClawError) return error;
  const code = codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  return new OpenClawError(code, message, undefined, { cause: error });
}

function codeOf(error: unknown): Code {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return CODES.find((known) => known === code) ?? 'E_INTERNAL';
}

/** Runs a native call; whatever it throws or rejects with is an OpenClawError. */
export async function nativeCall<T>(call: () => T | Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw toOpenClawError(error);
  }
}

export function nativeCallSync<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw toOpenClawError(error);
  }
}
