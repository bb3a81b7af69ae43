/** A vote read from the judge's words: the last \boxed{…} is the score, [HINT_START] … [HINT_END] the hint. */

export interface Opinion {
  score: -1 | 0 | 1;
  hint: string | null;
}

const BOX = /\\boxed\s*\{\s*(?:\\text\s*\{)?\s*([+\-\u2212\u2013]?\s*\d+)\s*\}/g;
const HINT = /\[HINT_START\]([\s\S]*?)\[HINT_END\]/g;
const THINKING = /<think>[\s\S]*?<\/think>/g;

/** null: unreadable; never a 0 */
export function parseOpinion(text: string): Opinion | null {
  const answer = text.replace(THINKING, '');
  const boxed = [...answer.matchAll(BOX)].at(-1)?.[1];
  if (boxed === undefined) return null;
  const score = Number(boxed.replace(/[\u2212\u2013]/, '-').replace(/\s+/g, ''));
  if (score !== 1 && score !== 0 && score !== -1) return null;
  return { score: score === 0 ? 0 : score, hint: hintIn(answer) };
}

function hintIn(answer: string): string | null {
  const hint = [...answer.matchAll(HINT)].at(-1)?.[1]?.replace(/\s+/g, ' ').trim();
  return hint === undefined || hint === '' ? null : hint;
}
