/**
 * Error codes and the error class every station throws. The E_* codes of the native code stand first, in the order of
 * native/base/error.h; a test compares the two lists.
 */
export const NATIVE_CODES = [
  'E_ARGUMENT',
  'E_SHAPE',
  'E_DTYPE',
  'E_NOT_FINITE',
  'E_TOKEN_ID',
  'E_CONTEXT',
  'E_FILE',
  'E_UNSUPPORTED',
  'E_DISPOSED',
  'E_BUSY',
  'E_ABORTED',
  'E_DEADLINE',
  'E_MEMORY',
  'E_INTERNAL',
] as const;

export const CODES = [
  ...NATIVE_CODES,
  /** the native binary could not be found or loaded */ 'E_NO_BINARY',
  /** the configuration is wrong; the message names the key */ 'E_CONFIG',
  /** the durable record refused or failed */ 'E_LEDGER',
  /** an outside service (judge, engine) failed */ 'E_REMOTE',
  /** the caller may not do this */ 'E_FORBIDDEN',
  /** the thing asked for does not exist */ 'E_NOT_FOUND',
] as const;

export type Code = (typeof CODES)[number];

/** An error with a code from the table above. `argument` names the field at fault where there is one. */
export class OpenClawError extends Error {
  override readonly name = 'OpenClawError';
  constructor(
    readonly code: Code,
    message: string,
    readonly argument?: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
