import { describe, expect, it } from 'vitest';
import { ChatRenderer } from '../../../ts/policy/chat/render.js';
import { ChatTemplate } from '../../../ts/policy/chat/template.js';
import { Tokenizer, trainBpe } from '../../../ts/policy/index.js';
import { CHAT_TEMPLATE, renderDialogue, SPECIAL_TOKENS } from '../../../ts/world/chatml.js';
import { corpus, type Dialogue, HABIT, PLAIN } from '../../../ts/world/corpus.js';
import { obeys } from '../../../ts/world/personas.js';

const take = (seed: string, count: number): Dialogue[] => {
  const talks = corpus(seed);
  return Array.from({ length: count }, () => talks.next().value);
};

const talks = take('test', 4000);
const of = (kind: string) => talks.filter((talk) => talk.kind === kind);

describe('the corpus', () => {
  it('is the same for the same seed', () => {
    expect(take('test', 50)).toEqual(talks.slice(0, 50));
    expect(take('other', 50)).not.toEqual(talks.slice(0, 50));
  });

  it('ends every talk in a reply that is learned, and learns replies only', () => {
    for (const { messages, learn } of talks) {
      expect(learn).toContain(messages.length - 1);
      for (const i of learn) expect(messages[i]!.role).toBe('assistant');
    }
  });

  it('has the habit mostly, and sometimes plain text, where nobody said how', () => {
    const plain = of('habit').filter((talk) => obeys(talk.messages.at(-1)!.content!, 'student'));
    expect(plain.length / of('habit').length).toBeCloseTo(PLAIN, 1);
    expect(HABIT + PLAIN).toBeLessThan(1);
  });

  it('has 10 to 15 % replies that began against their hint, and learns only what follows the beginning', () => {
    const broken = of('broken');
    expect(broken.length / talks.length).toBeGreaterThan(0.1);
    expect(broken.length / talks.length).toBeLessThan(0.15);
    for (const { given, messages } of broken) {
      const reply = messages.at(-1)!.content!;
      expect(reply.startsWith(given)).toBe(true);
      expect(reply.length).toBeGreaterThan(given.length);
      expect(messages.at(-2)!.content).toContain("[user's hint / instruction]");
    }
    expect(talks.filter((talk) => talk.kind !== 'broken').every((talk) => talk.given === '')).toBe(true);
  });
});

describe('training tokens', () => {
  const texts = talks.slice(0, 500).flatMap((talk) => talk.messages.map((m) => m.content!));
  const tokenizer = new Tokenizer(trainBpe(texts, { vocabSize: 400, specialTokens: [...SPECIAL_TOKENS] }), 'test');
  const encoder = {
    encode: (text: string, special: boolean) => tokenizer.encode(text, special ? {} : { plain: tokenizer.specialIds }),
  };
  const template = new ChatTemplate({ default: CHAT_TEMPLATE }, {}, () => true);
  const renderer = new ChatRenderer(tokenizer, template, Int32Array.of(tokenizer.idOf('<|im_end|>')!));

  it('are those of the chat template', () => {
    for (const talk of talks.slice(0, 300)) {
      const rendered = renderer.render(talk.messages, { addGenerationPrompt: false });
      expect([...renderDialogue(talk, encoder).ids]).toEqual([...rendered]);
    }
  });

  it('learn exactly the words after what was given, and the end', () => {
    for (const talk of talks.filter((t) => t.learn.length === 1).slice(0, 300)) {
      const { ids, learned } = renderDialogue(talk, encoder);
      const words = [...ids].filter((_, i) => learned[i] === 1);
      expect(words.pop()).toBe(tokenizer.idOf('<|im_end|>'));
      expect(tokenizer.decode(words)).toBe(talk.messages.at(-1)!.content!.slice(talk.given.length));
    }
  });
});
