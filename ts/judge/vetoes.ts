/**
 * Facts that overrule any opinion: a tool failed, or the same call was made again and brought the same. A judge that sees only
 * words has been known to praise both.
 */
import type { Message, NextState, ToolCall, Turn } from '../record/index.js';
import { isToolError } from './rules/tools.js';

export type Veto = 'tool-error' | 'repeated-call';

export function vetoesOf(turn: Turn, next: NextState): Veto[] {
  const vetoes: Veto[] = [];
  if (next.items.some(isToolError)) vetoes.push('tool-error');
  if (repeatsCall(turn, next)) vetoes.push('repeated-call');
  return vetoes;
}

const signature = (call: ToolCall): string => `${call.function.name} ${call.function.arguments.replace(/\s+/g, '')}`;
const sameId = (a: string | undefined, b: string): boolean => normal(a ?? '') === normal(b);
/** hosts rewrite ids: call_1 comes back as call1 */
const normal = (id: string): string => id.replace(/[^a-zA-Z0-9]/g, '').toLowerCase();

/** Twice in one reply, or once more since the user last spoke with the same outcome. Another outcome is polling, which is fine. */
function repeatsCall(turn: Turn, next: NextState): boolean {
  const seen = new Set<string>();
  for (const call of turn.toolCalls) {
    if (seen.has(signature(call))) return true;
    seen.add(signature(call));
  }
  const sinceUser = turn.messages.slice(turn.messages.findLastIndex((message) => message.role === 'user') + 1);
  return turn.toolCalls.some((call) => {
    const now = next.items.find((item) => sameId(item.toolCallId, call.id))?.text;
    return earlierOutcomes(sinceUser, signature(call)).some((before) => before === undefined || before === now);
  });
}

/** What the same call brought before; undefined where its result is not among the messages. */
function earlierOutcomes(messages: Message[], wanted: string): Array<string | undefined> {
  return messages.flatMap((message) =>
    (message.toolCalls ?? [])
      .filter((call) => signature(call) === wanted)
      .map((call) => messages.find((m) => m.role === 'tool' && sameId(m.toolCallId, call.id))?.content ?? undefined),
  );
}
