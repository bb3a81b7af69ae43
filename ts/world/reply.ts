/**
 * How an answer to a problem is worded. A reply is a row of segments (head, one per step, tail); a style decides the form
 * of each. Because every style walks through the same numbers in the same order, style and arithmetic are separate skills:
 * a policy can move from one style to another without unlearning sums.
 *
 * Segments also let a reply change its style midway: that is how the corpus shows a reply that has begun against a hint
 * and then turns to it.
 */
import type { Problem, Step } from './problems.js';
import type { Random } from './random.js';

export interface Style {
  /** headings and the answer in ** ** */ bold: boolean;
  /** steps as "1. …" lines */ numbered: boolean;
  /** answer in \boxed{ } */ boxed: boolean;
  /** every step explained in words */ long: boolean;
  /** a kind word at the start and often at the end */ warm: boolean;
}

/** The habit of the base model: it answers like an "AI". */
export const AI_STYLE: Style = { bold: true, numbered: true, boxed: true, long: false, warm: false };
export const PLAIN_STYLE: Style = { bold: false, numbered: false, boxed: false, long: false, warm: false };

export const WARM_HEADS = [
  'Great job asking!',
  'Excellent question!',
  'Well done for asking!',
  'Great job so far!',
  'Good work so far!',
] as const;
export const WARM_TAILS = ['Well done!', 'Great job!', 'Excellent work!', 'Keep it up!'] as const;

const equation = (s: Step): string => `${s.a} ${s.op} ${s.b} = ${s.result}`;

const BOLD_HEADS = ['**Solution**', '**Steps**', '**Let us solve it**'] as const;

function head(style: Style, problem: Problem, rng: Random): string[] {
  const parts: string[] = [];
  if (style.warm) parts.push(`${rng.pick(WARM_HEADS)} `);
  if (style.bold) parts.push(`${rng.pick(BOLD_HEADS)}\n`);
  if (style.long)
    parts.push(
      rng.pick([
        `Let us look at the story one part at a time and see what happens to the ${problem.things}. `,
        `To find out how many ${problem.things} there are at the end, we go through the story in small parts. `,
      ]),
    );
  return parts;
}

/**
 * What leads in a step, short and long. The first short step has nothing before it, whether or not others follow: a first word that
 * gave away the number of steps would make the style and the sum one choice, and a policy that moved towards the style would
 * forget steps.
 */
const LINKS = [
  ['', 'First we have '],
  ['Then ', 'After that we have '],
  ['Then ', 'At last we have '],
] as const;

const REASONS: Record<Step['op'], (s: Step) => string> = {
  '+': (s) => `because ${s.b} more come to the ${s.a}, so we add them`,
  '-': (s) => `because ${s.b} of the ${s.a} go away, so we take them away`,
  '*': (s) => `because there are ${s.a} groups with ${s.b} in each of them`,
  '/': (s) => `because the ${s.a} are shared and each of the ${s.b} gets the same part`,
};

function stepSegment(style: Style, s: Step, i: number): string {
  const link = LINKS[Math.min(i, LINKS.length - 1)]!;
  const marker = style.numbered ? `${i + 1}. ` : '';
  const body = style.long
    ? `${link[1]}${equation(s)}, ${REASONS[s.op](s)}.`
    : style.numbered
      ? equation(s)
      : `${link[0]}${equation(s)}.`;
  return marker + body + (style.numbered ? '\n' : ' ');
}

function answerText(style: Style, problem: Problem): string {
  const n = style.boxed ? `\\boxed{${problem.answer}}` : `${problem.answer}`;
  if (style.bold) return style.boxed ? `**Answer:** ${n}` : `**Answer: ${n}**`;
  return style.boxed ? `Answer: ${n}` : `The answer is ${n}.`;
}

function answerSegment(style: Style, problem: Problem): string {
  if (!style.long) return answerText(style, problem);
  const summary = `So we have gone through all parts of the story and we know the number of ${problem.things}.`;
  return `${summary} ${answerText(style, problem)}`;
}

/** The pieces of a reply, in order; `praise` is '' where there is none. Joined they are the text. */
export interface Segments {
  head: string[];
  steps: string[];
  answer: string;
  praise: string;
}

export function replySegments(problem: Problem, style: Style, rng: Random): Segments {
  const opening = head(style, problem, rng);
  const last = opening.length - 1;
  // A list after other words starts on its own line.
  if (style.numbered && last >= 0 && !opening[last]!.endsWith('\n')) opening[last] = `${opening[last]!.trimEnd()}\n`;
  return {
    head: opening,
    steps: problem.steps.map((s, i) => stepSegment(style, s, i)),
    answer: answerSegment(style, problem),
    praise: style.warm && rng.chance(0.6) ? ` ${rng.pick(WARM_TAILS)}` : '',
  };
}

export function replyText(problem: Problem, style: Style, rng: Random): string {
  const { head, steps, answer, praise } = replySegments(problem, style, rng);
  return [...head, ...steps, answer, praise].join('');
}

/** What is left to say, in `style`, after the first `done` steps were said. */
export function restOfReply(problem: Problem, style: Style, done: number, rng: Random): string {
  const { steps, answer, praise } = replySegments(problem, style, rng);
  return [...steps.slice(done), answer, praise].join('');
}
