/** Did a tool succeed? By its exit code, its own flag, then the way failures are commonly written. */
import type { NextState } from '../../record/index.js';

type Item = NextState['items'][number];

const EXIT_CODE = /\b(?:exit(?:ed)?(?:[ _-]?(?:with|code|status))*|exitCode|returncode)["']?\s*[:= ]\s*(-?\d+)\b/i;
const OPENS_AS_ERROR =
  /^\s*(?:\[?(?:error|fatal|panic|exception|failed|failure)\b\]?\s*(?:[:!(-]|$)|traceback \(most recent call last\)|\w*(?:error|exception):\s)/i;
/** what shells say; only where it is all that was said */
const SHELL_ERROR = /\b(?:command not found|no such file or directory|permission denied|operation not permitted)\b/i;
const SHORT = 300;
/** characters of JSON that are parsed; the event loop waits for it */
const MAX_JSON = 200_000;

/** null: this item is no tool result, or says nothing about success */
export function toolScore(item: Item): 1 | -1 | null {
  if (item.role === 'user') return null;
  if (isToolError(item)) return -1;
  return item.role === 'tool' || item.exitCode === 0 || item.isError === false ? 1 : null;
}

export function isToolError(item: Item): boolean {
  if (item.role === 'user') return false;
  if (item.exitCode !== undefined) return item.exitCode !== 0;
  if (item.isError !== undefined) return item.isError;
  return exitCodeIn(item.text) ?? jsonFailure(item.text) ?? readsAsError(item.text);
}

/** null: no exit code in the last lines or the first */
function exitCodeIn(text: string): boolean | null {
  const lines = text.trim().split('\n');
  const code = [lines[0], ...lines.slice(-2)]
    .map((line) => line?.match(EXIT_CODE)?.[1])
    .find((found) => found !== undefined);
  return code === undefined ? null : Number(code) !== 0;
}

/** null: not JSON, or JSON that does not say */
function jsonFailure(text: string): boolean | null {
  if (text.length > MAX_JSON || !text.trimStart().startsWith('{')) return null;
  try {
    const { error, isError, success, ok, status } = JSON.parse(text) as Record<string, unknown>;
    if (isError === true || success === false || ok === false) return true;
    if (typeof status === 'string' && /^(?:error|failed|failure)$/i.test(status)) return true;
    if (error !== undefined && error !== null && error !== false && error !== '') return true;
    return isError === false || success === true || ok === true ? false : null;
  } catch {
    return null;
  }
}

function readsAsError(text: string): boolean {
  return OPENS_AS_ERROR.test(text) || (text.length <= SHORT && SHELL_ERROR.test(text));
}
