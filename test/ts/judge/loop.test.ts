/** The judging loop over the real ledger: every observed turn ends judged or refused, whatever the judge does. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  createRulesJudge,
  type Judge,
  type Judging,
  type JudgingOptions,
  startJudging,
} from '../../../ts/judge/index.js';
import type { Ledger } from '../../../ts/ledger/index.js';
import type { EventBody, Verdict, Vote } from '../../../ts/record/index.js';
import { makeNext, makeTurn, makeVerdict, openInline, temporaryFolder } from '../ledger/make.js';

let remove: () => Promise<void>;
let folder: string;
let ledger: Ledger;
let events: EventBody[];
let judging: Judging | null;

beforeEach(async () => {
  ({ folder, remove } = await temporaryFolder());
  ledger = openInline(folder);
  [events, judging] = [[], null];
});
afterEach(async () => {
  await judging?.close();
  await ledger.close();
  await remove();
});

function start(judge: Judge, o: Partial<JudgingOptions> = {}): Judging {
  const sink = { emit: (event: EventBody) => void events.push(event) };
  judging = startJudging({ ledger, judge, events: sink, concurrency: 2, pollMs: 20, backoffMs: 5, ...o });
  return judging;
}

async function observed(id: string, text = 'Thanks!'): Promise<void> {
  await ledger.commitTurn(makeTurn(id));
  await ledger.observe(makeNext(id, text));
}

const failed = (failure: Vote['failure']): Verdict => ({
  ...makeVerdict(null),
  votes: [{ judge: 'j', score: null, hint: null, failure, ms: 1, tokens: null }],
});
const asks = (answer: (n: number) => Promise<Verdict> | Verdict): Judge & { asked: number } => ({
  asked: 0,
  async judge() {
    return answer(++this.asked);
  },
});

it('judges what is observed, in order, and says so', async () => {
  for (const [id, text] of [
    ['a', 'Thanks!'],
    ['b', 'No bold, please.'],
    ['c', 'And what is the capital?'],
  ] as const)
    await observed(id, text);
  await start(createRulesJudge()).idle();
  expect(events).toMatchObject([
    { type: 'turn.judged', turnId: 'a', sessionId: 'session-1', reward: 1, hints: 0 },
    { type: 'turn.judged', turnId: 'b', reward: -1, hints: 3 },
    { type: 'turn.judged', turnId: 'c', reward: 0, hints: 0 },
  ]);
  expect((await ledger.counts()).states).toMatchObject({ judged: 3, observed: 0 });
});

it('is woken by a poke and finds turns without one too', async () => {
  const loop = start(createRulesJudge(), { pollMs: 10_000 });
  await loop.idle();
  await observed('a');
  loop.poke();
  await loop.idle();
  expect(events).toHaveLength(1);
  await loop.close();
  start(createRulesJudge(), { pollMs: 10 });
  await observed('b');
  await expect.poll(() => events.length).toBe(2);
});

it('an unreadable judge: refused as abstained at once', async () => {
  await observed('a');
  const judge = asks(() => failed('unreadable'));
  await start(judge).idle();
  expect(judge.asked).toBe(1);
  expect(await ledger.findTurn('a')).toMatchObject({ state: 'refused', refusal: 'abstained' });
  expect(events).toEqual([{ type: 'turn.refused', turnId: 'a', reason: 'abstained' }]);
});

it('a judge out of reach is asked again, then believed', async () => {
  await observed('a');
  const judge = asks((n) => (n < 3 ? failed('transport') : makeVerdict(1)));
  await start(judge).idle();
  expect(await ledger.findVerdict('a')).toMatchObject({ reward: 1 });
});

it('and not for ever', async () => {
  await observed('a');
  const judge = asks(() => failed('timeout'));
  await start(judge, { attempts: 2 }).idle();
  expect(judge.asked).toBe(2);
  expect((await ledger.counts()).refusals).toEqual({ abstained: 1 });
});

it('a judge that throws or hangs costs its turn only', async () => {
  await observed('a');
  await observed('b');
  const judge = asks((n) => (n === 1 ? Promise.reject(new Error('bug')) : new Promise<Verdict>(() => undefined)));
  await start(judge, { deadlineMs: 100 }).idle();
  expect((await ledger.counts()).refusals).toEqual({ abstained: 2 });
  expect(events.filter((event) => event.type === 'judge.failed')).toHaveLength(2);
});

it('never judges more at once than allowed', async () => {
  for (const id of ['a', 'b', 'c', 'd', 'e']) await observed(id);
  let running = 0;
  let most = 0;
  const judge = asks(async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 10));
    running--;
    return makeVerdict();
  });
  await start(judge, { concurrency: 2 }).idle();
  expect([judge.asked, most]).toEqual([5, 2]);
});

it('a user who opts out meanwhile is respected', async () => {
  await observed('a');
  const judge = asks(async () => {
    await ledger.setOptOut('ann', true);
    return makeVerdict(1);
  });
  await start(judge).idle();
  expect(await ledger.findTurn('a')).toMatchObject({ state: 'refused', refusal: 'opted-out' });
});

it('close() gives back what it had in hand', async () => {
  await observed('a');
  const loop = start(asks(() => new Promise<Verdict>(() => undefined)));
  await expect.poll(async () => (await ledger.claimObserved(1)).length).toBe(0);
  await loop.close();
  expect(await ledger.claimObserved(1)).toHaveLength(1);
  expect(events).toEqual([]);
});

it('idle() has a deadline', async () => {
  await observed('a');
  const loop = start(asks(() => new Promise<Verdict>(() => undefined)));
  await expect(loop.idle({ timeoutMs: 50 })).rejects.toMatchObject({ code: 'E_DEADLINE' });
});
