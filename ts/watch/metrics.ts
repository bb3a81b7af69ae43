/** Prometheus metrics: counters follow the events, gauges are asked for when somebody looks. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { RuntimeEvent } from '../record/index.js';
import type { EventBus } from './bus.js';

/** Numbers at this moment; null: not known, and then not shown as 0. */
export interface Gauges {
  running: number;
  waiting: number;
  states: Record<string, number>;
  refusals: Record<string, number>;
  sessions: number;
  queued: number | null;
  kvBytes: number | null;
  weightBytes: number | null;
}

const PREFIX = 'openclaw_rl_';
/** seconds: from a nano model's first token to a long reply on a laptop */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120];

export class Metrics {
  private readonly registry = new Registry();
  readonly contentType = this.registry.contentType;
  private readonly events;
  private readonly tokens;
  private readonly firstToken;
  private readonly reply;
  private readonly gauge;
  private readonly byState;
  private readonly byRefusal;
  private readonly update;

  constructor(
    bus: EventBus,
    private readonly gauges: () => Promise<Gauges>,
  ) {
    const registers = [this.registry];
    this.events = new Counter({
      name: `${PREFIX}events_total`,
      help: 'What happened, by type',
      labelNames: ['type'],
      registers,
    });
    this.tokens = new Counter({
      name: `${PREFIX}tokens_total`,
      help: 'Tokens of prompts and replies',
      labelNames: ['kind'],
      registers,
    });
    this.firstToken = new Histogram({
      name: `${PREFIX}first_token_seconds`,
      help: 'Time to the first token, waiting for a place left out',
      buckets: SECONDS,
      registers,
    });
    this.reply = new Histogram({
      name: `${PREFIX}reply_seconds`,
      help: 'From arrival to the commit',
      buckets: SECONDS,
      registers,
    });
    this.gauge = new Gauge({
      name: `${PREFIX}now`,
      help: 'Requests, sessions, queue and memory at this moment',
      labelNames: ['what'],
      registers,
    });
    this.byState = new Gauge({ name: `${PREFIX}turns`, help: 'Turns by state', labelNames: ['state'], registers });
    this.byRefusal = new Gauge({
      name: `${PREFIX}refused_turns`,
      help: 'Turns refused, by reason',
      labelNames: ['reason'],
      registers,
    });
    this.update = new Gauge({
      name: `${PREFIX}last_update`,
      help: 'Metrics of the newest update',
      labelNames: ['metric'],
      registers,
    });
    bus.subscribe((event) => this.count(event));
  }

  async render(): Promise<string> {
    this.set(await this.gauges());
    return this.registry.metrics();
  }

  private count(event: RuntimeEvent): void {
    this.events.inc({ type: event.type });
    if (event.type === 'turn.served') this.served(event);
    if (event.type === 'update.done')
      for (const [metric, value] of Object.entries(event.metrics)) this.update.set({ metric }, value);
  }

  private served(event: Extract<RuntimeEvent, { type: 'turn.served' }>): void {
    this.tokens.inc({ kind: 'prompt' }, event.promptTokens);
    this.tokens.inc({ kind: 'cached' }, event.cachedTokens);
    this.tokens.inc({ kind: 'reply' }, event.replyTokens);
    if (event.msToFirst !== null) this.firstToken.observe(event.msToFirst / 1000);
    if (event.ms !== null) this.reply.observe(event.ms / 1000);
  }

  private set(now: Gauges): void {
    for (const [state, n] of Object.entries(now.states)) this.byState.set({ state }, n);
    for (const [reason, n] of Object.entries(now.refusals)) this.byRefusal.set({ reason }, n);
    const { running, waiting, sessions, queued, kvBytes, weightBytes } = now;
    for (const [what, n] of Object.entries({ running, waiting, sessions, queued, kvBytes, weightBytes })) {
      if (n !== null) this.gauge.set({ what }, n);
    }
  }
}
