/** What the ledger promises, one behaviour each; the state machine as a whole is in machine.test.ts. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Batcher } from '../../../ts/ledger/batcher.js';
import { driverFor, openDatabase } from '../../../ts/ledger/driver.js';
import type { Ledger } from '../../../ts/ledger/index.js';
import type { Reply, Request } from '../../../ts/ledger/protocol.js';
import { Store } from '../../../ts/ledger/store.js';
import { REFUSALS, TURN_STATES } from '../../../ts/record/index.js';
import { makeNext, makeTurn, makeUpdate, makeVerdict, openInline, temporaryFolder } from './make.js';

let folder: string;
let remove: () => Promise<void>;
let ledger: Ledger;

beforeEach(async () => {
  ({ folder, remove } = await temporaryFolder());
  ledger = openInline(folder, () => 5000);
});
afterEach(async () => {
  await ledger.close();
  await remove();
});

async function reopen(): Promise<void> {
  await ledger.close();
  ledger = openInline(folder);
}

async function judged(id: string): Promise<void> {
  await ledger.commitTurn(makeTurn(id));
  await ledger.observe(makeNext(id));
  await ledger.recordVerdict(id, makeVerdict());
}

describe('turns', () => {
  it('come back as they went in, over a restart too', async () => {
    const turn = makeTurn('t1', {
      tools: [{ type: 'function', function: { name: 'read', parameters: { type: 'object' } } }],
      messages: [
        { role: 'system', content: 'be brief' },
        {
          role: 'assistant',
          content: null,
          toolCalls: [{ id: 'c', type: 'function', function: { name: 'read', arguments: '{}' } }],
        },
        { role: 'tool', content: 'ü\u0000x', toolCallId: 'c' },
      ],
    });
    await ledger.commitTurn(turn);
    await reopen();
    expect(await ledger.findTurn('t1')).toEqual({ ...turn, state: 'served', refusal: null, trainedVersion: null });
    expect(await ledger.findByRequest('ann', turn.requestId)).toMatchObject({ id: 't1' });
    expect(await ledger.findTurn('t2')).toBeNull();
  });

  it('keep null apart from zero', async () => {
    await ledger.commitTurn(
      makeTurn('t1', { logprobs: null, version: null, sampling: { ...makeTurn('x').sampling, seed: null } }),
    );
    const turn = await ledger.findTurn('t1');
    expect(turn).toMatchObject({ logprobs: null, version: null, sampling: { seed: null } });
  });

  it('store the part a view shows, not the buffer behind it', async () => {
    const responseIds = Int32Array.of(0, 0, 11, 12, 0).subarray(2, 4);
    const logprobs = Float32Array.of(9, -1, -2, 9).subarray(1, 3);
    await ledger.commitTurn(makeTurn('t1', { responseIds, logprobs }));
    const turn = await ledger.findTurn('t1');
    expect(turn?.responseIds).toEqual(Int32Array.of(11, 12));
    expect(turn?.logprobs).toEqual(Float32Array.of(-1, -2));
  });

  it('refuse log-probs of another length than the ids', async () => {
    await expect(ledger.commitTurn(makeTurn('t1', { logprobs: Float32Array.of(-1) }))).rejects.toMatchObject({
      code: 'E_LEDGER',
      argument: 'turn.logprobs',
    });
    expect(await ledger.findTurn('t1')).toBeNull();
  });

  it('are recorded once per request and user; the second is counted and names the first', async () => {
    await ledger.commitTurn(makeTurn('t1', { requestId: 'r' }));
    const again = ledger.commitTurn(makeTurn('t2', { requestId: 'r' }));
    await expect(again).rejects.toMatchObject({ code: 'E_LEDGER', message: expect.stringContaining('t1') });
    await ledger.commitTurn(makeTurn('t3', { requestId: 'r', userId: 'bob', sessionId: 'session-2' }));
    expect((await ledger.counts()).refusals).toEqual({ duplicate: 1 });
  });

  it('never enter another user’s session', async () => {
    await ledger.commitTurn(makeTurn('t1'));
    await expect(ledger.commitTurn(makeTurn('t2', { userId: 'bob' }))).rejects.toMatchObject({ code: 'E_FORBIDDEN' });
  });

  it('an operation that fails leaves the others of its transaction alone', async () => {
    const results = await Promise.allSettled([
      ledger.commitTurn(makeTurn('t1')),
      ledger.commitTurn(makeTurn('t2', { userId: 'bob' })),
      ledger.commitTurn(makeTurn('t3')),
    ]);
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect((await ledger.counts()).states.served).toBe(2);
  });

  it('refused from the start: by the caller, as side turns, by opt-out', async () => {
    await ledger.setOptOut('bob', true);
    await ledger.commitTurn(makeTurn('t1'), { refuse: 'truncated' });
    await ledger.commitTurn(makeTurn('t2', { kind: 'side' }));
    await ledger.commitTurn(makeTurn('t3', { userId: 'bob', sessionId: 'session-2' }));
    expect(await ledger.findTurn('t1')).toMatchObject({ state: 'refused', refusal: 'truncated' });
    expect((await ledger.counts()).refusals).toEqual({ truncated: 1, 'side-turn': 1, 'opted-out': 1 });
  });
});

describe('the life of a turn', () => {
  it('goes served → observed → judged → trained', async () => {
    await ledger.commitTurn(makeTurn('t1'));
    expect(await ledger.observe(makeNext('t1'))).toBe('observed');
    expect(await ledger.observe(makeNext('t1', 'too late'))).toBe('already');
    expect(await ledger.observe(makeNext('nobody'))).toBe('missing');
    expect(await ledger.claimObserved(10)).toMatchObject([{ turn: { id: 't1' }, next: makeNext('t1'), history: [] }]);
    await ledger.recordVerdict('t1', makeVerdict(-1, ['Answer in one short sentence.']));
    const [item] = await ledger.claimJudged(10);
    expect(item?.verdict).toEqual(makeVerdict(-1, ['Answer in one short sentence.']));
    await ledger.commitUpdate(makeUpdate(1), { trained: ['t1'], refused: [] });
    expect(await ledger.findTurn('t1')).toMatchObject({ state: 'trained', trainedVersion: makeUpdate(1).version });
  });

  it('a turn that is not observed cannot be judged, a trained one not refused', async () => {
    await ledger.commitTurn(makeTurn('t1'));
    await expect(ledger.recordVerdict('t1', makeVerdict())).rejects.toMatchObject({ code: 'E_LEDGER' });
    await expect(ledger.recordVerdict('t9', makeVerdict())).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
    await judged('t2');
    await ledger.claimJudged(1);
    await ledger.commitUpdate(makeUpdate(1), { trained: ['t2'], refused: [] });
    await expect(ledger.refuse('t2', 'stale')).rejects.toMatchObject({ code: 'E_LEDGER' });
  });

  it('a refused turn keeps its first reason', async () => {
    await ledger.commitTurn(makeTurn('t1'));
    await ledger.abortTurn('t1');
    await ledger.refuse('t1', 'stale');
    expect(await ledger.findTurn('t1')).toMatchObject({ refusal: 'aborted' });
    expect(await ledger.observe(makeNext('t1'))).toBe('already');
    expect((await ledger.counts()).refusals).toEqual({ aborted: 1 });
  });

  it('history holds the earlier main turns with their next states', async () => {
    await ledger.commitTurn(makeTurn('t0'));
    await ledger.observe(makeNext('t0'));
    await ledger.commitTurn(makeTurn('side', { kind: 'side' }));
    await ledger.commitTurn(makeTurn('t1', { index: 1 }));
    await ledger.observe(makeNext('t1'));
    const claimed = await ledger.claimObserved(10);
    expect(claimed.map((item) => item.history.map((h) => [h.turn.id, h.next?.items[0]?.text]))).toEqual([
      [],
      [['t0', 'and then?']],
    ]);
  });

  it('a session’s end refuses what nobody followed, and a later turn opens it again', async () => {
    await ledger.commitTurn(makeTurn('t1'));
    await ledger.commitTurn(makeTurn('t2', { index: 1 }));
    await ledger.observe(makeNext('t1'));
    expect(await ledger.endSession('session-1', 'idle')).toBe(1);
    expect(await ledger.endSession('session-1', 'idle')).toBe(0);
    expect(await ledger.findTurn('t2')).toMatchObject({ refusal: 'no-next-state' });
    expect(await ledger.findSession('session-1')).toMatchObject({ endedAt: 5000, endReason: 'idle' });
    await ledger.commitTurn(makeTurn('t3', { index: 2 }));
    expect(await ledger.findSession('session-1')).toMatchObject({ endedAt: null });
    expect(await ledger.endSession('unheard-of', 'idle')).toBe(0);
  });
});

describe('claims', () => {
  it('are exclusive, oldest first, and come back when released', async () => {
    for (const id of ['a', 'b', 'c']) await judged(id);
    const ids = async (limit: number) => (await ledger.claimJudged(limit)).map((item) => item.turn.id);
    expect(await ids(2)).toEqual(['a', 'b']);
    expect(await ids(9)).toEqual(['c']);
    expect(await ids(9)).toEqual([]);
    await ledger.releaseClaims(['b']);
    expect(await ids(9)).toEqual(['b']);
  });

  it('a restart frees them', async () => {
    await judged('a');
    await ledger.claimJudged(1);
    await reopen();
    expect(await ledger.claimJudged(1)).toHaveLength(1);
  });
});

describe('updates', () => {
  it('train only what is judged and claimed; else nothing changes', async () => {
    await judged('a');
    await judged('b');
    await ledger.claimJudged(1);
    const commit = ledger.commitUpdate(makeUpdate(1), { trained: ['a', 'b'], refused: [] });
    await expect(commit).rejects.toMatchObject({ code: 'E_LEDGER', message: expect.stringContaining('b') });
    expect(await ledger.liveUpdate()).toBeNull();
    expect(await ledger.findTurn('a')).toMatchObject({ state: 'judged' });
  });

  it('never train a turn twice', async () => {
    await judged('a');
    await ledger.claimJudged(1);
    await ledger.commitUpdate(makeUpdate(1), { trained: ['a'], refused: [] });
    const again = ledger.commitUpdate(makeUpdate(2), { trained: ['a'], refused: [] });
    await expect(again).rejects.toMatchObject({ code: 'E_LEDGER' });
    await expect(ledger.commitUpdate(makeUpdate(1), { trained: [], refused: [] })).rejects.toThrow();
    expect((await ledger.counts()).updates).toBe(1);
  });

  it('fail as a whole when a user opted out while training ran', async () => {
    await judged('a');
    await judged('b');
    await ledger.claimJudged(2);
    await ledger.setOptOut('ann', true);
    const commit = ledger.commitUpdate(makeUpdate(1), { trained: ['a'], refused: [['b', 'stale']] });
    await expect(commit).rejects.toMatchObject({ code: 'E_LEDGER' });
    expect((await ledger.counts()).states).toMatchObject({ trained: 0, refused: 2 });
  });

  it('retire the parent, refuse a stale one, keep a discarded one as a row only', async () => {
    await ledger.commitUpdate(makeUpdate(1), { trained: [], refused: [] });
    await ledger.commitUpdate(makeUpdate(2), { trained: [], refused: [] });
    const stale = makeUpdate(3, { parent: makeUpdate(1).version });
    await expect(ledger.commitUpdate(stale, { trained: [], refused: [] })).rejects.toMatchObject({ code: 'E_LEDGER' });
    await judged('a');
    const discarded = makeUpdate(4, { state: 'discarded', folder: null, metrics: { loss: Number.NaN } });
    await ledger.commitUpdate(discarded, { trained: [], refused: [['a', 'gate-failed']] });
    expect((await ledger.updates()).map((u) => [u.version, u.state])).toEqual([
      [discarded.version, 'discarded'],
      [makeUpdate(2).version, 'live'],
      [makeUpdate(1).version, 'retired'],
    ]);
    expect((await ledger.findVersion(discarded.version))?.metrics.loss).toBeNaN();
    expect(await ledger.updates({ limit: 1 })).toHaveLength(1);
    expect(await ledger.findTurn('a')).toMatchObject({ refusal: 'gate-failed' });
  });

  it('roll back to an earlier version and to the base', async () => {
    await ledger.commitUpdate(makeUpdate(1), { trained: [], refused: [] });
    await ledger.commitUpdate(makeUpdate(2), { trained: [], refused: [] });
    await ledger.rollback(makeUpdate(1).version);
    expect(await ledger.liveUpdate()).toMatchObject({ version: makeUpdate(1).version, state: 'live' });
    await expect(ledger.rollback('claw@9-00000009')).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
    await ledger.rollback(null);
    expect(await ledger.liveUpdate()).toBeNull();
    expect((await ledger.updates()).map((u) => u.state)).toEqual(['rolled-back', 'rolled-back']);
  });

  it('numbers are handed out once, over restarts too', async () => {
    expect([await ledger.nextUpdateNumber(), await ledger.nextUpdateNumber()]).toEqual([1, 2]);
    await reopen();
    expect(await ledger.nextUpdateNumber()).toBe(3);
  });
});

describe('people', () => {
  it('opting out refuses what waits, opting in lets later turns through', async () => {
    await ledger.commitTurn(makeTurn('a'));
    await judged('b');
    await ledger.setOptOut('ann', true);
    expect((await ledger.counts()).refusals).toEqual({ 'opted-out': 2 });
    expect(await ledger.optedOut('ann')).toBe(true);
    await ledger.setOptOut('ann', false);
    await ledger.commitTurn(makeTurn('c'));
    expect(await ledger.findTurn('c')).toMatchObject({ state: 'served' });
  });

  it('deletion takes every word from the disk and leaves others alone', async () => {
    await ledger.commitTurn(
      makeTurn('a', { text: 'a-secret-of-ann', messages: [{ role: 'user', content: 'words-of-ann' }] }),
    );
    await ledger.observe(makeNext('a', 'more-words-of-ann'));
    await ledger.commitTurn(makeTurn('b', { userId: 'bob', sessionId: 'session-2', text: 'words-of-bob' }));
    expect(await ledger.deleteUser('ann')).toBe(1);
    expect(await ledger.findTurn('a')).toBeNull();
    expect(await ledger.findSession('session-1')).toBeNull();
    expect(await ledger.findTurn('b')).not.toBeNull();
    await ledger.close();
    const file = (await readFile(join(folder, 'ledger.db'))).toString('latin1');
    expect(file).not.toMatch(/of-ann/);
    expect(file).toMatch(/words-of-bob/);
    ledger = openInline(folder);
    expect(await ledger.checkIntegrity()).toEqual([]);
  });

  it('retention deletes old turns that are done with, and texts nobody uses', async () => {
    await ledger.commitTurn(makeTurn('old', { messages: [{ role: 'user', content: 'only-here' }] }), {
      refuse: 'truncated',
    });
    await ledger.commitTurn(makeTurn('waiting'));
    await ledger.commitTurn(makeTurn('new', { servedAt: 9000 }), { refuse: 'truncated' });
    expect(await ledger.prune(5000)).toBe(1);
    expect(await ledger.findTurn('old')).toBeNull();
    expect((await ledger.findTurn('new'))?.messages).toHaveLength(1);
    expect((await ledger.counts()).states).toMatchObject({ served: 1, refused: 1 });
    await ledger.close();
    expect((await readFile(join(folder, 'ledger.db'))).toString('latin1')).not.toMatch(/only-here/);
    ledger = openInline(folder);
  });
});

describe('the folder', () => {
  it('has one owner; the second is told who', async () => {
    const second = async () => openInline(folder);
    await expect(second()).rejects.toMatchObject({
      code: 'E_LEDGER',
      message: expect.stringContaining(`process ${process.pid}`),
    });
    expect(await ledger.counts()).toMatchObject({ sessions: 0 });
    await reopen();
  });

  it('a file of a newer program is left alone', async () => {
    await ledger.close();
    const db = openDatabase(join(folder, 'ledger.db'));
    db.exec('PRAGMA user_version = 999');
    db.close();
    await expect((async () => openInline(folder))()).rejects.toMatchObject({
      code: 'E_LEDGER',
      message: expect.stringContaining('newer'),
    });
    await remove();
    ledger = openInline(folder);
  });

  it('a path that is no folder is named', async () => {
    const file = join(folder, 'ledger.db');
    await expect((async () => openInline(join(file, 'inside')))()).rejects.toMatchObject({ code: 'E_LEDGER' });
  });
});

describe('transactions', () => {
  it('many writes that arrive together share one commit; reads alone need none', async () => {
    const other = await temporaryFolder();
    const store = new Store(other.folder);
    const statements = vi.spyOn(store, 'exec');
    const commits = (): number => statements.mock.calls.filter(([sql]) => sql === 'COMMIT').length;
    const replies: Reply[] = [];
    const batcher = new Batcher(
      store,
      (reply) => replies.push(reply),
      () => undefined,
    );
    const push = (id: number, op: Request['op'], ...args: unknown[]): void => batcher.push({ id, op, args, now: 1 });
    for (let id = 1; id <= 200; id++) push(id, 'commitTurn', makeTurn(`t${id}`), null);
    await expect.poll(() => replies.length).toBe(200);
    expect(commits()).toBe(1);
    push(201, 'counts');
    push(202, 'findTurn', 't1');
    await expect.poll(() => replies.length).toBe(202);
    expect(commits()).toBe(1);
    push(203, 'close');
    await other.remove();
  });

  it('nothing is acknowledged when the commit fails, and claims made in it are free again', async () => {
    const other = await temporaryFolder();
    const store = new Store(other.folder);
    const replies: Reply[] = [];
    const batcher = new Batcher(
      store,
      (reply) => replies.push(reply),
      () => undefined,
    );
    const push = (id: number, op: Request['op'], ...args: unknown[]): void => batcher.push({ id, op, args, now: 1 });
    push(1, 'commitTurn', makeTurn('a'), null);
    push(2, 'observe', makeNext('a'));
    await expect.poll(() => replies.length).toBe(2);
    const exec = store.exec.bind(store);
    const spy = vi.spyOn(store, 'exec').mockImplementation((sql) => {
      if (sql === 'COMMIT') throw new Error('disk full');
      exec(sql);
    });
    push(3, 'commitTurn', makeTurn('b'), null);
    push(4, 'claimObserved', 1);
    await expect.poll(() => replies.length).toBe(4);
    expect(replies.slice(2)).toMatchObject(
      [3, 4].map((id) => ({ id, failure: { code: 'E_LEDGER', message: 'disk full' } })),
    );
    spy.mockRestore();
    push(5, 'findTurn', 'b');
    push(6, 'claimObserved', 1);
    await expect.poll(() => replies.length).toBe(6);
    expect(replies[4]).toEqual({ id: 5, value: null });
    expect(replies[5]).toMatchObject({ value: [{ turn: { id: 'a' } }] });
    push(7, 'close');
    await other.remove();
  });
});

it('counts name every state', async () => {
  const { states } = await ledger.counts();
  expect(Object.keys(states)).toEqual([...TURN_STATES]);
  expect(REFUSALS).toContain('no-next-state');
});

it.each([
  ['20.19.0', 'better-sqlite3'],
  ['22.12.0', 'better-sqlite3'],
  ['22.13.0', 'node:sqlite'],
  ['24.1.0', 'node:sqlite'],
])('Node %s uses %s', (version, driver) => {
  expect(driverFor(version)).toBe(driver);
});
