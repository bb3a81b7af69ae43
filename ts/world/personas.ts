/**
 * The people of method.md §8, as simulated users. Each has rules for the form of a reply and looks at nothing but the
 * text: a rule is checked the way a reader's eye does it.
 *
 * The paper's assistant teacher asks for at least 100 words. claw-nano says everything it knows about a story in fifty, so
 * "detailed" is scaled here to DETAILED_WORDS.
 */
import type { Problem } from './problems.js';
import type { Random } from './random.js';
import type { Wish } from './wishes.js';
import { complaint } from './wishes.js';

export const PERSONAS = ['student', 'assistant', 'teacher'] as const;
export type Persona = (typeof PERSONAS)[number];
/** joint: the three take turns, each with their own kind of request */
export const PERSONA_CHOICES = [...PERSONAS, 'joint'] as const;
export type PersonaChoice = (typeof PERSONA_CHOICES)[number];

/** Base replies have about 10 to 20 words, detailed ones 40 to 90. */
export const DETAILED_WORDS = 30;

const BOLD = /\*\*|__\S/;
const NUMBERED = /(^|\n)\s*\d+[.)](\s|$)/;
const BOXED = /\\boxed/;
const WARM =
  /\b(well done|excellent|great job|good job|good work|great work|keep it up|wonderful|fantastic|nice work)\b/i;

export const wordCount = (text: string): number => (text.match(/[\p{L}\p{N}][\p{L}\p{N}'’-]*/gu) ?? []).length;

export interface Rule {
  wish: Wish;
  kept(text: string): boolean;
}

const RULES: Record<Persona, readonly Rule[]> = {
  student: [
    { wish: 'no-bold', kept: (text) => !BOLD.test(text) },
    { wish: 'no-numbers', kept: (text) => !NUMBERED.test(text) },
    { wish: 'no-box', kept: (text) => !BOXED.test(text) },
  ],
  assistant: [{ wish: 'long', kept: (text) => wordCount(text) >= DETAILED_WORDS }],
  teacher: [{ wish: 'warm', kept: (text) => WARM.test(text) }],
};

/** The rules a reply breaks, in the order in which the person notices them. */
export function brokenRules(text: string, persona: Persona): Wish[] {
  return RULES[persona].filter((rule) => !rule.kept(text)).map((rule) => rule.wish);
}

/** An empty reply obeys nobody. */
export function obeys(text: string, persona: Persona): boolean {
  return text.trim() !== '' && brokenRules(text, persona).length === 0;
}

/** The number a reader takes for the answer: the boxed one, else the last in the text; null when there is none. */
export function statedAnswer(text: string): number | null {
  const boxed = [...text.matchAll(/\\boxed\{\s*(-?\d+)\s*\}/g)].at(-1);
  const found = boxed?.[1] ?? text.match(/-?\d+/g)?.at(-1);
  return found === undefined ? null : Number(found);
}

export const correct = (text: string, problem: Problem): boolean => statedAnswer(text) === problem.answer;

/** How each of them brings a problem. The corpus frames problems in the same ways, so no frame is news to the model. */
export const FRAMES: Record<Persona, readonly string[]> = {
  student: ['', 'My homework: ', 'Can you help me with this? ', 'Here is my homework. '],
  assistant: ['I am marking papers and need the solution. ', 'For my marking: ', 'I check the work of my class. '],
  teacher: ['I am writing to a pupil who asks this. ', 'My pupil asks: ', 'A note for my pupil, please. '],
};

export const frame = (persona: Persona, rng: Random): string => rng.pick(FRAMES[persona]);

const WRONG = [
  'That is not right. Please check the number.',
  'The number is wrong. Please try again.',
  'I think the answer is wrong. Can you do it again?',
  'That is not the right answer. Please try again.',
] as const;

const THANKS = [
  'Thanks!',
  'Thank you!',
  'Thanks, that is right.',
  'Great, thank you!',
  'Thank you, that is what I wanted.',
  'Perfect, thanks.',
] as const;

export const wrongAnswer = (rng: Random): string => rng.pick(WRONG);
export const thanks = (rng: Random): string => rng.pick(THANKS);

/** What the person says after reading a reply. */
export interface Reaction {
  content: string;
  /** true: they have what they wanted */ satisfied: boolean;
}

/**
 * A reader's reaction: form first, one broken rule at a time, then the number. The person knows what the answer is (it is
 * their homework, their class), but says only that a number is wrong, not which would be right.
 */
export function react(text: string, persona: Persona, problem: Problem, rng: Random): Reaction {
  const [rule] = brokenRules(text, persona);
  if (rule !== undefined) return { content: complaint(rule, rng), satisfied: false };
  if (text.trim() === '' || !correct(text, problem)) return { content: wrongAnswer(rng), satisfied: false };
  return { content: thanks(rng), satisfied: true };
}
