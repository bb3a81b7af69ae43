/** Chat rendering: the same ids as transformers, and nobody can forge a turn. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { ChatRenderer } from '../../../ts/policy/chat/render.js';
import { ChatTemplate } from '../../../ts/policy/chat/template.js';
import { readModel } from '../../../ts/policy/files/read-model.js';
import { Tokenizer } from '../../../ts/policy/tokenizer/tokenizer.js';
import type { Message, Tool } from '../../../ts/record/index.js';
import { CHATML, fixture, SPECIALS, smollmFile, tinyTokenizer } from './helpers.js';

interface Fixture {
  chats: Array<{ name: string; messages: Message[]; addGenerationPrompt: boolean; text: string; ids: number[] }>;
}

function renderer(tokenizer: Tokenizer, template: string | null = CHATML, stopIds = Int32Array.of(2)): ChatRenderer {
  const templates: Record<string, string> = template === null ? {} : { default: template };
  return new ChatRenderer(
    tokenizer,
    new ChatTemplate(templates, { eos_token: '<|im_end|>' }, (text) => tokenizer.idOf(text) !== undefined),
    stopIds,
  );
}

describe.skipIf(smollmFile === null)('the public model’s template (skipped without its GGUF file)', () => {
  const oracle = JSON.parse(readFileSync(fixture('smollm2/tokenizer.json'), 'utf8')) as Fixture;
  let render: ChatRenderer;
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    const model = await readModel(smollmFile!);
    tokenizer = model.tokenizer;
    render = new ChatRenderer(
      tokenizer,
      new ChatTemplate(model.templates, model.specialTexts, () => true),
      model.stopIds,
    );
  });

  it.each(oracle.chats)('$name', ({ messages, addGenerationPrompt, text, ids }) => {
    const rendered = render.render(messages, { addGenerationPrompt });
    expect([...tokenizer.encode(text)]).toEqual(ids);
    expect(tokenizer.decode(rendered)).toBe(text);
    if (!messages.some((m) => m.content?.includes('<|im_'))) expect([...rendered]).toEqual(ids);
  });

  it('differs from transformers on purpose where a message holds control tokens: they stay text', () => {
    const hostile = oracle.chats.filter(({ messages }) => messages.some((m) => m.content?.includes('<|im_')));
    expect(hostile.length).toBeGreaterThan(0);
    for (const { messages, addGenerationPrompt, ids } of hostile) {
      const own = [...render.render(messages, { addGenerationPrompt })].filter((id) => tokenizer.specialIds.has(id));
      const theirs = ids.filter((id) => tokenizer.specialIds.has(id));
      expect(own.length).toBeLessThan(theirs.length);
    }
  });
});

const tokenizer = new Tokenizer(tinyTokenizer(), 'tiny');
const [, START, END] = [0, 1, 2];

/** a tokenizer that also has tokens which are not special but which the template writes */
const qwenLike = new Tokenizer(
  {
    ...tinyTokenizer(),
    added_tokens: [
      ...(tinyTokenizer().added_tokens as unknown[]),
      { id: 320, content: '<tool_response>', special: false, normalized: false },
      { id: 321, content: '<think>', special: false, normalized: false },
      { id: 322, content: '<tool_call>', special: false, normalized: false },
    ],
  },
  'qwen-like',
);
const QWEN = `{%- if tools %}{{- '<|im_start|>system\\n' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>\\n' + m.content + '<|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>' + m.role + '\\n' }}{%- if '<think>' in m.content %}{{- m.content.split('<think>')[0] + m.content.split('<think>')[-1] }}{%- else %}{{- m.content | trim }}{%- endif %}
{%- for call in m.tool_calls or [] %}{{- '<tool_call>' + call.function.name + (call.function.arguments | tojson(ensure_ascii=true)) }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}`;

const HOSTILE = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ...SPECIALS,
        '<|im_',
        'start|>',
        'end|>',
        '<',
        '|',
        '<tool_response>',
        '<tool_call>',
        '<think>',
        '\n',
        ' ',
        'user',
        'system',
      ),
      fc.constantFrom('\ue000', '\ue001', '\ue002', '\\ue000', '\\ue001', '\uf8ff', '\u{f0000}'),
      fc.string({ unit: 'grapheme', maxLength: 8 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join('').toWellFormed());

const MESSAGE: fc.Arbitrary<Message> = fc.oneof(
  fc.record({
    role: fc.constantFrom('system' as const, 'user' as const, 'assistant' as const, 'tool' as const),
    content: HOSTILE,
  }),
  fc.tuple(HOSTILE, HOSTILE, HOSTILE, HOSTILE).map(([content, name, key, value]) => ({
    role: 'assistant' as const,
    content,
    toolCalls: [
      { id: 'call_1', type: 'function' as const, function: { name, arguments: JSON.stringify({ [key]: value }) } },
    ],
  })),
);

describe('rendering', () => {
  it('writes each special token as often as the template does, whatever the messages hold', () => {
    const render = renderer(tokenizer);
    fc.assert(
      fc.property(fc.array(MESSAGE, { minLength: 1, maxLength: 4 }), (messages) => {
        const ids = [...render.render(messages)];
        expect(ids.filter((id) => id === START)).toHaveLength(messages.length + 1);
        expect(ids.filter((id) => id === END)).toHaveLength(messages.length);
        expect(ids.filter((id) => id === 0)).toHaveLength(0);
        const text = messages.map((m) => `<|im_start|>${m.role}\n${m.content}<|im_end|>\n`).join('');
        expect(tokenizer.decode(ids)).toBe(`${text}<|im_start|>assistant\n`);
      }),
      { numRuns: 300 },
    );
  });

  it('holds for a template with tools, JSON escapes, trimming and tokens that are not special', () => {
    const render = renderer(qwenLike, QWEN);
    const tools = HOSTILE.map((text): Tool[] => [
      { type: 'function', function: { name: text, description: text, parameters: { [text]: [text] } } },
    ]);
    fc.assert(
      fc.property(fc.array(MESSAGE, { minLength: 1, maxLength: 4 }), tools, (messages, given) => {
        const ids = [...render.render(messages, { tools: given })];
        const count = (id: number) => ids.filter((other) => other === id).length;
        expect(count(START)).toBe(messages.length + 2);
        expect(count(END)).toBe(messages.length + 1);
        // an assistant's own content may hold the template's structural tokens; nobody else's
        const own = messages.filter((m) => m.role === 'assistant').map((m) => m.content ?? '');
        const written = (text: string) => own.reduce((sum, content) => sum + content.split(text).length - 1, 0);
        const responses = messages.filter((m) => m.role === 'tool').length;
        expect(count(320)).toBeGreaterThanOrEqual(responses);
        expect(count(320)).toBeLessThanOrEqual(responses + written('<tool_response>'));
        expect(count(321)).toBeLessThanOrEqual(written('<think>'));
        const calls = messages.reduce((sum, m) => sum + (m.toolCalls?.length ?? 0), 0);
        expect(count(322)).toBeLessThanOrEqual(calls + written('<tool_call>'));
      }),
      { numRuns: 300 },
    );
  });

  it('splices the exact ids of earlier replies', () => {
    const render = renderer(tokenizer);
    const id = fc.integer({ min: 3, max: 319 });
    fc.assert(
      fc.property(HOSTILE, HOSTILE, fc.array(id, { maxLength: 20 }), (question, next, sampled) => {
        const reply = Int32Array.from(sampled);
        const first: Message[] = [{ role: 'user', content: question }];
        const prompt = render.render(first);
        const later = render.render(
          [...first, { role: 'assistant', content: 'other words' }, { role: 'user', content: next }],
          { pinned: new Map([[1, reply]]) },
        );
        const seen = [...prompt, ...reply, END];
        expect([...later.subarray(0, seen.length)]).toEqual(seen);
      }),
    );
  });

  it('writes the text where the template leaves a pinned message out or says it twice', () => {
    const twice = renderer(tokenizer, "{% for m in messages %}{{ m.content + '|' + m.content }}{% endfor %}");
    const ids = twice.render([{ role: 'assistant', content: 'sea' }], { pinned: new Map([[0, Int32Array.of(5)]]) });
    expect(tokenizer.decode(ids)).toBe('sea|sea');
  });

  it('refuses a pin on somebody else’s message and ids that do not exist', () => {
    const render = renderer(tokenizer);
    expect(() => render.render([{ role: 'user', content: 'a' }], { pinned: new Map([[0, Int32Array.of(5)]]) })).toThrow(
      /message 0 is not an assistant/,
    );
    expect(() =>
      render.render([{ role: 'assistant', content: 'a' }], { pinned: new Map([[0, Int32Array.of(999)]]) }),
    ).toThrow(/id 999/);
  });

  it('falls back to ChatML where its tokens are, and says so where they are not', () => {
    expect(tokenizer.decode(renderer(tokenizer, null).render([{ role: 'user', content: 'hi' }]))).toBe(
      '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n',
    );
    const bare = new Tokenizer(
      {
        ...tinyTokenizer(),
        added_tokens: [],
        model: { ...(tinyTokenizer().model as object), merges: [], vocab: bytesOnly() },
      },
      'bare',
    );
    expect(() => renderer(bare, null).render([{ role: 'user', content: 'hi' }])).toThrow(/no chat template/);
  });

  it('passes on what a template refuses', () => {
    const strict = renderer(tokenizer, "{{ raise_exception('roles must alternate') }}");
    expect(() => strict.render([{ role: 'user', content: 'hi' }])).toThrow(/roles must alternate/);
  });

  it('gives templates dates, objects as arguments, and an empty content beside tool calls', () => {
    const t = renderer(
      tokenizer,
      "{{ strftime_now('%Y') | length }}{{ messages[0].tool_calls[0].function.arguments.city }}{{ messages[0].content == '' }}{{ tools[0] | tojson }}",
    );
    const ids = t.render(
      [
        {
          role: 'assistant',
          content: null,
          toolCalls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"city":"Rome"}' } }],
        },
      ],
      {
        tools: [{ type: 'function', function: { name: 'f', parameters: { a: [1, true, null] } } }],
      },
    );
    expect(tokenizer.decode(ids)).toBe(
      '4RomeTrue{"type": "function", "function": {"name": "f", "parameters": {"a": [1, true, null]}}}'.replace(
        'True',
        'true',
      ),
    );
  });
});

function bytesOnly(): Record<string, number> {
  const { vocab } = tinyTokenizer().model as { vocab: Record<string, number> };
  return Object.fromEntries(Object.entries(vocab).filter(([token]) => [...token].length === 1));
}
