/**
 * Small arithmetic stories: who, what, where, one to three things that happen, one question. Every number stays small, so
 * that a model of a million parameters can be right nearly always and a fall in correctness means something.
 *
 * A problem belongs to one split by the hash of its text. The corpus trains on 'train' only; the demo talks about
 * 'session' problems and measures on 'held-out' ones, so no figure is about a story the model has seen.
 */
import { hashText, Random } from './random.js';

export type Operation = '+' | '-' | '*' | '/';

/** One thing that happens: a op b = result. */
export interface Step {
  a: number;
  op: Operation;
  b: number;
  result: number;
}

export interface Problem {
  /** the story and its question */ text: string;
  /** whose things */ owner: string;
  /** plural of what is counted */ things: string;
  steps: Step[];
  answer: number;
}

export type Split = 'train' | 'session' | 'held-out';

const NAMES = [
  ['Tom', 'he'],
  ['Mia', 'she'],
  ['Ben', 'he'],
  ['Ana', 'she'],
  ['Sam', 'he'],
  ['Lily', 'she'],
  ['Max', 'he'],
  ['Eva', 'she'],
  ['Leo', 'he'],
  ['Nina', 'she'],
  ['Paul', 'he'],
  ['Rosa', 'she'],
  ['Omar', 'he'],
  ['Lena', 'she'],
  ['Jack', 'he'],
  ['Ella', 'she'],
] as const;

const FOOD = ['apples', 'pears', 'plums', 'nuts', 'eggs', 'cakes', 'lemons', 'carrots'] as const;
const GOODS = ['books', 'pens', 'coins', 'stamps', 'cards', 'stones', 'shells', 'beads', 'balls', 'toys'] as const;
const CREATURES = ['birds', 'cats', 'ducks', 'dogs', 'bees', 'frogs'] as const;
const PLACES = ['garden', 'park', 'field', 'yard', 'barn', 'street'] as const;
const SHOPS = ['shop', 'market', 'fair'] as const;
const HOLDERS = ['boxes', 'bags', 'baskets'] as const;

/** No sum grows beyond this and nothing falls below zero. */
export const LARGEST = 20;
/** the largest number that comes or goes in one event */
export const LARGEST_CHANGE = 9;

const apply: Record<Operation, (a: number, b: number) => number> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
};

export const step = (a: number, op: Operation, b: number): Step => ({ a, op, b, result: apply[op](a, b) });

interface Telling {
  sentences: string[];
  steps: Step[];
  count: number;
}

function increase(tale: Telling, rng: Random, say: (b: number) => string): void {
  const b = rng.int(2, Math.min(LARGEST_CHANGE, LARGEST - tale.count));
  tale.sentences.push(say(b));
  tale.steps.push(step(tale.count, '+', b));
  tale.count += b;
}

function decrease(tale: Telling, rng: Random, say: (b: number) => string): void {
  const b = rng.int(2, Math.min(LARGEST_CHANGE, tale.count - 1));
  tale.sentences.push(say(b));
  tale.steps.push(step(tale.count, '-', b));
  tale.count -= b;
}

/** Makes `count` of a tale go up or down, whichever the numbers allow. */
function happen(tale: Telling, rng: Random, up: (b: number) => string, down: (b: number) => string): void {
  const mayGrow = tale.count <= LARGEST - 4;
  const mayShrink = tale.count >= 4;
  if (mayGrow && (!mayShrink || rng.chance(0.5))) increase(tale, rng, up);
  else decrease(tale, rng, down);
}

const capital = (word: string): string => word[0]!.toUpperCase() + word.slice(1);

/** A person with things of their own: gets, buys, loses, gives away, shares. */
function ownedStory(rng: Random, events: number): Problem {
  const [name, he] = rng.pick(NAMES);
  const [friend] = rng.pick(NAMES.filter(([n]) => n !== name));
  const edible = rng.chance(0.45);
  const things: string = edible ? rng.pick(FOOD) : rng.pick(GOODS);
  const he2 = capital(he);
  const tale: Telling = { sentences: [], steps: [], count: 0 };
  let left = events;

  if (rng.chance(0.25)) {
    const boxes = rng.int(2, 4);
    const each = rng.int(2, Math.min(5, Math.floor(LARGEST / boxes)));
    const holder = rng.pick(HOLDERS);
    tale.sentences.push(
      rng.pick([
        `${name} has ${boxes} ${holder} with ${each} ${things} in each.`,
        `${name} buys ${boxes} ${holder}. Each has ${each} ${things}.`,
      ]),
    );
    tale.steps.push(step(boxes, '*', each));
    tale.count = boxes * each;
    left--;
  } else {
    tale.count = rng.int(3, 16);
    tale.sentences.push(
      rng.pick([
        `${name} has ${tale.count} ${things}.`,
        `${name} buys ${tale.count} ${things} at the ${rng.pick(SHOPS)}.`,
        `${name} finds ${tale.count} ${things} in the ${rng.pick(PLACES)}.`,
      ]),
    );
  }

  const shares = left > 0 && rng.chance(0.2) && divisors(tale.count).length > 0;
  if (shares) left = 1;
  while (left > (shares ? 1 : 0)) {
    happen(
      tale,
      rng,
      (b) =>
        rng.pick([
          `${he2} gets ${b} more.`,
          `${friend} gives ${name} ${b} more.`,
          `Then ${he} buys ${b} more ${things}.`,
          `${he2} finds ${b} more in the ${rng.pick(PLACES)}.`,
        ]),
      (b) =>
        rng.pick([
          `${he2} gives ${b} to ${friend}.`,
          `Then ${he} loses ${b} of them.`,
          `${he2} sells ${b} at the ${rng.pick(SHOPS)}.`,
          edible ? `${he2} eats ${b} of them.` : `${he2} gives away ${b} ${things}.`,
        ]),
    );
    left--;
  }
  if (shares) {
    const k = rng.pick(divisors(tale.count));
    tale.sentences.push(`${he2} shares them with ${k} friends.`, `How many ${things} does each friend get?`);
    tale.steps.push(step(tale.count, '/', k));
    tale.count /= k;
  } else {
    tale.sentences.push(rng.pick([`How many ${things} does ${name} have now?`, `How many does ${he} have now?`]));
  }
  return { text: tale.sentences.join(' '), owner: name, things, steps: tale.steps, answer: tale.count };
}

/** Numbers of friends among whom `count` things can be shared evenly, at least two each. */
function divisors(count: number): number[] {
  return [2, 3, 4, 5].filter((k) => count % k === 0 && count / k >= 2);
}

/** Creatures at a place: they come and go. */
function placeStory(rng: Random, events: number): Problem {
  const things = rng.pick(CREATURES);
  const place = rng.pick(PLACES);
  const tale: Telling = { sentences: [], steps: [], count: rng.int(3, 16) };
  tale.sentences.push(
    rng.pick([`There are ${tale.count} ${things} in the ${place}.`, `${tale.count} ${things} are in the ${place}.`]),
  );
  for (let i = 0; i < events; i++) {
    happen(
      tale,
      rng,
      (b) => rng.pick([`${b} more ${things} come.`, `Then ${b} more come to the ${place}.`]),
      (b) => rng.pick([`${b} of them go away.`, `Then ${b} ${things} leave the ${place}.`]),
    );
  }
  tale.sentences.push(rng.pick([`How many ${things} are there now?`, `How many are in the ${place} now?`]));
  return { text: tale.sentences.join(' '), owner: `the ${place}`, things, steps: tale.steps, answer: tale.count };
}

function anyProblem(rng: Random): Problem {
  const events = rng.weighted([
    [1, 0.35],
    [2, 0.45],
    [3, 0.2],
  ]);
  return rng.chance(0.75) ? ownedStory(rng, events) : placeStory(rng, events);
}

export function splitOf(problem: Problem): Split {
  const bucket = hashText(problem.text) % 8;
  return bucket === 0 ? 'held-out' : bucket === 1 ? 'session' : 'train';
}

/** A problem of the given split. */
export function makeProblem(rng: Random, split: Split): Problem {
  for (;;) {
    const problem = anyProblem(rng);
    if (splitOf(problem) === split) return problem;
  }
}

/** `count` different problems of a split, always the same for the same seed. */
export function problemSet(seed: string | number, split: Split, count: number): Problem[] {
  const rng = new Random(`problems:${split}:${seed}`);
  const seen = new Map<string, Problem>();
  while (seen.size < count) {
    const problem = makeProblem(rng, split);
    seen.set(problem.text, problem);
  }
  return [...seen.values()];
}
