/** A user's message as clauses: what was quoted or pasted taken out, openers ("Great, …", "No, …") on their own. */

/** clauses read at the beginning and at the end; a long message is mostly new matter */
const HEAD = 6;
const TAIL = 3;
const MAX_CHARS = 6000;
/** characters of a clause: more is no wish, and the patterns' work grows with the square */
const MAX_CLAUSE = 400;

export interface Clause {
  /** without closing mark */ text: string;
  question: boolean;
}

const OPENER =
  /^(thanks(?: a lot| so much)?|thank you(?: so much| very much)?|thx|great|perfect|nice|excellent|good|cool|awesome|wonderful|ok(?:ay)?|yes|yeah|yep|no|nope|hmm+|sorry|well|wrong|oh|hey|right|correct|actually)\b\s*[,:!–-]+\s+(?=\S)/i;
const CONTRAST = /[,;]?\s+(?:but|however|though|although|only that)\b,?\s+/i;

/** "Summarise this article: …": what follows is matter, not talk */
const PASTED = /(\b(?:this|these|the following|below)\b[^.:\n]{0,40}):\s[\s\S]*$/i;

export function cleaned(text: string): string {
  return text
    .slice(0, MAX_CHARS)
    .replace(/```[\s\S]*?(?:```|$)/g, ' ')
    .replace(/^\s*>.*$/gm, ' ')
    .replace(PASTED, '$1')
    .replace(/[\u2018\u2019\u02bc]/g, "'")
    .replace(/[\u201c\u201d]/g, '"')
    .trim();
}

export function clausesOf(text: string): Clause[] {
  const sentences = cleaned(text)
    .split(/(?<=[.!?;…])\s+|\n+/)
    .map((sentence) => sentence.trim())
    .filter((sentence) => /[\p{L}\p{N}]/u.test(sentence));
  const read = sentences.length <= HEAD + TAIL ? sentences : [...sentences.slice(0, HEAD), ...sentences.slice(-TAIL)];
  return read.flatMap(clausesIn);
}

function clausesIn(sentence: string): Clause[] {
  const question = /\?["')]*$/.test(sentence);
  return sentence
    .split(CONTRAST)
    .map((part) => part.slice(0, MAX_CLAUSE))
    .flatMap(splitOpeners)
    .map((text) => ({ text: trimmed(text), question }))
    .filter((clause) => clause.text !== '');
}

function splitOpeners(text: string): string[] {
  const opener = text.match(OPENER);
  if (opener === null) return [text];
  return [opener[1]!, ...splitOpeners(text.slice(opener[0].length))];
}

/** Closing marks and a pair of quotes around it all go; a quotation inside stays whole. */
const trimmed = (text: string): string => text.replace(/^[\s(]+|[\s.!?,;:…)]+$/g, '').replace(/^"([^"]*)"$/, '$1');
