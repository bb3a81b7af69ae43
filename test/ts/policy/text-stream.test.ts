/** Text of a reply as its ids come, and tool calls cut out of it: however the stream is sliced, the whole is the same. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createTextStream, createToolSplitter, parseToolCalls } from '../../../ts/policy/index.js';
import { Tokenizer } from '../../../ts/policy/tokenizer/tokenizer.js';
import type { Tool, ToolCall } from '../../../ts/record/index.js';
import { tinyTokenizer } from './helpers.js';

const tokenizer = new Tokenizer(tinyTokenizer(), 'tiny');

function inPieces<T>(list: readonly T[], sizes: readonly number[]): T[][] {
  const pieces: T[][] = [];
  for (let at = 0, i = 0; at < list.length; i++) {
    const size = sizes[i % Math.max(1, sizes.length)] ?? 1;
    pieces.push(list.slice(at, at + size));
    at += size;
  }
  return pieces;
}
const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 8 });

describe('text stream', () => {
  it('gives the same text as decoding at once, and never half a character', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 319 })), sizes, (ids, cut) => {
        const stream = createTextStream({ tokenizer });
        const parts = inPieces(ids, cut).map((piece) => stream.push(piece));
        expect(parts.join('') + stream.end()).toBe(tokenizer.decode(ids, { skipSpecial: true }));
      }),
    );
    const stream = createTextStream({ tokenizer });
    const pieces = [...tokenizer.encode('a👩b')].map((id) => stream.push([id]));
    expect(pieces.filter((piece) => piece !== '')).toEqual(['a', '👩', 'b']);
    expect(stream.end()).toBe('');
  });

  it('shows a byte that never became a character at the end', () => {
    const stream = createTextStream({ tokenizer });
    expect(stream.push([tokenizer.encode('👩')[0]!])).toBe('');
    expect(stream.end()).toBe('\ufffd');
  });

  it('ends before the first stop text, wherever the pieces are cut', () => {
    const word = fc.constantFrom('a', 'b', 'ab', 'STOP', 'ST', 'OP', '\n', '\n\n');
    const stops = fc.subarray(['STOP', '\n\n', 'ab'], { minLength: 1 });
    fc.assert(
      fc.property(
        fc.array(word).map((w) => w.join('')),
        stops,
        sizes,
        (text, stop, cut) => {
          const stream = createTextStream({ tokenizer }, { stop });
          const got =
            inPieces([...tokenizer.encode(text)], cut)
              .map((piece) => stream.push(piece))
              .join('') + stream.end();
          const at = Math.min(...stop.map((s) => text.indexOf(s)).filter((i) => i >= 0), text.length);
          expect(stream.stopped).toBe(stop.some((s) => text.includes(s)));
          if (!stream.stopped) expect(got).toBe(text);
          // a stop text that is whole earlier may end the stream before a longer one that began further left
          else expect(text.startsWith(got) && got.length >= at).toBe(true);
        },
      ),
    );
  });
});

const TOOLS: Tool[] = [{ type: 'function', function: { name: 'add' } }];
const bare = (calls: ToolCall[]) => calls.map(({ function: f }) => [f.name, f.arguments]);
const call = (name: string, args: unknown) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;

describe('tool calls', () => {
  it('are cut out of the text', () => {
    const reply = parseToolCalls(`Let me see.\n${call('add', { a: 1 })}\n${call('add', {})}\n`, TOOLS);
    expect(reply.text).toBe('Let me see.');
    expect(bare(reply.calls)).toEqual([
      ['add', '{"a":1}'],
      ['add', '{}'],
    ]);
    expect(reply.calls[0]!.id).toMatch(/^call_[0-9a-f]{24}$/);
    expect(reply.calls[0]!.id).not.toBe(reply.calls[1]!.id);
  });

  it('take arguments as an object, a text of JSON, a text, "parameters", or none', () => {
    const args = (body: string) => parseToolCalls(`<tool_call>${body}</tool_call>`, TOOLS).calls[0]!.function.arguments;
    expect(args('{"name":"add","arguments":"{\\"a\\": 1}"}')).toBe('{"a": 1}');
    expect(args('{"name":"add","arguments":"one"}')).toBe('"one"');
    expect(args('{"name":"add","parameters":{"a":2}}')).toBe('{"a":2}');
    expect(args('{"name":"add"}')).toBe('{}');
  });

  it.each([
    '<tool_call>{"name": </tool_call>',
    '<tool_call>{"arguments":{}}</tool_call> and more',
    '<tool_call>{"name":"add"',
    'a < b <tool',
    '<tool_call>[1]</tool_call>',
  ])('that cannot be read stay text: %s', (text) => {
    expect(parseToolCalls(text, TOOLS)).toEqual({ text, calls: [] });
  });

  it('are only looked for when there are tools', () => {
    const text = call('add', {});
    expect(parseToolCalls(text, [])).toEqual({ text, calls: [] });
  });

  it('come out the same however the stream is cut', () => {
    const part = fc.constantFrom(
      'Hello',
      ' ',
      '\n',
      '<',
      '<tool_call>',
      '</tool_call>',
      call('add', { a: '<tool_call>' }),
      call('f', {}),
      '{"name":',
      'tool_call>',
    );
    fc.assert(
      fc.property(
        fc.array(part).map((parts) => parts.join('')),
        sizes,
        (text, cut) => {
          const whole = parseToolCalls(text, TOOLS);
          const splitter = createToolSplitter(TOOLS);
          const pieces = inPieces([...text], cut).map((piece) => splitter.push(piece.join('')));
          const all = [...pieces, splitter.end()];
          expect(all.map((piece) => piece.text).join('')).toBe(whole.text);
          expect(bare(all.flatMap((piece) => piece.calls))).toEqual(bare(whole.calls));
        },
      ),
      { numRuns: 500 },
    );
  });
});
