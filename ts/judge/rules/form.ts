/** Words about how a reply is made: they tell a wish about the reply from a new task. English. */

const TERMS = [
  'bold',
  'italics?',
  'markdown',
  'headings?',
  'headers?',
  'bullets?',
  'bullet points?',
  'lists?',
  'listed',
  'numbered',
  'numbering',
  'tables?',
  'code blocks?',
  'emojis?',
  'box(?:es|ed)?',
  'latex',
  'plain(?:ly|er)?',
  'text',
  'prose',
  'sentences?',
  'paragraphs?',
  'words?',
  'lines?',
  'characters?',
  'phrases?',
  'short(?:er|ly)?',
  'long(?:er)?',
  'length',
  'brief(?:er|ly)?',
  'concise(?:ly)?',
  'terse',
  'detail(?:s|ed)?',
  'thorough(?:ly)?',
  'depth',
  'simpl(?:e|er|y)',
  'clear(?:er|ly)?',
  'formal(?:ly)?',
  'informal(?:ly)?',
  'casual(?:ly)?',
  'friendl(?:y|ier)',
  'warm(?:er|ly|th)?',
  'kind(?:er|ly)?',
  'nicer',
  'polite(?:r|ly)?',
  'cold',
  'tone',
  'style',
  'voice',
  'neutral',
  'facts',
  'praise',
  'greetings?',
  'format(?:ting|ted)?',
  'json',
  'yaml',
  'csv',
  'html',
  'upper ?case',
  'lower ?case',
  'caps',
  'language',
  'examples?',
  'steps?',
  'step by step',
  'units?',
  'digits?',
  'decimals?',
  'sources?',
  'links?',
  'citations?',
  'comments?',
  'direct(?:ly)?',
  'point',
  'technical',
  'jargon',
  'professional(?:ly)?',
  'fun(?:ny|nier)?',
  'serious',
  'rhymes?',
  'repeat(?:ing)?',
  'apologi[sz](?:e|ing)',
  'intro(?:duction)?',
  'disclaimers?',
  'filler',
  'asterisks?',
  'stars',
  'dash(?:es)?',
  'quotes',
  'english',
  'german',
  'french',
  'spanish',
  'italian',
  'portuguese',
  'dutch',
  'polish',
  'russian',
  'chinese',
  'mandarin',
  'japanese',
  'korean',
  'arabic',
  'hindi',
  'turkish',
  'latin',
  'swedish',
  'ukrainian',
] as const;

/** what a person calls the thing they were given */
const REPLY = [
  'it',
  'this',
  'that',
  'them',
  'answers?',
  'repl(?:y|ies)',
  'responses?',
  'explanations?',
  'solution',
  'result',
  'output',
  'version',
  'summary',
] as const;

/** words that carry no matter of their own */
const SMALL = [
  'a',
  'an',
  'the',
  'your',
  'my',
  'me',
  'i',
  'you',
  'any',
  'some',
  'every',
  'each',
  'all',
  'only',
  'just',
  'at',
  'least',
  'most',
  'more',
  'less',
  'fewer',
  'much',
  'many',
  'bit',
  'little',
  'very',
  'so',
  'too',
  'and',
  'or',
  'not',
  'no',
  'of',
  'in',
  'with',
  'without',
  'as',
  'like',
  'such',
  'to',
  'for',
  'on',
  'by',
  'be',
  'is',
  'again',
  'instead',
  'please',
  'than',
  'one',
  'two',
  'three',
  'four',
  'five',
  'six',
  'seven',
  'eight',
  'nine',
  'ten',
  'single',
  'something',
  'anything',
  'way',
  'few',
  'half',
  'time',
  'next',
  'up',
  'out',
  'here',
  'there',
  'rather',
] as const;

const word = (terms: readonly string[]): RegExp => new RegExp(`^(?:${terms.join('|')}|\\d+)$`, 'i');
const FORM_ANYWHERE = new RegExp(`\\b(?:${TERMS.join('|')})\\b`, 'i');
const FORM_WORD = word(TERMS);
const REPLY_WORD = word(REPLY);
const SMALL_WORD = word(SMALL);
const REPLY_ANYWHERE = new RegExp(`\\b(?:${REPLY.join('|')})\\b`, 'i');

export const wordsIn = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? [];
export const namesForm = (text: string): boolean => FORM_ANYWHERE.test(text);
export const namesReply = (text: string): boolean => REPLY_ANYWHERE.test(text);

/** "at least 100 words", "in plain text", "shorter": nothing in it but form. */
export function isOnlyForm(text: string): boolean {
  const words = wordsIn(text);
  return words.length > 0 && words.length <= 10 && namesForm(text) && words.every(isAboutForm);
}

/** "…, such as well done": an example of the wish, not a matter of its own */
const EXAMPLE = /,?\s+(?:such as|like|for example|e\.g\.)\s.*$/i;

/** About the reply ("a longer answer", "it in German"), not about a new thing ("a short poem", "a list of rivers in France"). */
export function objectIsForm(text: string): boolean {
  const heavy = wordsIn(text.replace(EXAMPLE, '')).filter((w) => !SMALL_WORD.test(w));
  const foreign = heavy.filter((w) => !isAboutForm(w));
  return namesForm(text) && !/\babout\b/i.test(text) && foreign.length <= 1 && !startsNewThing(heavy);
}

const isAboutForm = (w: string): boolean => FORM_WORD.test(w) || REPLY_WORD.test(w) || SMALL_WORD.test(w);

/** A thing first ("poem in plain words"), or right after an adjective of form ("short poem"). */
function startsNewThing([first, second]: string[]): boolean {
  if (first === undefined || !isAboutForm(first)) return true;
  return second !== undefined && ADJECTIVE.test(first) && !isAboutForm(second);
}

const ADJECTIVE = /^(?:short|long|brief|simple|funny|detailed|formal|warm|kind|clear|technical|plain|neutral|serious)$/;
