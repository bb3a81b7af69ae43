/** Session inference: names, chains, side requests, isolation, restarts, bounds. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Ledger } from '../../../ts/ledger/index.js';
import { createSessions, type SessionOptions, type Sessions } from '../../../ts/session/index.js';
import { openInline, temporaryFolder } from '../ledger/make.js';
import { assistant, call, system, Talk, tool, user } from './talk.js';

let folder: string;
let remove: () => Promise<void>;
let ledger: Ledger;
let now: number;
let talk: Talk;

const sessions = (o: Partial<SessionOptions> = {}): Sessions => createSessions({ ledger, clock: () => now, ...o });

beforeEach(async () => {
  now = 1_000_000;
  ({ folder, remove } = await temporaryFolder());
  ledger = openInline(folder, () => now);
  talk = new Talk(sessions(), ledger, () => now);
});
afterEach(async () => {
  await ledger.close();
  await remove();
});

const HI = [user('hi')];
const REPLY = 'Hello there, my friend.';
const FOLLOWED = [...HI, assistant(REPLY), user('and now?')];

describe('names', () => {
  it('the header wins over the body; both over the messages', async () => {
    const header = await talk.turn(HI, {}, { headers: { 'x-session-id': 'h' }, body: { session_id: 'b' } });
    const body = await talk.turn(HI, {}, { body: { session_id: 'b', session_done: true } });
    expect([header.sessionId, header.how, header.done]).toEqual(['h', 'header', false]);
    expect([body.sessionId, body.how, body.done]).toEqual(['b', 'body', true]);
  });

  it.each(['1', 'true', 'YES', 'on'])('X-Session-Done: %s', async (value) => {
    expect((await talk.turn(HI, {}, { headers: { 'x-session-done': value } })).done).toBe(true);
  });

  it('X-Session-Done: 0 overrules the body', async () => {
    const turn = await talk.turn(HI, {}, { headers: { 'x-session-done': '0' }, body: { session_done: true } });
    expect(turn.done).toBe(false);
  });

  it('a client that sends only what is new still observes the turn before', async () => {
    const named = { headers: { 'x-session-id': 's' } };
    const first = await talk.turn(HI, {}, named);
    const second = await talk.turn([user('and now?')], {}, named);
    expect(second.next).toMatchObject({ turnId: first.turnId, items: [{ role: 'user', text: 'and now?' }] });
    expect(second.index).toBe(1);
  });

  it('the same prompt again in a named session is a retry, not an answer', async () => {
    const named = { headers: { 'x-session-id': 's' } };
    await talk.turn(HI, {}, named);
    expect((await talk.turn(HI, {}, named)).next).toBeNull();
  });

  it('names that would not fit a row are replaced, the same way each time', async () => {
    const long = 'x'.repeat(500);
    const a = await talk.turn(HI, {}, { headers: { 'x-session-id': long } });
    const b = await talk.turn(FOLLOWED, {}, { headers: { 'x-session-id': long } });
    expect(a.sessionId).toBe(b.sessionId);
    expect(a.sessionId.length).toBeLessThan(64);
  });
});

describe('chains', () => {
  it('a request that continues a talk belongs to it; a new one does not', async () => {
    const first = await talk.turn(HI);
    const second = await talk.turn(FOLLOWED);
    const other = await talk.turn(HI);
    expect(second).toMatchObject({ sessionId: first.sessionId, how: 'chain', index: 1, observed: 'observed' });
    expect(other.sessionId).not.toBe(first.sessionId);
    expect(other).toMatchObject({ how: 'new', next: null, index: 0 });
  });

  it.each([
    ['trimmed and re-wrapped', [user('hi'), assistant('Hello there,\n my friend. '), user('go on')]],
    ['cut short', [user('hi'), assistant('Hello there, my'), user('go on')]],
    ['with a word changed by a filter', [user('hi'), assistant('Hello there my friend!'), user('go on')]],
    ['stamped with another time', [user('[Mon 2026-11-30 22:21 UTC] hi'), assistant(REPLY), user('go on')]],
    [
      'under a system prompt that has a clock in it',
      [system('it is 12:31'), user('hi'), assistant(REPLY), user('go on')],
    ],
  ])('recognised although the history comes back %s', async (_how, messages) => {
    const first = await talk.turn([system('it is 12:30'), ...HI]);
    const second = await talk.turn(messages);
    expect(second).toMatchObject({ sessionId: first.sessionId, next: { turnId: first.turnId } });
  });

  it('a talk about something else with the same opening is another session', async () => {
    await talk.turn(HI);
    const other = await talk.turn([user('hi'), assistant('Good morning. What do you want from me?'), user('go on')]);
    expect(other).toMatchObject({ how: 'new', next: null });
  });

  it('an edited question branches off: same session, and the first answer stays', async () => {
    const first = await talk.turn(HI);
    await talk.turn(FOLLOWED);
    const branch = await talk.turn([...HI, assistant(REPLY), user('something else')]);
    expect(branch).toMatchObject({ sessionId: first.sessionId, observed: 'already' });
  });

  it('a reply by somebody else in between: what followed ours is ours', async () => {
    const first = await talk.turn(HI);
    const later = await talk.turn([
      ...HI,
      assistant(REPLY),
      user('thanks'),
      assistant('by another model'),
      user('more'),
    ]);
    expect(later.sessionId).toBe(first.sessionId);
    expect(later.next).toMatchObject({ turnId: first.turnId, items: [{ text: 'thanks' }] });
  });

  it('twins: the one that still waits is continued', async () => {
    const one = await talk.turn(HI);
    await talk.turn(FOLLOWED);
    now += 1;
    const two = await talk.turn(HI);
    const next = await talk.turn([...HI, assistant(REPLY), user('the second talk')]);
    expect(next.sessionId).toBe(two.sessionId);
    expect(next.sessionId).not.toBe(one.sessionId);
  });

  it('twins of two agents: the system prompt decides', async () => {
    const cook = await talk.turn([system('you cook'), ...HI]);
    now += 1;
    await talk.turn([system('you sing'), ...HI]);
    const next = await talk.turn([system('you cook'), ...FOLLOWED]);
    expect(next.sessionId).toBe(cook.sessionId);
  });

  it('all parallel tool results are the next state', async () => {
    const calls = [call('call_1', 'read', '{"a":1,"b":2}'), call('call_2', 'list', '{}')];
    const first = await talk.turn(HI, { text: '', toolCalls: calls, finish: 'tool' });
    const back = [call('call1', 'read', '{ "b": 2, "a": 1 }'), call('call2', 'list', '{}')];
    const second = await talk.turn([...HI, assistant(null, back), tool('one', 'call1'), tool('error: no', 'call2')]);
    expect(second.next).toMatchObject({
      turnId: first.turnId,
      items: [
        { role: 'tool', text: 'one', toolCallId: 'call1' },
        { role: 'tool', text: 'error: no', toolCallId: 'call2' },
      ],
    });
  });
});

describe('side requests', () => {
  const TITLE = user('Generate a concise, 3-5 word title for this conversation.');

  it('by header: no next state, and the talk goes on as if nothing happened', async () => {
    const first = await talk.turn(HI);
    const side = await talk.turn([...HI, assistant(REPLY), TITLE], {}, { headers: { 'x-turn-type': 'side' } });
    const next = await talk.turn(FOLLOWED);
    expect(side).toMatchObject({ kind: 'side', next: null, sessionId: first.sessionId });
    expect(next).toMatchObject({ sessionId: first.sessionId, index: 1, observed: 'observed' });
  });

  it.each([
    'Generate a concise, 3-5 word title for this conversation.',
    '### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history.\n<chat_history>\nUSER: hi\n</chat_history>',
    'Please provide a short title for the following chat:\nUser: hi\nAssistant: hello',
    'Summarize the conversation so far so that it can be continued.',
  ])('by its words: %s', async (words) => {
    expect((await talk.turn([user(words)])).kind).toBe('side');
  });

  it.each([
    'Write a title for my story about a fox.',
    'Summarize this article: the fox ran.',
    'What did we talk about in the last chat?',
    'Can you name three rivers?',
  ])('not: %s', async (words) => {
    expect((await talk.turn([user(words)])).kind).toBe('main');
  });

  it('X-Turn-Type: main overrules the words', async () => {
    expect((await talk.turn([TITLE], {}, { headers: { 'x-turn-type': 'main' } })).kind).toBe('main');
  });
});

describe('users', () => {
  it('never share a talk, whatever they say', async () => {
    const ann = await talk.turn(HI);
    const bob = await talk.turn(FOLLOWED, {}, { userId: 'bob' });
    expect(bob.sessionId).not.toBe(ann.sessionId);
    expect(bob).toMatchObject({ how: 'new', next: null });
  });

  it('never share a name either, at once or one after the other', async () => {
    const headers = { 'x-session-id': 'work' };
    const [ann, bob] = await Promise.all([
      talk.turn(HI, {}, { headers }),
      talk.turn(HI, {}, { headers, userId: 'bob' }),
    ]);
    expect([ann.sessionId, bob.sessionId].filter((id) => id === 'work')).toHaveLength(1);
    expect(bob.sessionId).not.toBe(ann.sessionId);
    talk.sessions = sessions();
    const again = await talk.turn(FOLLOWED, {}, { headers, userId: 'bob' });
    expect(again).toMatchObject({ sessionId: bob.sessionId, index: 1, observed: 'observed' });
  });
});

describe('memory', () => {
  it('a restart finds chains, names and pinned ids again', async () => {
    const first = await talk.turn(HI);
    const named = await talk.turn([user('yo')], {}, { headers: { 'x-session-id': 'n' } });
    talk.sessions = sessions();
    const second = await talk.turn(FOLLOWED);
    expect(second).toMatchObject({ sessionId: first.sessionId, index: 1, observed: 'observed' });
    expect(second.pinned).toEqual(new Map([[1, Int32Array.of(10, 11)]]));
    const next = await talk.turn([user('yo'), assistant(REPLY), user('!')], {}, { headers: { 'x-session-id': 'n' } });
    expect(next).toMatchObject({ index: 1, next: { turnId: named.turnId } });
  });

  it('works with one session in memory', async () => {
    talk.sessions = sessions({ maxSessions: 1 });
    const talks = ['a', 'b', 'c'].map((name) => [user(name)]);
    const opened = [];
    for (const messages of talks) opened.push(await talk.turn(messages));
    for (const [i, messages] of talks.entries()) {
      const next = await talk.turn([...messages, assistant(REPLY), user('on')]);
      expect(next).toMatchObject({ sessionId: opened[i]!.sessionId, index: 1, observed: 'observed' });
    }
  });

  it('idle sessions end; one whose request is in flight does not', async () => {
    const ended: unknown[] = [];
    talk.sessions = sessions({ idleMs: 1000, onEnded: (...o) => ended.push(o) });
    const quiet = await talk.turn([user('quiet')]);
    const busy = await talk.turn(HI);
    now += 2000;
    await talk.sessions.resolve({ userId: 'ann', headers: {}, body: {}, messages: FOLLOWED });
    await Promise.all([talk.sessions.sweep(), talk.sessions.sweep()]);
    expect(ended).toEqual([[quiet.sessionId, 'idle', 1]]);
    expect(await ledger.findTurn(quiet.turnId)).toMatchObject({ refusal: 'no-next-state' });
    expect(await ledger.findTurn(busy.turnId)).toMatchObject({ state: 'served' });
  });

  it('an ended session goes on when its user does', async () => {
    talk.sessions = sessions({ idleMs: 1000 });
    const first = await talk.turn(HI);
    now += 2000;
    await talk.sessions.sweep();
    const second = await talk.turn(FOLLOWED);
    expect(second).toMatchObject({ sessionId: first.sessionId, observed: 'already' });
    expect(await ledger.findSession(first.sessionId)).toMatchObject({ endedAt: null });
  });
});

describe('pinned ids', () => {
  const pinnedAfter = async (answer: object, o: Partial<SessionOptions> = {}, text = REPLY) => {
    talk.sessions = sessions(o);
    await talk.turn(HI, answer);
    return [...(await talk.turn([...HI, assistant(text), user('on')])).pinned.values()].map((ids) => [...ids]);
  };

  it('come without the end token where the reply ended', async () => {
    expect(await pinnedAfter({ responseIds: Int32Array.of(5, 6, 2) })).toEqual([[5, 6]]);
  });
  it('come whole where it was cut at the length limit', async () => {
    expect(await pinnedAfter({ responseIds: Int32Array.of(5, 6, 7), finish: 'length' })).toEqual([[5, 6, 7]]);
  });
  it('are not given where a stop text may have cut the reply', async () => {
    expect(await pinnedAfter({ stop: ['END'] })).toEqual([]);
  });
  it('are, where the end token is known to be there', async () => {
    expect(await pinnedAfter({ stop: ['END'] }, { stopIds: [2] })).toEqual([[10, 11]]);
  });
  it('are not given for a reply that came back changed', async () => {
    expect(await pinnedAfter({}, {}, 'Hello there, my')).toEqual([]);
  });
});
