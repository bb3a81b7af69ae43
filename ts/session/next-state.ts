/** What came after a reply: every user message and tool result up to the next reply, as the person or tool said it. */
import { isTransient, type Message, type NextState, spokenWords } from '../record/index.js';

type Item = NextState['items'][number];

/** `after`: index of the reply; -1: all messages (a client that sends only what is new). Null: nothing was said. */
export function nextStateAfter(
  messages: readonly Message[],
  after: number,
  turnId: string,
  arrivedAt: number,
): NextState | null {
  const rest = messages.slice(after + 1);
  const end = rest.findIndex((message) => message.role === 'assistant');
  const items = (end < 0 ? rest : rest.slice(0, end)).flatMap(toItem);
  return items.length === 0 ? null : { turnId, items, arrivedAt };
}

function toItem(message: Message): Item[] {
  if (message.role === 'tool') {
    const { toolCallId } = message;
    return [{ role: 'tool', text: message.content ?? '', ...(toolCallId === undefined ? {} : { toolCallId }) }];
  }
  if (message.role !== 'user' || isTransient(message)) return [];
  const text = spokenWords(message);
  return text === '' ? [] : [{ role: 'user', text }];
}
