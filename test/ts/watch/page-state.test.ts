import { describe, expect, it } from 'vitest';
import type { ServerEvent } from '../../../ts/watch/page/src/api.js';
import { movingMean, type PageState, reduce, START, shortVersion } from '../../../ts/watch/page/src/state.js';

let id = 0;
const stateAfter = (...events: Array<Omit<ServerEvent, 'id' | 'at'>>): PageState =>
  reduce(START, { do: 'events', events: events.map((event) => ({ ...event, id: ++id, at: 0 })) });

describe('what the page knows', () => {
  it('keeps one entry per demo session, in order, however often and in whatever order they come', () => {
    const session = (index: number, firstReplyObeys: boolean) => ({
      type: 'demo.session',
      index,
      firstReplyObeys,
      correct: true,
      version: 'm@1-a',
    });
    const state = stateAfter(session(2, true), session(1, false), session(2, true));
    expect(state.sessions.map((s) => [s.index, s.obeys])).toEqual([
      [1, false],
      [2, true],
    ]);
  });

  it('follows a turn, and counts only rewards that are numbers', () => {
    const state = stateAfter(
      { type: 'turn.served', turnId: 't' },
      { type: 'turn.observed', turnId: 't' },
      { type: 'turn.judged', turnId: 't', reward: -1, hints: 2 },
      { type: 'turn.judged', turnId: 'u', reward: null, hints: 0 },
      { type: 'turn.refused', turnId: 'u', reason: 'no-signal' },
    );
    expect(state.fates.t).toEqual({ state: 'judged', reward: -1, hints: 2 });
    expect(state.fates.u).toEqual({ state: 'refused', detail: 'no-signal' });
    expect(state.rewards).toEqual([-1]);
  });

  it('says what an update is doing, and forgets it when it is over', () => {
    const running = stateAfter(
      { type: 'update.started', turns: 4 },
      { type: 'update.progress', stage: 'epoch', done: 1, total: 4 },
    );
    expect(running.learning.step).toEqual({ label: 'training', share: 0.25 });
    const done = reduce(running, { do: 'events', events: [{ id: ++id, at: 0, type: 'update.done' }] });
    expect(done.learning).toEqual({ step: null, skipped: null });
    const skipped = reduce(running, {
      do: 'events',
      events: [{ id: ++id, at: 0, type: 'update.skipped', reason: 'grad-norm' }],
    });
    expect(skipped.learning).toEqual({ step: null, skipped: 'grad-norm' });
  });

  it('mean of three, names of versions', () => {
    expect(movingMean([0, 1, 1, 1])).toEqual([0, 0.5, 2 / 3, 1]);
    expect(shortVersion('claw-nano@12-1a2b')).toBe('12-1a2b');
    expect(shortVersion('plain')).toBe('plain');
  });
});
