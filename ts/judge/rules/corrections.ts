/**
 * Does a clause ask for another reply, and for what? Each rule turns one way of saying so into an instruction in the
 * imperative, made of the user's own words. '' is a complaint that does not say what would be better; null is neither.
 */
import { isOnlyForm, namesForm, namesReply, objectIsForm, wordsIn } from './form.js';
import { peeled } from './peel.js';

interface Rule {
  pattern: RegExp;
  read(groups: string[], all: string): string | null;
}

const rule = (pattern: RegExp, read: Rule['read']): Rule => ({ pattern, read });
const anyOf = (...parts: RegExp[]): string => `(?:${parts.map(({ source }) => source).join('|')})`;

const DEGREE = '(?:still |way |far |much |a bit |a little |just |really )*';
const THE_REPLY = anyOf(
  /it|that|this/,
  /the (?:\w+ )?(?:answer|result|reply|response|number|output|text)/,
  /your (?:\w+ )?(?:answer|reply|response|text)/,
);
const SHOULD = anyOf(/should|must|ought to/, /needs? to|has to/, /(?:is|was) supposed to/);
const JUDGED = 'too|still|so|not|wrong|right|correct|incorrect|false|off|bad|missing|good|great|fine|unclear';
const IMPERATIVES =
  'use|write|say|tell|give|make|keep|put|answer|reply|respond|explain|format|phrase|express|state|add|include|show|describe|list|number|' +
  'spell|speak|talk|sound|start|begin|end|finish|mention|rewrite|rephrase|reword|shorten|simplify|expand|elaborate|stick|limit|round|call|' +
  'leave|do|try|repeat|redo|break|stay|focus|change|get';

/** to do again, to look again: says that, not what */
const VAGUE = new RegExp(
  String.raw`^(?:try|do|redo|repeat|check|fix|correct|say|answer|write|rewrite|start|go|look|think|read|count|calculate|solve)\b` +
    String.raw`(?:\s+(?:it|this|that|them|again|over|once|more|one|time|the|your|my|numbers?|answer|question|result|reply|calculation|sum|maths?|work` +
    '|at|carefully|please|properly|better|harder|right|correctly|now|another))*$',
  'i',
);
const AGAIN =
  /\b(?:again|over|once more|redo|check|better|properly|correctly|carefully|another)\b|\b(?:fix|correct)\s/i;

/** verbs that mean the reply even with nothing after them */
const ABOUT_REPLY = /^(?:rewrite|rephrase|reword|shorten|simplify|expand|elaborate|redo)$/i;

const OPPOSITE: ReadonlyArray<readonly [RegExp, string]> = [
  [/^(?:long|wordy|verbose|lengthy|much)\b/i, 'Give a shorter answer'],
  [/^(?:short|brief|terse)\b/i, 'Give a longer and more detailed answer'],
  [/^(?:complicated|complex|technical|difficult|hard|advanced)\b/i, 'Explain it in simpler words'],
  [/^(?:formal|stiff|official)\b/i, 'Use a more casual tone'],
  [/^(?:informal|casual|chatty)\b/i, 'Use a more formal tone'],
  [/^(?:cold|harsh|rude|robotic|unfriendly|dry|blunt|impersonal)\b/i, 'Be warmer and friendlier'],
  [/^(?:vague|general|unclear)\b/i, 'Be more specific'],
  [/^(?:simple|easy|basic|childish)\b/i, 'Go into more depth'],
];
const less = ([quality]: string[]): string =>
  OPPOSITE.find(([word]) => word.test(quality!))?.[1] ?? `Be less ${quality}`;

/** In this order: the first pattern that fits decides. */
const RULES: readonly Rule[] = [
  // what not to do
  rule(
    /^(?:do not|don't|dont|never) (?:worry|mind|bother|hesitate|stress|panic|get me wrong|(?:i|we|they|know)\b|you (?:think|agree|have|know)\b)/i,
    () => null,
  ),
  rule(/^(?:stop|quit) (?:\w+ing\b)/i, (_, all) => all),
  rule(/^(?:stop|quit)\b/i, () => null),
  rule(/^(?:do not|don't|dont|never|avoid)\s+\S/i, (_, all) => all.replace(/^(?:don't|dont)\b/i, 'do not')),
  rule(
    /^no (?:problem|worries|thanks?|need|idea|doubt|rush|one\b|way\b|matter|longer|(?:more |further |other )?questions?|clue|kidding|big deal|offen[cs]e)/i,
    () => null,
  ),
  rule(/^no(?: more)? ([a-z].*)/i, ([what]) => (wordsIn(what!).length <= 6 ? doNotUse(what!) : null)),
  rule(/^not (?:so|that|as|too|quite so) ([a-z]+)/i, less),
  rule(/^not (?:like (?:that|this)|what i .*|(?:quite|really|exactly|at all)\b.*|good|it)$/i, () => ''),
  rule(/^not (?:an? |in (?:an? )?|as (?:an? )?)?([a-z].*)/i, ([what]) => (namesForm(what!) ? doNotUse(what!) : null)),
  rule(/^without (.+)/i, ([what]) => (wordsIn(what!).length <= 8 ? `Write without ${what}` : null)),
  rule(
    /^i (?:do not|don't|did not|didn't) (?:want|like|need|ask for|care for) (?!to\b)(.+)|^i (?:hate|dislike|can't stand|cannot stand) (.+)/i,
    readDislike,
  ),
  rule(/^you (?:keep|kept) (\w+ing\b.*)/i, ([what]) => `Stop ${what}`),
  rule(/^you (?:still |always |again )*(?:use|used|wrote|write|put|gave|added|are using) (.+)/i, ([what]) =>
    namesForm(what!) ? doNotUse(what!) : null,
  ),
  // too much of something
  rule(
    new RegExp(
      `(?:^|\\b(?:is|are|was|'s|looks?|sounds?|seems?|feels?|got|become)\\s+)${DEGREE}too ([a-z]+)(?:$|,| for )`,
      'i',
    ),
    less,
  ),
  rule(
    /\b(?:sounds?|feels?|reads?|seems?) (?:so |very |really |rather |a bit |quite )?(cold|harsh|rude|robotic|unfriendly|stiff|dry|formal|impersonal|vague)\b/i,
    less,
  ),
  // what was missing
  rule(/^(.{2,60}?) (?:is|are) missing\b/i, ([what]) => `Include ${what}`),
  rule(/^you (?:forgot|have forgotten|neglected) to (.+)/i, ([what]) => `Remember to ${what}`),
  rule(
    /^you (?:forgot|missed|left out|skipped|omitted|(?:did not|didn't) (?:include|mention|add)) (.+)/i,
    ([what]) => `Include ${what}`,
  ),
  // what would have been right
  rule(new RegExp(`^${THE_REPLY} ${SHOULD} (.+)`, 'i'), readShould),
  rule(
    new RegExp(
      `^(?:the )?(?:right |correct |real |actual |true )?(?:answer|result|number) (?:is|was|would be) (?!(?:${JUDGED})\\b)(.{1,80})$`,
      'i',
    ),
    ([what]) => `The answer should be ${what}`,
  ),
  rule(
    /^(?:it's|it is|that's|that is) (.{1,40}?),? (?:and )?not (.{1,40})$/i,
    ([yes, no]) => `It is ${yes}, not ${no}`,
  ),
  rule(/^i (?:asked|was asking) for (.+)/i, ([what]) => `Give ${what}`),
  rule(
    /^i (?:said|meant|wanted|expected|was hoping for) (?!to\b)(.+)/i,
    ([what]) => correctionIn(what!) ?? (namesForm(what!) ? give(what!) : `The user wants ${what}`),
  ),
  rule(
    /^i(?: want| need| prefer| would like| would prefer| would love|'d like|'d prefer|'d love) (?!to\b)(.+)/i,
    ([what]) => (objectIsForm(what!) ? give(what!) : null),
  ),
  // how to do it
  rule(/^(?:only|just) (.+)/i, ([what]) =>
    isOnlyForm(what!) ? order(what!).replace(/^Give /, 'Give only ') : correctionIn(what!),
  ),
  rule(/^be (?!right back|back)\S/i, (_, all) => all),
  rule(/^use (?!(?:it|this|that|the (?:above|following))\b)(.+)/i, (_, all) =>
    wordsIn(all).length <= 14 ? all : null,
  ),
  rule(/^(?:leave out|leave off|drop|skip|remove|omit|cut|lose|get rid of) (.+)/i, ([what], all) =>
    namesForm(what!) || /\b(?:words?|part|bit)\b/i.test(what!) ? all : null,
  ),
  rule(new RegExp(`^(?:${IMPERATIVES}) .*\\b(?:instead|rather than)\\b`, 'i'), (_, all) => all),
  rule(new RegExp(`^(${IMPERATIVES})\\b\\s*(.*)$`, 'i'), readImperative),
  rule(
    /^(?:shorter|longer|briefer|simpler|warmer|friendlier|clearer|slower|louder|nicer)\b/i,
    (_, all) => `Make it ${all}`,
  ),
  rule(/^.+$/, (_, all) => (isOnlyForm(all) ? order(all) : null)),
];

export function correctionIn(clause: string): string | null {
  const core = peeled(clause);
  if (VAGUE.test(core)) return AGAIN.test(core) ? '' : null;
  for (const { pattern, read } of RULES) {
    const match = core.match(pattern);
    if (match !== null) return read(groupsOf(match), core);
  }
  return null;
}

/** the groups that took part, in order */
const groupsOf = ([, ...groups]: RegExpMatchArray): string[] => groups.filter((group) => group !== undefined);

const ARTICLE = /^(?:the|your|these|those|this|all|any|so many|so much|such)\s+/i;
const SINGULAR = /\b(?:list|box|table|heading|header|greeting|summary|introduction|disclaimer|paragraph|answer)$/i;

function doNotUse(thing: string): string {
  if (/^(?:the|your|an?) (?:answer|reply|response)\b/i.test(thing)) return `Do not give ${thing}`;
  const bare = thing.replace(ARTICLE, '').replace(/\s+(?:at all|again|anymore|any more)$/i, '');
  return SINGULAR.test(bare) && !/^an?\s/i.test(bare) ? `Do not use a ${bare}` : `Do not use ${bare}`;
}

const give = (thing: string): string =>
  /\b(?:tone|style|format|language|voice|text|markdown|bold|italics|tables?|bullets?|headings?|words|prose)$/i.test(
    thing,
  )
    ? `Use ${thing}`
    : `Give ${thing}`;

/** A fragment of form as an order. */
function order(fragment: string): string {
  if (/^at (?:least|most)\b/i.test(fragment)) return `Write ${fragment}`;
  if (/^(?:in|with|by|as|like)\b/i.test(fragment)) return `Answer ${fragment}`;
  if (/^(?:shorter|longer|simpler|less|warmer|friendlier|clearer)\b/i.test(fragment)) return `Make it ${fragment}`;
  return /\b(?:sentences?|words|paragraphs?|lines?)$/i.test(fragment) && !/^plain words$/i.test(fragment)
    ? `Answer in ${fragment}`
    : give(fragment);
}

function readShould([rest]: string[], all: string): string {
  if (/^have\b/i.test(rest!)) return '';
  return all
    .replace(/^(?:it|that|this|your (?:answer|reply|response|text))\b/i, 'the reply')
    .replace(/\b(?:was|is) supposed to\b/i, 'should');
}

function readDislike([what]: string[]): string | null {
  if (/^(?:it|this|that)\b/i.test(what!)) return '';
  if (namesForm(what!)) return doNotUse(what!);
  return namesReply(what!) ? '' : null;
}

function readImperative([verb, rest]: string[], all: string): string | null {
  if (ABOUT_REPLY.test(verb!)) return rest === '' || namesReply(rest!) || namesForm(rest!) ? all : null;
  if (/\bwithout\b/i.test(rest!) && (namesReply(rest!) || namesForm(rest!))) return all;
  if (/^(?:more|less|a bit more|a little more)$/i.test(rest!)) return all;
  return rest !== '' && wordsIn(rest!).length <= 16 && objectIsForm(rest!) ? all : null;
}
