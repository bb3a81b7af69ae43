/** The ledger on its own thread: bounds, deadlines, one owner, group commit. Runs the compiled worker in dist/. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Ledger, openLedger } from '../../../ts/ledger/index.js';
import { makeNext, makeTurn, temporaryFolder } from './make.js';

let folder: string;
let remove: () => Promise<void>;
let ledger: Ledger;

beforeEach(async () => {
  ({ folder, remove } = await temporaryFolder());
  ledger = await openLedger({ folder });
});
afterEach(async () => {
  await ledger.close();
  await remove();
});

it('turns survive the way to the thread and back', async () => {
  const responseIds = Int32Array.of(0, 0, 11, 12, 0).subarray(2, 4);
  const turn = makeTurn('t1', { responseIds, logprobs: null });
  await ledger.commitTurn(turn);
  expect(await ledger.findTurn('t1')).toEqual({ ...turn, state: 'served', refusal: null, trainedVersion: null });
});

it('errors keep their code and the argument at fault', async () => {
  await ledger.commitTurn(makeTurn('t1'));
  const other = makeTurn('t2', { userId: 'bob' });
  await expect(ledger.commitTurn(other)).rejects.toMatchObject({ code: 'E_FORBIDDEN', argument: 'turn.sessionId' });
});

it('a second opening of the folder is told who has it', async () => {
  const message = expect.stringContaining(`process ${process.pid}`);
  await expect(openLedger({ folder })).rejects.toMatchObject({ code: 'E_LEDGER', message });
});

it('answers E_BUSY above its bound and E_LEDGER after close', async () => {
  const other = await temporaryFolder();
  const small = await openLedger({ folder: other.folder, maxWaiting: 2 });
  const results = await Promise.allSettled([1, 2, 3].map((n) => small.setMeta('key', String(n))));
  expect(results[2]).toMatchObject({ status: 'rejected', reason: { code: 'E_BUSY' } });
  expect(await small.getMeta('key')).toBe('2');
  await small.close();
  await small.close();
  await expect(small.getMeta('key')).rejects.toMatchObject({ code: 'E_LEDGER' });
  await other.remove();
});

it('a call without an answer in time is E_DEADLINE, and a claim that came too late is given back', async () => {
  await ledger.commitTurn(makeTurn('a'));
  await ledger.observe(makeNext('a'));
  await ledger.close();
  const hasty = await openLedger({ folder, deadlineMs: 400 });
  // Timers run late, behind a blocked loop: the answer is there but the deadline fires first.
  const late = hasty.claimObserved(1);
  const until = Date.now() + 600;
  while (Date.now() < until);
  const outcome = await late.then(
    () => 'in time',
    (error: { code: string }) => error.code,
  );
  const again = await hasty.claimObserved(1);
  expect([outcome, again.length]).toEqual(outcome === 'E_DEADLINE' ? ['E_DEADLINE', 1] : ['in time', 0]);
  await hasty.close();
  ledger = await openLedger({ folder });
});

it('does not hold the event loop while hundreds of turns are written', async () => {
  let ticks = 0;
  let writing = true;
  const tick = (): void => {
    ticks++;
    if (writing) setImmediate(tick);
  };
  setImmediate(tick);
  await Promise.all(Array.from({ length: 500 }, (_, i) => ledger.commitTurn(makeTurn(`t${i}`))));
  writing = false;
  expect((await ledger.counts()).states.served).toBe(500);
  // Were the statements run here, the loop would turn once or twice per transaction of 256.
  expect(ticks).toBeGreaterThan(50);
});
