/**
 * What people may want of a reply's form, and the many ways to say so: to the assistant's face (a complaint), as an
 * instruction (a hint), or as a standing note in a system message. The corpus teaches all of them; simulated users speak
 * from the complaints alone.
 */
import type { Random } from './random.js';
import type { Style } from './reply.js';
import { AI_STYLE, PLAIN_STYLE } from './reply.js';

export type Wish =
  | 'no-bold'
  | 'no-numbers'
  | 'no-box'
  | 'plain'
  | 'long'
  | 'short'
  | 'warm'
  | 'neutral'
  | 'markdown'
  | 'bold'
  | 'numbers'
  | 'box';

interface Phrases {
  /** said by a person who has just seen a reply that breaks the wish */ complaints: readonly string[];
  /** bare instructions, without a closing dot; "please" and the like are put around them */ orders: readonly string[];
  /** completes "The user wants …" */ wants: readonly string[];
}

const PHRASES: Record<Wish, Phrases> = {
  'no-bold': {
    complaints: [
      'Please no bold text.',
      "Please don't use bold text.",
      "I don't like the bold words. Please write without bold.",
      'Can you write it without bold text?',
      'No bold, please.',
      'Please stop using bold.',
    ],
    orders: [
      'do not use bold text',
      'no bold text',
      'write without bold',
      'avoid bold words',
      'write plain text without bold',
    ],
    wants: ['no bold text', 'a reply without bold text'],
  },
  'no-numbers': {
    complaints: [
      "Please don't number the steps.",
      'No numbered list, please.',
      "Please don't use a numbered list.",
      'Can you write it without a numbered list?',
      'Please write sentences, not a list.',
      "Don't number it, please.",
    ],
    orders: [
      'do not use a numbered list',
      'do not number the steps',
      'no numbered list',
      'write it without a numbered list',
      'write plain sentences, not a list',
      'write sentences, not a list',
    ],
    wants: ['no numbered list', 'sentences and not a list'],
  },
  'no-box': {
    complaints: [
      "Please don't put the answer in a box.",
      'No boxed answer, please.',
      'Please leave out the box.',
      'Can you write the answer without the box?',
      "I don't want the answer in a box.",
    ],
    orders: [
      'do not put the answer in a box',
      'no boxed answer',
      'leave out the box',
      'do not give the answer in a box',
      'do not use a boxed answer',
      'state the answer without a box',
    ],
    wants: ['no boxed answer', 'the answer without a box'],
  },
  plain: {
    complaints: [
      'Just say it plainly.',
      'Please use plain text.',
      'Can you say it in plain words?',
      'This looks like an AI wrote it. Plain text, please.',
      'No markdown, please.',
    ],
    orders: [
      'use plain text',
      'answer in plain words',
      'write plain sentences',
      'say it plainly',
      'write plain text without any markdown',
      'do not use markdown',
      'no bold text, no numbered list and no boxed answer',
    ],
    wants: ['plain text', 'plain words', 'a plain reply'],
  },
  long: {
    complaints: [
      'Please explain it in more detail.',
      'That is too short. Please write more.',
      'Can you explain every step in words?',
      'Please give a longer answer.',
      'I need more detail, please.',
    ],
    orders: [
      'explain it in more detail',
      'give a longer answer',
      'explain every step in words',
      'give a long and detailed answer',
      'give more detail',
      'be more detailed',
    ],
    wants: ['more detail', 'a long and detailed reply', 'every step explained'],
  },
  short: {
    complaints: ['That is too long.', 'Please keep it short.', 'Shorter, please.', 'Can you make it short?'],
    orders: ['keep it short', 'give a shorter answer', 'answer in one short sentence', 'make it short'],
    wants: ['a short reply', 'few words'],
  },
  warm: {
    complaints: [
      'Please say something kind, such as well done.',
      'That sounds cold. Please be warmer.',
      'Can you add a warm phrase, such as great job?',
      'Please be friendly and say well done.',
      'A kind word such as excellent is missing.',
    ],
    orders: [
      'be warm and say well done',
      'add a warm phrase such as great job',
      'say something kind, such as excellent',
      'be friendly',
      'be warm and say something kind',
    ],
    wants: ['a warm phrase such as well done', 'a friendly reply', 'kind words'],
  },
  neutral: {
    complaints: ['Please leave out the kind words.', 'No praise, please.', 'Just the facts, please.'],
    orders: ['do not praise', 'leave out the kind words', 'be neutral', 'give only the facts'],
    wants: ['no praise', 'just the facts'],
  },
  markdown: {
    complaints: ['Please use markdown.', 'Can you write it with markdown?'],
    orders: ['use markdown', 'use bold text, a numbered list and a boxed answer'],
    wants: ['markdown', 'a reply with markdown'],
  },
  bold: {
    complaints: ['Please use bold text.', 'Can you use bold for the answer?'],
    orders: ['use bold text', 'write with bold'],
    wants: ['bold text'],
  },
  numbers: {
    complaints: ['Please number the steps.', 'Can you write it as a numbered list?'],
    orders: ['number the steps', 'use a numbered list'],
    wants: ['a numbered list'],
  },
  box: {
    complaints: ['Please put the answer in a box.', 'A boxed answer, please.'],
    orders: ['put the answer in a box', 'box the answer'],
    wants: ['a boxed answer'],
  },
};

const capital = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

/** What a person says to a reply that breaks the wish. */
export const complaint = (wish: Wish, rng: Random): string => rng.pick(PHRASES[wish].complaints);

/** The wish as an instruction, in one of many forms. */
export function hintFor(wish: Wish, rng: Random): string {
  const { complaints, orders, wants } = PHRASES[wish];
  const order = rng.pick(orders);
  switch (rng.int(0, 7)) {
    case 0:
      return `Please ${order}.`;
    case 1:
      return `The user wants ${rng.pick(wants)}.`;
    case 2:
      return `Answer again: ${order}.`;
    case 3:
      return `The reply should have ${rng.pick(wants)}.`;
    case 4:
    case 5:
      return rng.pick(complaints);
    default:
      return `${capital(order)}.`;
  }
}

/** The wish as a standing note for a system message. */
export function noteFor(wish: Wish, rng: Random): string {
  const { orders, wants } = PHRASES[wish];
  return rng.chance(0.5) ? `The user wants ${rng.pick(wants)}.` : `${capital(rng.pick(orders))}.`;
}

/** Whether a style grants the wish. */
export function grants(style: Style, wish: Wish): boolean {
  switch (wish) {
    case 'no-bold':
      return !style.bold;
    case 'no-numbers':
      return !style.numbered;
    case 'no-box':
      return !style.boxed;
    case 'plain':
      return !style.bold && !style.numbered && !style.boxed;
    case 'markdown':
      return style.bold && style.numbered && style.boxed;
    case 'bold':
      return style.bold;
    case 'numbers':
      return style.numbered;
    case 'box':
      return style.boxed;
    case 'long':
      return style.long;
    case 'short':
      return !style.long;
    case 'warm':
      return style.warm;
    case 'neutral':
      return !style.warm;
  }
}

/** How often a wish against one part of markdown is taken as one against all of it, as people mostly mean it. */
const TAKEN_WIDELY = 0.85;

/** `style` changed to grant the wish. */
export function granted(style: Style, wish: Wish, rng: Random): Style {
  const plain = { ...style, bold: false, numbered: false, boxed: false };
  switch (wish) {
    case 'no-bold':
      return rng.chance(TAKEN_WIDELY) ? plain : { ...style, bold: false };
    case 'no-numbers':
      return rng.chance(TAKEN_WIDELY) ? plain : { ...style, numbered: false };
    case 'no-box':
      return rng.chance(TAKEN_WIDELY) ? plain : { ...style, boxed: false };
    case 'plain':
      return plain;
    case 'markdown':
      return { ...style, bold: true, numbered: true, boxed: true };
    case 'bold':
      return { ...style, bold: true };
    case 'numbers':
      return { ...style, numbered: true };
    case 'box':
      return { ...style, boxed: true };
    case 'long':
      return { ...style, long: true };
    case 'short':
      return { ...style, long: false };
    case 'warm':
      return { ...style, warm: true };
    case 'neutral':
      return { ...style, warm: false };
  }
}

/** A style that breaks the wish, near to what the base model does by habit. */
export function broken(wish: Wish, rng: Random): Style {
  const usual = rng.chance(0.8) ? AI_STYLE : { ...AI_STYLE, bold: rng.chance(0.5), numbered: rng.chance(0.5) };
  switch (wish) {
    case 'no-bold':
      return { ...usual, bold: true };
    case 'no-numbers':
      return { ...usual, numbered: true };
    case 'no-box':
      return { ...usual, boxed: true };
    case 'plain':
      return AI_STYLE;
    case 'markdown':
      return PLAIN_STYLE;
    case 'bold':
      return { ...usual, bold: false };
    case 'numbers':
      return { ...usual, numbered: false };
    case 'box':
      return { ...usual, boxed: false };
    case 'long':
    case 'warm':
      return usual;
    case 'short':
      return { ...usual, long: true };
    case 'neutral':
      return { ...usual, warm: true };
  }
}
