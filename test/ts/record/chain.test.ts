/** Points of a conversation and hints: pure functions of messages. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  chainPoints,
  HINT_TAG,
  isTransient,
  type Message,
  namedSession,
  replyMessage,
  spokenWords,
  turnChain,
  withHint,
} from '../../../ts/record/index.js';

const word = fc.stringMatching(/^[a-z]{1,6}$/);
const message: fc.Arbitrary<Message> = fc.record({
  role: fc.constantFrom('user', 'assistant', 'system'),
  content: fc.array(word, { maxLength: 4 }).map((words) => words.join(' ')),
});

describe('chain points', () => {
  it('grow with the talk: the points of a beginning are the beginning of the points', () => {
    fc.assert(
      fc.property(fc.array(message), fc.array(message), (talk, more) => {
        expect(chainPoints([...talk, ...more]).slice(0, talk.length)).toEqual(chainPoints(talk));
      }),
    );
  });

  it('a turn’s chain is the point after its reply in the next request', () => {
    fc.assert(
      fc.property(fc.array(message), word, (messages, text) => {
        const turn = { messages, text, toolCalls: [] };
        const { strict, loose } = turnChain(turn);
        expect(chainPoints([...messages, replyMessage(turn)]).at(-1)).toEqual({ strict, loose });
      }),
    );
  });

  it('do not see system messages, white space, thinking, transient messages', () => {
    const talk: Message[] = [
      { role: 'system', content: 'now 12:30' },
      { role: 'user', content: 'hi  there\n' },
      { role: 'assistant', content: '<think>hm</think> Hello.' },
      { role: 'user', content: '<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> x <<<END_OPENCLAW_INTERNAL_CONTEXT>>>' },
    ];
    const bare: Message[] = [
      { role: 'user', content: 'hi there' },
      { role: 'assistant', content: 'Hello.' },
    ];
    expect(chainPoints(talk).at(-1)).toEqual(chainPoints(bare).at(-1));
    expect(isTransient(talk[3]!)).toBe(true);
  });

  it('tell apart who said it, and what was called', () => {
    const point = (m: Message): string => chainPoints([m])[0]!.strict;
    const call = (args: string): Message => ({
      role: 'assistant',
      content: null,
      toolCalls: [{ id: 'x', type: 'function', function: { name: 'f', arguments: args } }],
    });
    expect(point({ role: 'user', content: 'a' })).not.toBe(point({ role: 'assistant', content: 'a' }));
    expect(point(call('{"a":1}'))).not.toBe(point(call('{"a":2}')));
    expect(point(call('{"a":1,"b":[2]}'))).toBe(point({ ...call('{ "b": [2], "a": 1 }'), content: '' }));
  });
});

it('is quick on text that is made to be slow', () => {
  const content = '<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>><think>'.repeat(30_000);
  const started = performance.now();
  chainPoints([
    { role: 'user', content },
    { role: 'assistant', content },
  ]);
  expect(performance.now() - started).toBeLessThan(3000);
});

describe('what a person said', () => {
  it.each([
    ['[Mon 2026-11-30 22:21 UTC] hello', 'hello'],
    ['hello\n\nRuntime: agent=main | sessionId=s1 | host=vm', 'hello'],
    ['[see 3] is not a clock', '[see 3] is not a clock'],
    ['a <<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>x<<<END_OPENCLAW_INTERNAL_CONTEXT>>>', 'a'],
  ])('%j', (content, words) => {
    expect(spokenWords({ role: 'user', content })).toBe(words);
  });

  it('the host names the session under the first user words', () => {
    const first: Message = {
      role: 'user',
      content: 'hi\n\nRuntime: agent=main | session=a:b | sessionId=s1 | host=vm',
    };
    expect(namedSession([{ role: 'system', content: 'x' }, first])).toBe('s1');
    expect(namedSession([{ role: 'user', content: 'Runtime: sessionId' }])).toBeNull();
  });
});

describe('withHint', () => {
  it('appends to the last user message under the tag, and changes nothing it was given', () => {
    const messages: Message[] = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
      { role: 'user', content: 'c' },
    ];
    const before = structuredClone(messages);
    expect(withHint(messages, 'Be brief.')[2]).toEqual({ role: 'user', content: `c${HINT_TAG}Be brief.` });
    expect(withHint(messages, 'Be brief.').slice(0, 2)).toEqual(messages.slice(0, 2));
    expect(messages).toEqual(before);
  });

  it('without a user message becomes one', () => {
    expect(withHint([{ role: 'system', content: 's' }], 'Be brief.')).toHaveLength(2);
  });
});
