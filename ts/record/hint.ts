import type { Message } from './turn.js';

/** Stands between the user's words and the hint (s_t ⊕ h); fixed, so that every teacher prompt has the same form. */
export const HINT_TAG = "\n\n[user's hint / instruction]\n";

/**
 * The teacher's conversation: the hint appended to the last user message. The messages given are not changed.
 * A conversation without a user message gets the hint as one.
 */
export function withHint(messages: readonly Message[], hint: string): Message[] {
  const at = messages.findLastIndex((m) => m.role === 'user');
  if (at < 0) return [...messages, { role: 'user', content: HINT_TAG.trimStart() + hint }];
  return messages.map((m, i) => (i === at ? { ...m, content: (m.content ?? '') + HINT_TAG + hint } : m));
}
