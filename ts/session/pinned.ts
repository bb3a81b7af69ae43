/** The exact ids of earlier replies, so that a later prompt extends the earlier one token by token. */
import type { Message } from '../record/index.js';
import type { Reply } from './match.js';
import type { ChainTurn } from './ports.js';

const squash = (text: string): string => text.replace(/\s+/g, ' ').trim();

/** Index of an assistant message → ids of the reply without its end token. */
export function pinnedReplies(
  messages: readonly Message[],
  replies: readonly Reply[],
  turns: readonly ChainTurn[],
  stopIds: ReadonlySet<number> | null,
): Map<number, Int32Array> {
  const byPoint = new Map(turns.map((turn) => [turn.chain.strict, turn]));
  const pinned = new Map<number, Int32Array>();
  for (const { position, point } of replies) {
    const turn = byPoint.get(point.strict);
    if (turn === undefined || squash(turn.text) !== squash(messages[position]?.content ?? '')) continue;
    const ids = withoutEnd(turn, stopIds);
    if (ids !== null && ids.length > 0) pinned.set(position, ids);
  }
  return pinned;
}

/** Null: what the client got is not exactly what these ids say (cut at a stop text, or never finished). */
function withoutEnd(turn: ChainTurn, stopIds: ReadonlySet<number> | null): Int32Array | null {
  const { responseIds, finish } = turn;
  if (finish === 'abort') return null;
  if (finish === 'length') return responseIds;
  const last = responseIds.at(-1);
  const ended = stopIds === null ? !turn.stopTexts : last !== undefined && stopIds.has(last);
  return ended ? responseIds.subarray(0, -1) : null;
}
