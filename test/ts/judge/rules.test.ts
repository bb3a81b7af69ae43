/** The rules judge reads people plainly: what is praise, what a complaint, what neither, and which instruction is in it. */
import { describe, expect, it } from 'vitest';
import { createRulesJudge } from '../../../ts/judge/index.js';
import type { Verdict } from '../../../ts/record/index.js';
import { makeItem, said, tool } from './make.js';

const rules = createRulesJudge();
const judge = (item: Parameters<typeof rules.judge>[0]): Promise<Verdict> =>
  rules.judge(item, new AbortController().signal);
const judgeWords = (text: string): Promise<Verdict> => judge(said(text));

const COMPLAINTS = [
  'Please no bold text.',
  "Please don't use bold text.",
  "I don't like the bold words. Please write without bold.",
  'Can you write it without bold text?',
  'No bold, please.',
  'Please stop using bold.',
  "Please don't number the steps.",
  'No numbered list, please.',
  "Please don't use a numbered list.",
  'Please write sentences, not a list.',
  "Don't number it, please.",
  "Please don't put the answer in a box.",
  'No boxed answer, please.',
  'Please leave out the box.',
  'Can you write the answer without the box?',
  "I don't want the answer in a box.",
  'Just say it plainly.',
  'Please use plain text.',
  'Can you say it in plain words?',
  'This looks like an AI wrote it. Plain text, please.',
  'No markdown, please.',
  'Please explain it in more detail.',
  'That is too short. Please write more.',
  'Can you explain every step in words?',
  'Please give a longer answer.',
  'I need more detail, please.',
  'That is too long.',
  'Please keep it short.',
  'Shorter, please.',
  'Can you make it short?',
  'Please say something kind, such as well done.',
  'That sounds cold. Please be warmer.',
  'Can you add a warm phrase, such as great job?',
  'Please be friendly and say well done.',
  'A kind word such as excellent is missing.',
  'Please leave out the kind words.',
  'No praise, please.',
  'Just the facts, please.',
  'Please use markdown.',
  'Can you write it with markdown?',
  'Please use bold text.',
  'Can you use bold for the answer?',
  'Please number the steps.',
  'Can you write it as a numbered list?',
  'Please put the answer in a box.',
  'A boxed answer, please.',
  'That is not right. Please check the number.',
  'The number is wrong. Please try again.',
  'I think the answer is wrong. Can you do it again?',
  'That is not the right answer. Please try again.',
  'Too long. Please answer in one short sentence.',
  'Please answer in one short sentence.',
  'Can you say that in one short sentence?',
  'That is too long for me. One short sentence, please.',
  'Please no list. Answer in one short sentence.',
  "I don't want a list. Just one short sentence, please.",
  'No lists, please. Say it in one short sentence.',
  'No bold, please. Just one short plain sentence.',
  'That is not right. Please try again.',
  'I think that is wrong. Can you try again?',
  'thanks, but do not use bold',
  'redo',
  'not like that',
  'again',
  'wrong',
  'no, I meant the blue one',
  'No.',
  'The answer should be 7.',
  "it's 7, not 8",
  'at least 100 words',
  'In German, please.',
  'use metric units',
  'Use TypeScript instead.',
  'You forgot the units.',
  'You forgot to add the tax.',
  'You keep apologizing. Stop it.',
  'I asked for three examples, you gave two',
  "Don't apologize so much",
  'not so formal',
  "too technical, I'm a beginner",
  'be more concise',
  'Could you rephrase that in simpler terms?',
  'Please answer in French from now on',
  "That doesn't work, still the same error",
  "this isn't helpful",
  "That's not what I asked.",
  "I don't understand your explanation.",
  'Please make your answers much shorter, I am reading on my phone',
  'Could you stop ending every reply with a question?',
  "I'd prefer a casual tone",
  'Never start with "Sure!"',
  'Speak like a pirate instead',
  'your answer should start with a greeting',
  "hmm, that's incorrect",
  "you didn't answer my question",
  "The code doesn't compile",
  "why did you delete my file? I didn't ask for that",
  "That's correct but way too long",
  "Good, but please don't use emojis",
];

const PRAISE = [
  'Thanks!',
  'Thank you!',
  'Thanks, that is right.',
  'Great, thank you!',
  'Thank you, that is what I wanted.',
  'Perfect, thanks.',
  'great, now say it in one word',
  "That's helpful, thank you so much",
  'it works now!',
  'nice',
  'Exactly what I needed.',
  'Thanks! Now translate it to German.',
  'good job',
  'Correct!',
  'ok thanks',
];

const NEITHER = [
  'please read the file hello.txt',
  'What is the capital of France?',
  'Write a poem about the sea.',
  'Write a short poem about the sea.',
  'Tell me a joke.',
  'Translate this to German.',
  'Write a Python function.',
  'How do I boil an egg?',
  'Can you recommend a good film?',
  'ok',
  'yes',
  'go on',
  'no, thank you',
  "no, that's all",
  'no problem',
  'Would be great if you could tell me the weather in Rome',
  'Name three rivers in Asia. Thanks!',
  "Don't worry about it, what's next?",
  'I have a problem with my printer, it is broken',
  'Is it wrong to lie?',
  'Why is the sky blue?',
  'Can you name three rivers?',
  'Good morning!',
  'What does "wrong" mean?',
  'I want to go to Paris in May',
  'I need a recipe for pancakes',
  'Give me a list of rivers in France',
  'Make a table of planets and their sizes',
  'Remove the file a.txt',
  'Stop the server',
  'use the above code to build a page',
  'Explain quantum mechanics in simple words',
  'Summarize this article: The fox ran. It was wrong about the dog.',
  'What about the second one?',
  'And what is the population?',
  'bye',
];

const UNREADABLE = ['Danke, das war sehr gut', '¿Cómo estás?'];

describe('words', () => {
  it.each(COMPLAINTS)('-1: %s', async (text) => {
    expect(await judgeWords(text)).toMatchObject({ reward: -1, status: 'scored' });
  });
  it.each(PRAISE)('+1: %s', async (text) => {
    expect(await judgeWords(text)).toMatchObject({ reward: 1, hints: [] });
  });
  it.each(NEITHER)('0: %s', async (text) => {
    expect(await judgeWords(text)).toMatchObject({ reward: 0, hints: [] });
  });
  it.each(UNREADABLE)('no score rather than a guess: %s', async (text) => {
    expect(await judgeWords(text)).toMatchObject({ reward: null, status: 'abstained', hints: [] });
  });

  it('words in quotes, code and pasted text are not the user\u2019s own', async () => {
    expect((await judgeWords('```\nerror: wrong answer\n```\nWhat does this do?')).reward).toBe(0);
    expect((await judgeWords('> that is wrong\nWho said this?')).reward).toBe(0);
  });

  it.each(['please ', 'just ', 'no, ', 'still ', 'it is ', 'great, ', 'i said ', '```'])(
    'is quick on %j, over and over',
    async (part) => {
      const started = performance.now();
      await judgeWords(part.repeat(20_000));
      expect(performance.now() - started).toBeLessThan(2000);
    },
  );

  it('"No." to a question of ours is an answer', async () => {
    expect((await judge(said('No.', { text: 'Shall I go on?' }))).reward).toBe(0);
  });

  it('the same question again says that the reply was no answer', async () => {
    const messages = [{ role: 'user' as const, content: 'How many apples does Tom have?' }];
    expect((await judge(said('How many apples does Tom have?', { messages }))).reward).toBe(-1);
    expect((await judge(said('How many pears does Tom have?', { messages }))).reward).toBe(0);
  });
});

describe('hints', () => {
  it.each([
    ["Please don't use bold text.", 'Do not use bold text.'],
    ['No numbered list, please.', 'Do not use a numbered list.'],
    ["I don't want the answer in a box.", 'State the answer without a box.'],
    ['That is too long.', 'Answer in one short sentence.'],
    ['Shorter, please.', 'Make it shorter.'],
    ['thanks, but do not use bold', 'Do not use bold.'],
    ['at least 100 words', 'Write at least 100 words.'],
    ['Please say something kind, such as well done.', 'Say something kind, such as well done.'],
    ['A kind word such as excellent is missing.', 'Include a kind word such as excellent.'],
    ['The answer should be 7.', 'The answer should be 7.'],
    ['In German, please.', 'Answer in German.'],
    ['You keep apologizing.', 'Stop apologizing.'],
    ['You forgot the units.', 'Include the units.'],
    ['I asked for three examples, you gave two', 'Give three examples.'],
    ['no, I meant the blue one', 'The user wants the blue one.'],
    ['Never start with "Sure!"', 'Never start with "Sure!".'],
    ['Could you stop ending every reply with a question?', 'Stop ending every reply with a question.'],
    ['Please make your answers much shorter, I am reading on my phone', 'Make your answers much shorter.'],
    ['No bold, please. Just one short plain sentence.', 'Do not use bold and answer in one short plain sentence.'],
  ])('%s', async (text, hint) => {
    expect((await judgeWords(text)).hints).toContain(hint);
  });

  it.each([...COMPLAINTS])('are usable, distinct, shortest first, at most three: %s', async (text) => {
    const { hints, votes } = await judgeWords(text);
    expect(hints.length).toBeLessThanOrEqual(3);
    expect(new Set(hints.map((hint) => hint.toLowerCase())).size).toBe(hints.length);
    expect(hints.map((hint) => hint.length)).toEqual([...hints].map((hint) => hint.length).sort((a, b) => a - b));
    for (const hint of hints) expect(hint).toMatch(/^[A-Z][^\n]{9,}\.$/);
    expect(votes).toHaveLength(1);
  });

  it('a wish to look again says nothing about how, so there is none', async () => {
    expect((await judgeWords('That is not right. Please check the number.')).hints).toEqual([]);
  });

  it('no more than asked for', async () => {
    const one = createRulesJudge({ maxHints: 1 });
    expect((await one.judge(said('No bold, please.'), new AbortController().signal)).hints).toHaveLength(1);
  });
});

describe('tools', () => {
  it.each([
    ['hi there', {}, 1],
    ['', {}, 1],
    ['anything', { exitCode: 0 }, 1],
    ['fine', { exitCode: 2 }, -1],
    ['error: this is what the file says', { isError: false }, 1],
    ['no', { isError: true }, -1],
    ['Error: no such table', {}, -1],
    ['Traceback (most recent call last):\n  File "x"', {}, -1],
    ['ValueError: bad', {}, -1],
    ['bash: foo: command not found', {}, -1],
    ['{"error":"not found"}', {}, -1],
    ['{"error":null,"rows":3}', {}, 1],
    ['{"success":false}', {}, -1],
    ['{"status":"ok","errors":0}', {}, 1],
    ['12 passed\nexit code: 0', {}, 1],
    ['3 failed\nProcess exited with code 1', {}, -1],
    ['The error handling chapter begins here.', {}, 1],
  ])('%j %j', async (text, over, reward) => {
    expect((await judge(makeItem([tool(text as string, over as object)]))).reward).toBe(reward);
  });

  it('one failure among parallel results counts', async () => {
    const verdict = await judge(makeItem([tool('ok'), tool('Error: no')]));
    expect(verdict).toMatchObject({ reward: -1, vetoes: ['tool-error'] });
  });

  it('a person\u2019s words count before a tool\u2019s success', async () => {
    const items = [tool('written'), { role: 'user' as const, text: 'No, not that file.' }];
    expect((await judge(makeItem(items))).reward).toBe(-1);
    expect((await judge(makeItem([tool('written'), { role: 'user', text: 'What time is it?' }]))).reward).toBe(1);
  });

  it('nothing readable: no score', async () => {
    expect(await judge(makeItem([{ role: 'env', text: 'screen' }]))).toMatchObject({
      reward: null,
      status: 'abstained',
    });
  });
});

describe('the same call again', () => {
  const call = (id: string, args = '{"path":"a"}') => ({
    id,
    type: 'function' as const,
    function: { name: 'read', arguments: args },
  });
  const messages = [
    { role: 'user' as const, content: 'read a' },
    { role: 'assistant' as const, content: null, toolCalls: [call('c1')] },
    { role: 'tool' as const, content: 'same', toolCallId: 'c1' },
  ];

  it('is vetoed although the tool succeeds', async () => {
    const item = makeItem([tool('same', { toolCallId: 'c2' })], {
      messages,
      toolCalls: [call('c_2', '{ "path": "a" }')],
    });
    expect(await judge(item)).toMatchObject({ reward: -1, vetoes: ['repeated-call'] });
  });
  it('is polling where it brings something new', async () => {
    const item = makeItem([tool('changed', { toolCallId: 'c2' })], { messages, toolCalls: [call('c2')] });
    expect(await judge(item)).toMatchObject({ reward: 1, vetoes: [] });
  });
  it('is fine after the user has spoken again', async () => {
    const later = [...messages, { role: 'user' as const, content: 'again please' }];
    const item = makeItem([tool('same', { toolCallId: 'c2' })], { messages: later, toolCalls: [call('c2')] });
    expect(await judge(item)).toMatchObject({ reward: 1 });
  });
  it('twice in one reply is vetoed', async () => {
    const item = makeItem([tool('x', { toolCallId: 'c1' })], { toolCalls: [call('c1'), call('c2')] });
    expect(await judge(item)).toMatchObject({ vetoes: ['repeated-call'] });
  });
});
