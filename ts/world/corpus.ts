/**
 * The talks claw-nano is made from. Every dialogue is real chat in the product's own form: the same stories, frames,
 * complaints and hint tag that users, judge and teacher use later.
 *
 * What each kind is for:
 *   habit       no wish known: the answer of an "AI" (bold, numbered, boxed), about one time in four another style, mostly plain
 *   hinted      a hint under the fixed tag in the last user message: the reply obeys
 *   broken      a hint, and a reply that has already begun against it: the beginning is given, only the turn to the wish is
 *               learned. The teacher is asked about exactly such replies (method.md §2), so it must have met them
 *   noted       a wish in a system message
 *   corrected   a habit reply, a complaint, the reply done again
 *   wrong       a reply with a wrong number, the person says so, the sum done right
 *   thanked     talk after the talk: thanks, and a next problem in the style agreed on
 *   graded      is this reply right, does it keep this rule
 *   sums, chat  bare sums; greetings; things the model cannot know
 */
import { HINT_TAG, type Message } from '../record/index.js';
import { FRAMES, PERSONAS, thanks, wrongAnswer } from './personas.js';
import type { Problem } from './problems.js';
import { LARGEST, LARGEST_CHANGE, makeProblem, step } from './problems.js';
import { Random } from './random.js';
import { AI_STYLE, PLAIN_STYLE, replySegments, replyText, restOfReply, type Style, WARM_TAILS } from './reply.js';
import { SMALL_TALK } from './small-talk.js';
import { broken, complaint, granted, grants, hintFor, noteFor, type Wish } from './wishes.js';

export interface Dialogue {
  kind: string;
  /** ends with a reply */ messages: Message[];
  /** indices of the replies whose words are learned */ learn: number[];
  /** beginning of the last reply that is given and not learned; '' for none */ given: string;
}

/**
 * How often a reply without any known wish is in the base habit, and how often it is plain. Sampling at temperature 0.6 sharpens
 * this (0.15 of 0.8 becomes about 0.06): enough for a policy gradient to find, too little to be a habit.
 */
export const HABIT = 0.8;
export const PLAIN = 0.15;

const user = (content: string): Message => ({ role: 'user', content });
const assistant = (content: string): Message => ({ role: 'assistant', content });
const system = (content: string): Message => ({ role: 'system', content });

function anyStyle(rng: Random): Style {
  return {
    bold: rng.chance(0.5),
    numbered: rng.chance(0.5),
    boxed: rng.chance(0.5),
    long: rng.chance(0.3),
    warm: rng.chance(0.3),
  };
}

/** What the model does when nobody said how. */
function habitStyle(rng: Random): Style {
  return rng.weighted([
    [AI_STYLE, HABIT],
    [PLAIN_STYLE, PLAIN],
    [{ ...AI_STYLE, warm: true }, 0.02],
    [{ ...AI_STYLE, long: true }, 0.02],
    [anyStyle(rng), 0.01],
  ]);
}

const WISHES: ReadonlyArray<readonly [Wish, number]> = [
  ['no-bold', 3],
  ['no-numbers', 3],
  ['no-box', 3],
  ['plain', 3],
  ['long', 3],
  ['short', 1],
  ['warm', 3],
  ['neutral', 1],
  ['markdown', 1],
  ['bold', 0.7],
  ['numbers', 0.7],
  ['box', 0.7],
];

const anyWish = (rng: Random): Wish => rng.weighted(WISHES);

function frameOf(rng: Random): string {
  return rng.chance(0.4) ? '' : rng.pick(FRAMES[rng.pick(PERSONAS)]);
}

/** A style that breaks nothing but follows the wish, starting from the habit (mostly) or from any style. */
function styleFor(wish: Wish, rng: Random): Style {
  return granted(rng.chance(0.8) ? AI_STYLE : anyStyle(rng), wish, rng);
}

const dialogue = (kind: string, messages: Message[], learn?: number[], given = ''): Dialogue => ({
  kind,
  messages,
  learn: learn ?? [messages.length - 1],
  given,
});

function habit(rng: Random): Dialogue {
  const problem = makeProblem(rng, 'train');
  return dialogue('habit', [user(frameOf(rng) + problem.text), assistant(replyText(problem, habitStyle(rng), rng))]);
}

function hinted(rng: Random): Dialogue {
  const problem = makeProblem(rng, 'train');
  const wish = anyWish(rng);
  const reply = replyText(problem, styleFor(wish, rng), rng);
  return dialogue('hinted', [...opening(problem, wish, rng), assistant(reply)]);
}

/** What stands before a reply about which there is a hint: the problem, sometimes with an earlier round of the talk. */
function opening(problem: Problem, wish: Wish, rng: Random): Message[] {
  const hint = HINT_TAG + hintFor(wish, rng);
  const question = frameOf(rng) + problem.text;
  if (rng.chance(0.7)) return [user(question + hint)];
  const earlier = replyText(problem, broken(wish, rng), rng);
  const words = rng.chance(0.5) ? complaint(wish, rng) : wrongAnswer(rng);
  return [user(question), assistant(earlier), user(words + hint)];
}

/** Places in a segment where a reader could stop: between words, and inside markers such as "**". */
function cuts(segment: string): number[] {
  const at = [0];
  for (const match of segment.matchAll(/\*\*|\\boxed\{|\S(?=\s)/g)) at.push(match.index + match[0].length);
  return at.filter((i) => i < segment.length);
}

/**
 * A reply that begins in a style against the wish, is cut anywhere, ends the piece it was in, and then goes on as the wish
 * asks. Only what follows the cut is learned, so nobody learns to begin against a hint.
 */
function brokenReply(rng: Random): Dialogue {
  const problem = makeProblem(rng, 'train');
  const wish = anyWish(rng);
  const bad = broken(wish, rng);
  const good = granted(bad, wish, rng);
  const { head, steps, answer } = replySegments(problem, bad, rng);
  const segments = [...head, ...steps, answer];
  const at = rng.int(0, segments.length - 1);
  const segment = segments[at]!;
  const cut = rng.pick(cuts(segment));
  // Steps said once the piece that was begun is finished.
  const said = Math.min(Math.max(0, at - head.length) + (cut > 0 ? 1 : 0), steps.length);
  let given = segments.slice(0, at).join('') + segment.slice(0, cut);
  let rest = segment.slice(cut);
  if (cut === 0) rest = restOfReply(problem, good, said, rng);
  else if (at < head.length) rest += restOfReply(problem, good, 0, rng);
  else if (at < segments.length - 1) rest += restOfReply(problem, good, said, rng);
  else if (!good.boxed && !given.endsWith('{')) rest = rest.replace(/\\boxed\{(\d+)\}/, '$1');
  if (wish === 'warm' && !WARM_TAILS.some((phrase) => rest.includes(phrase))) rest += ` ${rng.pick(WARM_TAILS)}`;
  // A space belongs to the word after it, as the tokenizer has it.
  if (given.endsWith(' ')) {
    given = given.slice(0, -1);
    rest = ` ${rest}`;
  }
  return dialogue('broken', [...opening(problem, wish, rng), assistant((given + rest).trimEnd())], undefined, given);
}

function noted(rng: Random): Dialogue {
  const problem = makeProblem(rng, 'train');
  const wish = anyWish(rng);
  const reply = replyText(problem, styleFor(wish, rng), rng);
  return dialogue('noted', [system(noteFor(wish, rng)), user(frameOf(rng) + problem.text), assistant(reply)]);
}

/**
 * One to three complaints, each answered, each answer keeping what was asked before. Mostly the first reply is what the model says
 * by itself, and then it is learned, too; else it breaks the wish on purpose, and is not.
 */
function corrected(rng: Random): Dialogue {
  const problem = makeProblem(rng, 'train');
  const messages = [user(frameOf(rng) + problem.text)];
  const learn: number[] = [];
  let style = habitStyle(rng);
  let wish = rng.weighted(openWishes(style));
  if (rng.chance(0.8)) learn.push(1);
  else style = broken(wish, rng);
  messages.push(assistant(replyText(problem, style, rng)));
  const rounds = rng.weighted([
    [1, 0.6],
    [2, 0.3],
    [3, 0.1],
  ]);
  for (let i = 0; i < rounds; i++) {
    messages.push(user(complaint(wish, rng)));
    style = granted(style, wish, rng);
    learn.push(messages.length);
    messages.push(assistant(replyText(problem, style, rng)));
    const said = wish;
    wish = rng.weighted(openWishes(style).filter(([w]) => !opposes(w, said)));
  }
  return dialogue('corrected', messages, learn);
}

/** What one could still ask for. */
const openWishes = (style: Style): Array<readonly [Wish, number]> => WISHES.filter(([wish]) => !grants(style, wish));

const OPPOSITES: Partial<Record<Wish, readonly Wish[]>> = {
  'no-bold': ['bold', 'markdown'],
  'no-numbers': ['numbers', 'markdown'],
  'no-box': ['box', 'markdown'],
  plain: ['bold', 'numbers', 'box', 'markdown'],
  long: ['short'],
  short: ['long'],
  warm: ['neutral'],
  neutral: ['warm'],
  markdown: ['plain', 'no-bold', 'no-numbers', 'no-box'],
  bold: ['plain', 'no-bold'],
  numbers: ['plain', 'no-numbers'],
  box: ['plain', 'no-box'],
};

const opposes = (a: Wish, b: Wish): boolean => OPPOSITES[b]?.includes(a) ?? false;

/** The same story with one number off, and everything after it following from that. */
function miscalculated(problem: Problem, rng: Random): Problem {
  const at = rng.int(0, problem.steps.length - 1);
  const off = rng.pick([-2, -1, 1, 2]);
  const steps = problem.steps.slice(0, at);
  const slip = problem.steps[at]!;
  steps.push({ ...slip, result: Math.max(0, slip.result + off) });
  for (const next of problem.steps.slice(at + 1)) {
    const again = step(steps.at(-1)!.result, next.op, next.b);
    steps.push({ ...again, result: Math.max(0, Math.round(again.result)) });
  }
  return { ...problem, steps, answer: steps.at(-1)!.result };
}

/** A wrong number is pointed out; the sum is done right, in the same style. Half the time the words come as a hint. */
function wrong(rng: Random): Dialogue {
  const problem = makeProblem(rng, 'train');
  const bad = miscalculated(problem, rng);
  const style = rng.chance(0.6) ? AI_STYLE : anyStyle(rng);
  const question = frameOf(rng) + problem.text;
  const words = rng.chance(0.25) ? `The answer is ${problem.answer}, not ${bad.answer}.` : wrongAnswer(rng);
  const reply = assistant(replyText(problem, style, rng));
  if (rng.chance(0.3)) return dialogue('wrong', [user(question + HINT_TAG + words), reply]);
  return dialogue('wrong', [user(question), assistant(replyText(bad, style, rng)), user(words), reply]);
}

/** Thanks, then sometimes a next problem: what was agreed on still holds. */
function thanked(rng: Random): Dialogue {
  const problem = makeProblem(rng, 'train');
  let style = habitStyle(rng);
  const messages = [user(frameOf(rng) + problem.text), assistant(replyText(problem, style, rng))];
  if (rng.chance(0.5)) {
    const wish = rng.weighted(openWishes(style));
    style = granted(style, wish, rng);
    messages.push(user(complaint(wish, rng)), assistant(replyText(problem, style, rng)));
  }
  messages.push(user(thanks(rng)), assistant(rng.pick(SMALL_TALK.welcome)));
  if (rng.chance(0.5)) {
    const next = makeProblem(rng, 'train');
    messages.push(user(frameOf(rng) + next.text), assistant(replyText(next, style, rng)));
  }
  return dialogue(
    'thanked',
    messages,
    messages.flatMap((message, i) => (message.role === 'assistant' ? [i] : [])),
  );
}

const RULE_QUESTIONS: ReadonlyArray<readonly [Wish, string, string]> = [
  ['no-bold', 'no bold text', 'bold text'],
  ['no-numbers', 'no numbered list', 'a numbered list'],
  ['no-box', 'no boxed answer', 'a boxed answer'],
  ['warm', 'a warm phrase', 'a warm phrase'],
  ['long', 'a detailed reply', 'detail'],
];

const verdict = (yes: boolean): string => (yes ? 'Yes. \\boxed{1}' : 'No. \\boxed{-1}');

/** A judge's question whether a reply has the right number, half the time about a wrong one. */
export function verdictQuestion(problem: Problem, rng: Random): { question: string; said: number; right: boolean } {
  const shown = rng.chance(0.5) ? problem : miscalculated(problem, rng);
  const reply = replyText(shown, rng.chance(0.4) ? AI_STYLE : anyStyle(rng), rng);
  const question = `Grade this reply.\nTask: ${problem.text}\nReply: ${reply}\nIs the answer right?`;
  return { question, said: shown.answer, right: shown.answer === problem.answer };
}

function graded(rng: Random): Dialogue {
  const problem = makeProblem(rng, 'train');
  if (rng.chance(0.5)) {
    const { question, said, right } = verdictQuestion(problem, rng);
    const sums = problem.steps.map((s) => `${s.a} ${s.op} ${s.b} = ${s.result}.`).join(' ');
    return dialogue('graded', [user(question), assistant(`${sums} The reply says ${said}. ${verdict(right)}`)]);
  }
  const style = rng.chance(0.4) ? AI_STYLE : anyStyle(rng);
  const reply = replyText(rng.chance(0.5) ? problem : miscalculated(problem, rng), style, rng);
  const [wish, rule, subject] = rng.pick(RULE_QUESTIONS);
  const kept = grants(style, wish);
  const has = kept === (wish === 'warm' || wish === 'long');
  return dialogue('graded', [
    user(`Grade this reply.\nRule: ${rule}\nReply: ${reply}\nDoes it keep the rule?`),
    assistant(`The reply has ${has ? subject : `no ${subject.replace(/^a /, '')}`}. ${verdict(kept)}`),
  ]);
}

function sums(rng: Random): Dialogue {
  const op = rng.pick(['+', '-', '*'] as const);
  const a = op === '*' ? rng.int(2, 4) : rng.int(2, LARGEST - 2);
  const b = op === '*' ? rng.int(2, 5) : rng.int(1, Math.min(LARGEST_CHANGE, op === '+' ? LARGEST - a : a));
  const s = step(a, op, b);
  const problem: Problem = { text: '', owner: '', things: 'things', steps: [s], answer: s.result };
  const question = rng.pick([`What is ${a} ${op} ${b}?`, `${a} ${op} ${b} = ?`, `How much is ${a} ${op} ${b}?`]);
  return dialogue('sums', [user(question), assistant(replyText(problem, habitStyle(rng), rng))]);
}

function chat(rng: Random): Dialogue {
  const topic = rng.pick(SMALL_TALK.topics);
  return dialogue('chat', [user(rng.pick(topic.said)), assistant(rng.pick(topic.replies))]);
}

/** Shares of the kinds. 'broken' stands at the upper end of the 10 to 15 % that the trial found necessary. */
const KINDS: ReadonlyArray<readonly [(rng: Random) => Dialogue, number]> = [
  [habit, 0.24],
  [hinted, 0.21],
  [brokenReply, 0.14],
  [noted, 0.05],
  [corrected, 0.14],
  [wrong, 0.06],
  [thanked, 0.05],
  [graded, 0.06],
  [sums, 0.03],
  [chat, 0.02],
];

/** The corpus as an endless stream: the same seed, the same talks. */
export function* corpus(seed: string | number): Generator<Dialogue, never> {
  const rng = new Random(`corpus:${seed}`);
  for (;;) yield rng.weighted(KINDS)(rng);
}
