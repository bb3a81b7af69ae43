import { describe, expect, it } from 'vitest';
import type { RuntimeEvent } from '../../../ts/record/index.js';
import { EventBus } from '../../../ts/watch/bus.js';
import { createLog } from '../../../ts/watch/log.js';
import { type Gauges, Metrics } from '../../../ts/watch/metrics.js';

const skipped = (n: number) => ({ type: 'update.skipped' as const, reason: `r${n}`, turns: n });

describe('the event bus', () => {
  it('numbers events and keeps the newest', () => {
    const bus = new EventBus({ history: 4, clock: () => 7 });
    for (let n = 1; n <= 6; n++) bus.emit(skipped(n));
    expect(bus.lastId).toBe(6);
    expect(bus.history().map((e) => e.id)).toEqual([3, 4, 5, 6]);
    expect(bus.history(5)).toEqual([{ ...skipped(6), id: 6, at: 7 }]);
    expect(bus.history(99)).toEqual([]);
  });

  it('gives a late reader what it missed, then each event once', () => {
    const bus = new EventBus({ history: 3 });
    for (let n = 1; n <= 5; n++) bus.emit(skipped(n));
    const seen: number[] = [];
    const leave = bus.subscribe((e) => seen.push(e.id), { after: 4 });
    bus.emit(skipped(6));
    leave();
    bus.emit(skipped(7));
    expect(seen).toEqual([5, 6]);
  });

  it('a listener that throws harms neither the others nor who emits', () => {
    const failures: unknown[] = [];
    const bus = new EventBus({ listenerFailed: (error) => failures.push(error) });
    const seen: RuntimeEvent[] = [];
    bus.subscribe(() => {
      throw new Error('no');
    });
    bus.subscribe((e) => seen.push(e));
    bus.emit(skipped(1));
    expect(seen).toHaveLength(1);
    expect(failures).toHaveLength(1);
  });
});

describe('metrics', () => {
  const gauges: Gauges = {
    running: 2,
    waiting: 1,
    states: { served: 3, trained: 5 },
    refusals: { stale: 4 },
    sessions: 6,
    queued: null,
    kvBytes: 10,
    weightBytes: null,
  };

  it('count events and show what is now; what is not known is not shown as 0', async () => {
    const bus = new EventBus();
    const metrics = new Metrics(bus, async () => gauges);
    bus.emit({
      type: 'turn.served',
      turnId: 't',
      sessionId: 's',
      kind: 'main',
      index: 0,
      version: 'v',
      finish: 'stop',
      promptTokens: 7,
      cachedTokens: 2,
      replyTokens: 3,
      msToFirst: 12,
      ms: 80,
    });
    bus.emit({ type: 'update.done', version: 'v1', parent: 'v0', turns: 1, metrics: { loss: 0.25 }, ms: 5 });
    const text = await metrics.render();
    expect(text).toContain('openclaw_rl_events_total{type="turn.served"} 1');
    expect(text).toContain('openclaw_rl_tokens_total{kind="reply"} 3');
    expect(text).toContain('openclaw_rl_first_token_seconds_count 1');
    expect(text).toContain('openclaw_rl_turns{state="trained"} 5');
    expect(text).toContain('openclaw_rl_refused_turns{reason="stale"} 4');
    expect(text).toContain('openclaw_rl_last_update{metric="loss"} 0.25');
    expect(text).toContain('openclaw_rl_now{what="kvBytes"} 10');
    expect(text).not.toContain('queued');
  });
});

describe('the log', () => {
  it('hides what is secret', () => {
    const log = createLog('info');
    const lines: string[] = [];
    const stream = Object.getOwnPropertySymbols(log).find((s) => String(s) === 'Symbol(pino.stream)')!;
    (log as unknown as Record<symbol, { write(line: string): void }>)[stream] = { write: (line) => lines.push(line) };
    log.info({ apiKey: 'sk-1', headers: { authorization: 'Bearer sk-2' }, judge: { apiKey: 'sk-3' } }, 'x');
    expect(lines.join('')).toContain('[hidden]');
    expect(lines.join('')).not.toContain('sk-');
  });
});
