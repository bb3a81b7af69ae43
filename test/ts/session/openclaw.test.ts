/** Requests recorded from a real host are put into the right session, with the right next states. */
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Ledger } from '../../../ts/ledger/index.js';
import type { Message } from '../../../ts/record/index.js';
import { createSessions } from '../../../ts/session/index.js';
import { openInline, temporaryFolder } from '../ledger/make.js';
import { call, Talk } from './talk.js';

interface WireMessage {
  role: Message['role'];
  content: string | null | Array<{ type: string; text: string }>;
  tool_calls?: Message['toolCalls'];
  tool_call_id?: string;
}

/** What the door does: text parts joined, names in our spelling. */
function read(message: WireMessage): Message {
  const { role, content, tool_calls, tool_call_id } = message;
  return {
    role,
    content: Array.isArray(content) ? content.map((part) => part.text).join('') : content,
    ...(tool_calls ? { toolCalls: tool_calls } : {}),
    ...(tool_call_id ? { toolCallId: tool_call_id } : {}),
  };
}

function requests(name: string): Message[][] {
  const file = new URL(`../fixtures/openclaw/${name}.json`, import.meta.url);
  const recorded = JSON.parse(readFileSync(file, 'utf8')) as Array<{ body: { messages: WireMessage[] } }>;
  return recorded.map(({ body }) => body.messages.map(read));
}

/** Without the host's own line the session has to be found by its words alone. */
const unnamed = (messages: Message[]): Message[] =>
  messages.map((message) => ({ ...message, content: message.content?.replace(/\n\nRuntime: .*/, '') ?? null }));

let folder: string;
let remove: () => Promise<void>;
let ledger: Ledger;
beforeEach(async () => {
  ({ folder, remove } = await temporaryFolder());
  ledger = openInline(folder);
});
afterEach(async () => {
  await ledger.close();
  await remove();
});

const newTalk = (): Talk => new Talk(createSessions({ ledger, clock: () => 7000 }), ledger, () => 7000);

it.each([
  ['as sent', (m: Message[]) => m],
  ['without the host’s line', unnamed],
])('three turns of one session, %s', async (_name, edit) => {
  const talk = newTalk();
  const seen = [];
  for (const [i, messages] of requests('three-turns').entries()) {
    seen.push(
      await talk.turn(edit(messages), {
        text: `Hello, reply number ${i + 1}. `,
        responseIds: Int32Array.of(20 + i, 2),
      }),
    );
  }
  expect(new Set(seen.map((turn) => turn.sessionId)).size).toBe(1);
  expect(seen.map((turn) => [turn.how, turn.kind, turn.index])).toEqual([
    ['new', 'main', 0],
    ['chain', 'main', 1],
    ['chain', 'main', 2],
  ]);
  expect(seen.map((turn) => turn.next?.items)).toEqual([
    undefined,
    [{ role: 'user', text: 'please read the file hello.txt' }],
    [{ role: 'user', text: 'thanks, but do not use bold' }],
  ]);
  expect(seen.map((turn) => turn.observed)).toEqual([null, 'observed', 'observed']);
  expect(seen[2]!.pinned).toEqual(
    new Map([
      [2, Int32Array.of(20)],
      [4, Int32Array.of(21)],
    ]),
  );
});

it.each([
  ['as sent', (m: Message[]) => m],
  ['without the host’s line', unnamed],
])('a tool call and what follows, %s', async (_name, edit) => {
  const talk = newTalk();
  const [first, second, third] = requests('tool-call').map(edit);
  const one = await talk.turn(first!, {
    text: '',
    toolCalls: [call('call_1', 'read', '{"path": "hello.txt"}')],
    finish: 'tool',
  });
  const two = await talk.turn(second!, { text: 'Hello, reply number 2. ' });
  const three = await talk.turn(third!);
  expect([two.sessionId, three.sessionId]).toEqual([one.sessionId, one.sessionId]);
  expect(two.next).toEqual({
    turnId: one.turnId,
    items: [{ role: 'tool', text: 'hi there\n', toolCallId: 'call1' }],
    arrivedAt: 7000,
  });
  expect(three.next).toMatchObject({
    turnId: two.turnId,
    items: [{ role: 'user', text: 'great, now say it in one word' }],
  });
  expect([two.index, three.index]).toEqual([1, 2]);
});

it('two recorded sessions at once do not mix', async () => {
  const talk = newTalk();
  const [a, b] = [requests('three-turns'), requests('tool-call')];
  const a1 = await talk.turn(a[0]!, { text: 'Hello, reply number 1. ' });
  const b1 = await talk.turn(b[0]!, {
    text: '',
    toolCalls: [call('call_1', 'read', '{"path":"hello.txt"}')],
    finish: 'tool',
  });
  const a2 = await talk.turn(a[1]!);
  const b2 = await talk.turn(b[1]!);
  expect(a1.sessionId).not.toBe(b1.sessionId);
  expect([a2.sessionId, b2.sessionId]).toEqual([a1.sessionId, b1.sessionId]);
});
