/** Items to judge: a question, a reply, what came next. */
import type { JudgeItem } from '../../../ts/judge/index.js';
import type { NextState, Turn } from '../../../ts/record/index.js';
import { makeTurn } from '../ledger/make.js';

export type NextItem = NextState['items'][number];

export function makeItem(items: NextItem[], over: Partial<Turn> = {}): JudgeItem {
  const turn = makeTurn('turn_1', { text: 'The answer is 7.', ...over });
  return { turn, next: { turnId: turn.id, items, arrivedAt: 2000 }, history: [] };
}

export const said = (text: string, over: Partial<Turn> = {}): JudgeItem => makeItem([{ role: 'user', text }], over);
export const tool = (text: string, over: Partial<NextItem> = {}): NextItem => ({ role: 'tool', text, ...over });
