/**
 * The second world, for models that know something: everyday questions whose answers a keyword can check, and a student who
 * wants one short plain sentence. Facts and how-tos are mixed, because they fail differently: a fact is either known or
 * not, a how-to tempts a model into lists.
 */
import type { Random } from './random.js';

export interface Question {
  text: string;
  /** a right answer holds at least one of these, upper or lower case */ keywords: readonly string[];
}

const ask = (text: string, ...keywords: string[]): Question => ({ text, keywords });

/** Talked about in sessions. */
export const SESSION_QUESTIONS: readonly Question[] = [
  ask('What is the capital of France?', 'paris'),
  ask('What is the capital of Japan?', 'tokyo'),
  ask('What is the capital of Germany?', 'berlin'),
  ask('How many days are in a week?', 'seven', '7'),
  ask('How many legs does a spider have?', 'eight', '8'),
  ask('What color is the sky on a clear day?', 'blue'),
  ask('Which planet is the largest in our solar system?', 'jupiter'),
  ask('Who wrote Romeo and Juliet?', 'shakespeare'),
  ask('What do bees make?', 'honey'),
  ask('What do plants need to grow?', 'water', 'sun', 'light', 'soil'),
  ask('How do I make a cup of tea?', 'boil', 'hot', 'steep', 'water'),
  ask('How do I cook rice?', 'boil', 'water', 'simmer'),
  ask('How do I clean a window?', 'cloth', 'wipe', 'glass cleaner', 'vinegar', 'soap'),
  ask('How can I sleep better?', 'routine', 'schedule', 'dark', 'quiet', 'screen', 'caffeine', 'relax'),
  ask('What is water made of?', 'hydrogen', 'oxygen'),
  ask('At what temperature does water freeze?', '0', 'zero', '32'),
  ask('What is the opposite of hot?', 'cold', 'cool'),
  ask('Which animal is known as the king of the jungle?', 'lion'),
  ask('What language do people speak in Brazil?', 'portuguese'),
  ask('What do cows eat?', 'grass', 'hay'),
  ask('Why do we wear coats in winter?', 'warm', 'cold'),
  ask('What is a dictionary used for?', 'word', 'meaning', 'definition'),
  ask('How do I get rid of a headache?', 'rest', 'water', 'pain', 'medic', 'relax', 'sleep'),
  ask('How do I plant a seed?', 'soil', 'hole', 'dirt'),
  ask('What is the tallest animal in the world?', 'giraffe'),
  ask('What season comes after winter?', 'spring'),
  ask('What is the main ingredient of bread?', 'flour', 'wheat'),
  ask('How many hours are in a day?', '24', 'twenty-four'),
  ask('What is the largest ocean?', 'pacific'),
  ask('How do I wash my hands?', 'soap', 'water', 'rinse'),
  ask('What is a good breakfast?', 'egg', 'fruit', 'oat', 'toast', 'cereal', 'yogurt', 'pancake'),
  ask('Why is exercise good for me?', 'health', 'heart', 'muscle', 'mood', 'weight', 'strength'),
];

/** Measured on, never talked about. How they were chosen and how hard they are: docs/decisions/learning-recipe.md. */
export const HELD_OUT_QUESTIONS: readonly Question[] = [
  ask('How many wheels does a bicycle have?', 'two', '2'),
  ask('How many sides does a triangle have?', 'three', '3'),
  ask('What is a thermometer used for?', 'temperature', 'heat'),
  ask('How can I save money?', 'budget', 'spend', 'expens', 'saving', 'save'),
  ask('Why do we drink water?', 'hydrat', 'body', 'thirst', 'health'),
  ask('What is the capital of Italy?', 'rome'),
  ask('How do I boil an egg?', 'boil', 'water', 'pot'),
  ask('How many months are in a year?', 'twelve', '12'),
  ask('What do cats like to eat?', 'fish', 'meat', 'chicken', 'cat food', 'mice', 'tuna'),
  ask('Who painted the Mona Lisa?', 'leonardo', 'vinci'),
  ask('What is ice made of?', 'water'),
  ask('How can I learn a new language?', 'practice', 'practise', 'listen', 'speak', 'read', 'course'),
  ask('What is the opposite of big?', 'small', 'little', 'tiny'),
  ask('What is the fastest land animal?', 'cheetah'),
  ask('Why do we brush our teeth?', 'clean', 'plaque', 'cavit', 'decay', 'bacteria', 'health'),
  ask('What gas do we need to breathe?', 'oxygen'),
  ask('What is a hammer used for?', 'nail', 'hit', 'strik', 'pound', 'driv'),
  ask('How do I keep food fresh?', 'refrigerat', 'fridge', 'cool', 'cold', 'container', 'airtight', 'freez'),
];

export const MAX_WORDS = 30;
/** a reply that goes on longer than this is too long, whatever it says */
export const MAX_TOKENS = 44;

export type ShortRule = 'too-long' | 'bold' | 'list';

const BOLD = /\*\*|__\S/;
const LIST = /(^|\n)\s*(\d+[.)]|[-*•])\s/;

/** The reply as its reader has it: its words, whether it ended by itself, and how long it was. */
export interface ShownReply {
  text: string;
  /** false: cut off at the limit */ ended: boolean;
  tokens: number;
}

/** What the student minds about a reply, in the order of noticing. */
export function brokenShortRules(reply: ShownReply): ShortRule[] {
  const words = reply.text.split(/\s+/).filter((word) => word !== '').length;
  const broken: ShortRule[] = [];
  if (LIST.test(reply.text)) broken.push('list');
  if (BOLD.test(reply.text)) broken.push('bold');
  if (words > MAX_WORDS || !reply.ended || reply.tokens > MAX_TOKENS) broken.push('too-long');
  return broken;
}

export const obeysShort = (reply: ShownReply): boolean =>
  reply.text.trim() !== '' && brokenShortRules(reply).length === 0;

export function answersQuestion(text: string, question: Question): boolean {
  const lower = text.toLowerCase();
  return question.keywords.some((keyword) => new RegExp(`(^|[^a-z0-9])${keyword}`).test(lower));
}

const COMPLAINTS: Record<ShortRule, readonly string[]> = {
  'too-long': [
    'Too long. Please answer in one short sentence.',
    'Please answer in one short sentence.',
    'Can you say that in one short sentence?',
    'That is too long for me. One short sentence, please.',
  ],
  list: [
    'Please no list. Answer in one short sentence.',
    "I don't want a list. Just one short sentence, please.",
    'No lists, please. Say it in one short sentence.',
  ],
  bold: ['Please no bold text. Answer in one short plain sentence.', 'No bold, please. Just one short plain sentence.'],
};

const WRONG = ['That is not right. Please try again.', 'I think that is wrong. Can you try again?'] as const;
const THANKS = ['Thanks!', 'Thank you, that is what I wanted.', 'Perfect, thanks.', 'Great, thank you!'] as const;

/** The student's next words, and whether they have what they wanted. */
export function reactToAnswer(
  reply: ShownReply,
  question: Question,
  rng: Random,
): { content: string; satisfied: boolean } {
  const [rule] = brokenShortRules(reply);
  if (rule !== undefined) return { content: rng.pick(COMPLAINTS[rule]), satisfied: false };
  if (reply.text.trim() === '' || !answersQuestion(reply.text, question))
    return { content: rng.pick(WRONG), satisfied: false };
  return { content: rng.pick(THANKS), satisfied: true };
}
