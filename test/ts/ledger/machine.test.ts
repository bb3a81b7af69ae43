/**
 * The state machine against a model: random sequences of everything the loops may do, restarts included. The model is a map of
 * plain objects; the ledger must answer, count and end up as it does, and no turn may ever be trained twice.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Ledger } from '../../../ts/ledger/index.js';
import { REFUSALS, type Refusal, type TurnState } from '../../../ts/record/index.js';
import { makeNext, makeTurn, makeUpdate, makeVerdict, openInline, temporaryFolder } from './make.js';

interface ModelTurn {
  user: string;
  session: string;
  state: TurnState;
  refusal: Refusal | null;
  version: string | null;
}

interface Model {
  turns: Map<string, ModelTurn>;
  claimed: Set<string>;
  optedOut: Set<string>;
  updates: number;
  trainedEver: Set<string>;
}

interface Real {
  ledger: Ledger;
  folder: string;
}

type Command = fc.AsyncCommand<Model, Real>;

const IDS = ['a', 'b', 'c', 'd', 'e'];
const USERS = ['ann', 'bob'];
const id = fc.constantFrom(...IDS);
const user = fc.constantFrom(...USERS);
const reason = fc.constantFrom(...REFUSALS.filter((r) => r !== 'duplicate'));

const outcome = (work: Promise<unknown>): Promise<string> =>
  work.then(
    (value) => (typeof value === 'string' ? value : 'ok'),
    (error: { code: string }) => error.code,
  );

const WAITING: readonly TurnState[] = ['served', 'observed', 'judged'];

function refuse(model: Model, turnId: string, why: Refusal): void {
  const turn = model.turns.get(turnId)!;
  if (!WAITING.includes(turn.state)) return;
  Object.assign(turn, { state: 'refused', refusal: why });
  model.claimed.delete(turnId);
}

const command = (name: string, run: (model: Model, real: Real) => Promise<void>): Command => ({
  check: () => true,
  run,
  toString: () => name,
});

const commit = (turnId: string, userId: string): Command =>
  command(`commit ${turnId} by ${userId}`, async (model, { ledger }) => {
    const known = model.turns.has(turnId);
    const sessionId = `session of ${userId}`;
    const done = await outcome(ledger.commitTurn(makeTurn(turnId, { userId, sessionId })));
    expect(done).toBe(known ? 'E_LEDGER' : 'ok');
    if (known) return;
    const out = model.optedOut.has(userId);
    const state: TurnState = out ? 'refused' : 'served';
    model.turns.set(turnId, {
      user: userId,
      session: sessionId,
      state,
      refusal: out ? 'opted-out' : null,
      version: null,
    });
  });

const observe = (turnId: string): Command =>
  command(`observe ${turnId}`, async (model, { ledger }) => {
    const turn = model.turns.get(turnId);
    const expected = turn === undefined ? 'missing' : turn.state === 'served' ? 'observed' : 'already';
    expect(await ledger.observe(makeNext(turnId))).toBe(expected);
    if (expected === 'observed') turn!.state = 'observed';
  });

const refuseTurn = (turnId: string, why: Refusal): Command =>
  command(`refuse ${turnId} ${why}`, async (model, { ledger }) => {
    const state = model.turns.get(turnId)?.state;
    const expected = state === undefined ? 'E_NOT_FOUND' : state === 'trained' ? 'E_LEDGER' : 'ok';
    expect(await outcome(ledger.refuse(turnId, why))).toBe(expected);
    if (expected === 'ok') refuse(model, turnId, why);
  });

const verdict = (turnId: string): Command =>
  command(`judge ${turnId}`, async (model, { ledger }) => {
    const turn = model.turns.get(turnId);
    const expected = turn === undefined ? 'E_NOT_FOUND' : turn.state === 'observed' ? 'ok' : 'E_LEDGER';
    expect(await outcome(ledger.recordVerdict(turnId, makeVerdict()))).toBe(expected);
    if (expected === 'ok') turn!.state = 'judged';
    if (turn?.state === 'judged' && expected === 'ok') model.claimed.delete(turnId);
  });

const claimJudged = (limit: number): Command =>
  command(`claim ${limit}`, async (model, { ledger }) => {
    const claimed = (await ledger.claimJudged(limit)).map((item) => item.turn.id);
    const free = [...model.turns].filter(([turnId, turn]) => turn.state === 'judged' && !model.claimed.has(turnId));
    expect(claimed).toHaveLength(Math.min(limit, free.length));
    for (const turnId of claimed) {
      expect(free.map(([freeId]) => freeId)).toContain(turnId);
      model.claimed.add(turnId);
    }
  });

const release = (turnIds: string[]): Command =>
  command(`release ${turnIds}`, async (model, { ledger }) => {
    await ledger.releaseClaims(turnIds);
    for (const turnId of turnIds) model.claimed.delete(turnId);
  });

const train = (trained: string[]): Command =>
  command(`train ${trained}`, async (model, { ledger }) => {
    const legal = trained.every((t) => model.claimed.has(t) && model.turns.get(t)?.state === 'judged');
    const update = makeUpdate(model.updates + 1, { turnIds: trained });
    expect(await outcome(ledger.commitUpdate(update, { trained, refused: [] }))).toBe(legal ? 'ok' : 'E_LEDGER');
    if (!legal) return;
    model.updates++;
    for (const turnId of trained) {
      expect(model.trainedEver.has(turnId)).toBe(false);
      model.trainedEver.add(turnId);
      model.claimed.delete(turnId);
      Object.assign(model.turns.get(turnId)!, { state: 'trained', version: update.version });
    }
  });

const endSession = (userId: string): Command =>
  command(`end session of ${userId}`, async (model, { ledger }) => {
    const waiting = [...model.turns].filter(([, turn]) => turn.user === userId && turn.state === 'served');
    expect(await ledger.endSession(`session of ${userId}`, 'idle')).toBe(waiting.length);
    for (const [turnId] of waiting) refuse(model, turnId, 'no-next-state');
  });

const optOut = (userId: string, out: boolean): Command =>
  command(`${userId} opts ${out ? 'out' : 'in'}`, async (model, { ledger }) => {
    await ledger.setOptOut(userId, out);
    if (!out) return void model.optedOut.delete(userId);
    model.optedOut.add(userId);
    for (const [turnId, turn] of model.turns) if (turn.user === userId) refuse(model, turnId, 'opted-out');
  });

const deleteUser = (userId: string): Command =>
  command(`delete ${userId}`, async (model, { ledger }) => {
    const own = [...model.turns].filter(([, turn]) => turn.user === userId).map(([turnId]) => turnId);
    expect(await ledger.deleteUser(userId)).toBe(own.length);
    for (const turnId of own) {
      model.turns.delete(turnId);
      model.claimed.delete(turnId);
      // A deleted turn that comes again is another turn under an old name.
      model.trainedEver.delete(turnId);
    }
  });

const restart = (): Command =>
  command('restart', async (model, real) => {
    await real.ledger.close();
    real.ledger = openInline(real.folder);
    model.claimed.clear();
  });

async function compare(model: Model, ledger: Ledger): Promise<void> {
  const states: Record<TurnState, number> = { served: 0, observed: 0, judged: 0, trained: 0, refused: 0 };
  for (const [turnId, turn] of model.turns) {
    states[turn.state]++;
    const { state, refusal, version } = turn;
    expect(await ledger.findTurn(turnId)).toMatchObject({ state, refusal, trainedVersion: version });
  }
  expect((await ledger.counts()).states).toEqual(states);
  expect((await ledger.counts()).updates).toBe(model.updates);
  expect(await ledger.checkIntegrity()).toEqual([]);
}

it('does what the model does', async () => {
  const commands = [
    fc.tuple(id, user).map(([i, u]) => commit(i, u)),
    id.map(observe),
    id.map(observe),
    id.map(verdict),
    id.map(verdict),
    fc.integer({ min: 1, max: 4 }).map(claimJudged),
    fc.subarray(IDS, { minLength: 1, maxLength: 2 }).map(train),
    fc.tuple(id, reason).map(([i, r]) => refuseTurn(i, r)),
    fc.subarray(IDS, { maxLength: 2 }).map(release),
    user.map(endSession),
    fc.tuple(user, fc.boolean()).map(([u, out]) => optOut(u, out)),
    user.map(deleteUser),
    fc.constant(restart()),
  ];
  await fc.assert(
    fc.asyncProperty(fc.commands(commands, { maxCommands: 40, size: 'max' }), async (sequence) => {
      const { folder, remove } = await temporaryFolder();
      const real: Real = { folder, ledger: openInline(folder) };
      const model: Model = {
        turns: new Map(),
        claimed: new Set(),
        optedOut: new Set(),
        updates: 0,
        trainedEver: new Set(),
      };
      try {
        await fc.asyncModelRun(() => ({ model, real }), sequence);
        await compare(model, real.ledger);
      } finally {
        await real.ledger.close();
        await remove();
      }
    }),
    { numRuns: 30, seed: 20261201 },
  );
});
