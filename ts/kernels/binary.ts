/** Which native binary runs here. */
import { type BinaryReport, report } from '../../lib/index.js';
import { type Code, OpenClawError } from '../record/errors.js';

export type { BinaryReport } from '../../lib/index.js';

/**
 * Which binary was loaded, from where, and which instruction set it uses; loads it if need be.
 *
 * @throws OpenClawError E_NO_BINARY, with what was tried and what to run.
 */
export function binaryReport(): BinaryReport {
  try {
    return report();
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error)) throw error;
    throw new OpenClawError(error.code as Code, error.message, undefined, { cause: error });
  }
}
