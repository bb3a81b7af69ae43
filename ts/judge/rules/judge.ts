/**
 * The rules judge: no model, no network, the same answer every time. Tool results by success and error, words by what they
 * plainly say; corrections become hints. One vote, by 'rules'.
 */
import { type Message, type NextState, spokenWords, type Turn, type Verdict, type Vote } from '../../record/index.js';
import type { Judge, JudgeItem } from '../ports.js';
import { vetoesOf } from '../vetoes.js';
import { wordsIn } from './form.js';
import { phrasings } from './hints.js';
import { toolScore } from './tools.js';
import { readWords } from './words.js';

export interface RulesOptions {
  /** phrasings of a correction at most (M), default 3 */ maxHints?: number;
}

type Score = -1 | 0 | 1 | null;

export function createRulesJudge(o: RulesOptions = {}): Judge {
  const maxHints = o.maxHints ?? 3;
  return {
    async judge(item: JudgeItem, signal: AbortSignal): Promise<Verdict> {
      signal.throwIfAborted();
      return verdictOf(item, maxHints);
    },
  };
}

function verdictOf({ turn, next }: JudgeItem, maxHints: number): Verdict {
  const started = performance.now();
  const said = readUser(turn, next);
  const vetoes = vetoesOf(turn, next);
  const score: Score = vetoes.length > 0 ? -1 : strongest(said.score, toolsScore(next));
  const hints = phrasings(said.corrections, maxHints);
  const vote: Vote = {
    judge: 'rules',
    score,
    hint: hints[0] ?? null,
    failure: null,
    ms: performance.now() - started,
    tokens: null,
  };
  if (score === null)
    return { reward: null, status: 'abstained', votes: [{ ...vote, failure: 'unreadable' }], hints: [], vetoes };
  return { reward: score, status: 'scored', votes: [vote], hints, vetoes };
}

/** What a person says counts before what a tool returned; a tool's success only where the person was silent or neutral. */
const strongest = (said: Score, tools: Score): Score => (said === 1 || said === -1 ? said : (tools ?? said));

function toolsScore(next: NextState): Score {
  const scores = next.items.map(toolScore).filter((score) => score !== null);
  return scores.length === 0 ? null : scores.includes(-1) ? -1 : 1;
}

function readUser(turn: Turn, next: NextState): { score: Score; corrections: string[] } {
  const words = next.items.filter((item) => item.role === 'user').map((item) => item.text);
  if (words.length === 0) return { score: null, corrections: [] };
  const text = words.join('\n');
  const reading = readWords(text, /\?\s*$/.test(turn.text));
  return reading.score === 0 && asksAgain(turn.messages, text) ? { ...reading, score: -1 } : reading;
}

/** words in a question that is long enough to be recognised */
const QUESTION_WORDS = 4;

/** The same question once more: the reply did not answer it. */
function asksAgain(messages: readonly Message[], text: string): boolean {
  const last = messages.findLast((message) => message.role === 'user');
  if (last === undefined) return false;
  const [before, now] = [wordsIn(spokenWords(last)), wordsIn(text)];
  return now.length >= QUESTION_WORDS && before.join(' ') === now.join(' ');
}
