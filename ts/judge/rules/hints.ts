/** Instructions to hints: one sentence each, in a few phrasings, the way a teacher would be told (method.md §1). */
import { wordsIn } from './form.js';

/** a hint has more than this many characters (method.md §1) */
export const MIN_HINT = 10;
const MAX_HINT = 240;

/**
 * How common wishes are best put to a teacher. "Answer in one short sentence." taught a public model far better than any longer
 * phrasing in our trials; a wish not named here keeps the user's own words.
 */
const CANON: ReadonlyArray<readonly [RegExp, string]> = [
  [/\bone (?:short )?(?:plain )?sentence\b/i, 'Answer in one short sentence.'],
  [/\b(?:without|not?|stop|avoid|leave out|drop|remove|skip|omit)\b.*\bbold/i, 'Write plain text without bold.'],
  [
    /\b(?:without|not?|stop|avoid|leave out|drop|remove|skip|omit)\b.*\b(?:box|boxed)\b/i,
    'State the answer without a box.',
  ],
  [
    /\b(?:without|not?|stop|avoid|leave out|drop|remove|skip|omit)\b.*\b(?:lists?|bullets?|number(?:ed|ing)?|points)\b/i,
    'Write plain sentences, not a list.',
  ],
  [
    /\b(?:without|not?|stop|avoid|leave out|drop|remove|skip|omit)\b.*\b(?:markdown|headings?|formatting|asterisks?)\b|\bplain(?:ly)?\b/i,
    'Write plain text without any markdown.',
  ],
  [/\b(?:without|not?|stop|avoid|leave out|drop|remove|skip|omit)\b.*\b(?:emojis?)\b/i, 'Write without emojis.'],
  [
    /\b(?:without|not?|stop|avoid|leave out|drop|remove|skip|omit)\b.*\b(?:praise|kind words?)\b/i,
    'Give only the facts.',
  ],
  [
    /\b(?:shorter|short|brief(?:er)?|concise|terse|less long|fewer words|write less)\b/i,
    'Answer in one short sentence.',
  ],
  [
    /\b(?:longer|long|detail(?:s|ed)?|thorough|elaborate|expand|write more|depth)\b/i,
    'Give a long and detailed answer.',
  ],
  [/\b(?:warm(?:er|th)?|friendl(?:y|ier)|kind(?:er)?|nicer|encouraging)\b/i, 'Be warm and say something kind.'],
  [/\b(?:simpl(?:er|e|ify)|easier)\b/i, 'Use simple words and short sentences.'],
  [/\bcasual|informal\b/i, 'Write in a casual tone.'],
  [/\bformal|professional\b/i, 'Write in a formal tone.'],
];

/** An order someone can be asked to follow; "The answer should be 7" is none. */
const isImperative = (order: string): boolean => !/^(?:the|it|they|your?|this|that)\b/i.test(order);

const canonOf = (order: string): string | null => CANON.find(([wish]) => wish.test(order))?.[1] ?? null;

/** Of several ways to say one wish the last stays: "Too long. One short sentence, please." wants one short sentence. */
function distinct(orders: readonly string[]): string[] {
  return orders.filter((order, i) => {
    const canon = canonOf(order);
    return canon === null || !orders.slice(i + 1).some((later) => canonOf(later) === canon);
  });
}

/** At most `max` phrasings, shortest first; none where nothing usable was said. */
export function phrasings(corrections: readonly string[], max: number): string[] {
  const orders = distinct(dedupe(corrections.map(asOrder)));
  if (orders.length === 0) return [];
  const joined = sentence(orders.map((order, i) => (i === 0 ? order : lowerFirst(order))).join(' and '));
  const canons = orders.map(canonOf).filter((canon) => canon !== null);
  const polite = isImperative(joined) ? [`Please ${lowerFirst(joined)}`] : [];
  const again = /^(?:answer|the reply)\b/i.test(joined) ? [] : [`Answer again: ${lowerFirst(joined)}`];
  return keepHints([joined, ...canons, ...polite, ...orders.map(sentence), ...again], max);
}

/** Drops what is too short or said already, keeps the first `max`, shortest first (ties: as given). */
export function keepHints(candidates: readonly string[], max: number): string[] {
  const usable = dedupe(candidates.map((hint) => hint.trim())).filter(
    (hint) => hint.length > MIN_HINT && hint.length <= MAX_HINT,
  );
  return usable.slice(0, max).sort((a, b) => a.length - b.length);
}

function dedupe(texts: readonly string[]): string[] {
  const seen = new Set<string>();
  return texts.filter((text) => {
    const key = wordsIn(text).join(' ');
    if (key === '' || seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

const lowerFirst = (text: string): string =>
  /^(?:I|I'[a-z]+)\b/.test(text) ? text : text.charAt(0).toLowerCase() + text.slice(1);
const upperFirst = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const asOrder = (text: string): string =>
  upperFirst(
    text
      .replace(/[\s.!?,;:]+$/, '')
      .replace(/\s+/g, ' ')
      .trim(),
  );
const sentence = (order: string): string => `${order}.`;
