/** Stand-ins for the stations around serve: a policy that says what the test tells it to, a ledger and sessions in memory. */
import type { Server as HttpServer } from 'node:http';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type PartialConfig, parseConfig } from '../../../ts/config.js';
import { createToolSplitter } from '../../../ts/policy/chat/tool-calls.js';
import { textStream } from '../../../ts/policy/tokenizer/text-stream.js';
import type { Tokenizer } from '../../../ts/policy/tokenizer/tokenizer.js';
import type { Message, NextState, Refusal, Sampling, Turn, Update } from '../../../ts/record/index.js';
import { OpenClawError } from '../../../ts/record/index.js';
import { createServer, type Server, type ServerOptions } from '../../../ts/serve/index.js';
import type {
  Generated,
  Generation,
  ResolvedTurn,
  ServeLedger,
  ServePolicy,
  ServeSessions,
  ServeTurn,
} from '../../../ts/serve/ports.js';
import { EventBus } from '../../../ts/watch/bus.js';

/** Ends a reply, like <|im_end|>. */
export const END = 0x2_0000;
const BYTE = 0x1_0000;

/** One id per byte: a character of three bytes arrives in three tokens. */
export const encode = (text: string): Int32Array => Int32Array.from(Buffer.from(text, 'utf8'), (byte) => BYTE + byte);
const bytesOf = (ids: ArrayLike<number>): Uint8Array =>
  Uint8Array.from(
    Array.from(ids).filter((id) => id !== END),
    (id) => id - BYTE,
  );
export const decode = (ids: ArrayLike<number>): string => Buffer.from(bytesOf(ids)).toString('utf8');

const tokenizer = { bytesOf, added: [{ id: END, content: '<|im_end|>', special: true }] } as unknown as Tokenizer;

export interface Script {
  /** text of the reply, or of the reply to these messages */ reply: string | ((messages: Message[]) => string);
  /** ms between tokens */ paceMs?: number;
  /** bytes per step */ step?: number;
  /** thrown instead of the token with this number */ failAt?: number;
}

export class FakePolicy implements ServePolicy {
  readonly name = 'fake';
  readonly context = 4096;
  version = 'fake@0';
  readonly asked: Array<{ ids: Int32Array; sampling: Sampling; deadlineMs: number | undefined }> = [];
  aborted = 0;
  private messages: Message[] = [];

  constructor(public script: Script) {}

  live = (): string => this.version;
  decode = (ids: Int32Array): string => (ids.length === 1 && ids[0] === END ? '<|im_end|>' : decode(ids));

  renderChat(messages: Message[]): Int32Array {
    this.messages = messages;
    return encode(messages.map((m) => `${m.role}:${m.content ?? ''}\n`).join(''));
  }

  generate(ids: Int32Array, sampling: Sampling, o: { signal?: AbortSignal; deadlineMs?: number } = {}): Generation {
    this.asked.push({ ids, sampling, deadlineMs: o.deadlineMs });
    const { reply } = this.script;
    const whole = [...encode(typeof reply === 'string' ? reply : reply(this.messages)), END];
    return new FakeGeneration(this, whole, sampling, o.signal);
  }
}

class FakeGeneration implements Generation {
  readonly result: Promise<Generated>;
  private settle!: (g: Generated) => void;
  private fail!: (error: Error) => void;
  private stopped = false;
  private readonly version: string;
  private readonly ids: number[] = [];

  constructor(
    private readonly policy: FakePolicy,
    private readonly whole: number[],
    private readonly sampling: Sampling,
    signal?: AbortSignal,
  ) {
    this.version = policy.version;
    this.result = new Promise((resolve, reject) => {
      this.settle = resolve;
      this.fail = reject;
    });
    this.result.catch(() => {});
    if (signal?.aborted) this.abort();
    signal?.addEventListener('abort', () => this.abort());
  }

  abort(): void {
    if (this.stopped) return;
    this.stopped = true;
    this.policy.aborted++;
    this.settle(this.generated('abort'));
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<{ ids: Int32Array; logprobs: Float32Array }> {
    const { step = 1, paceMs = 0, failAt } = this.policy.script;
    for (let at = 0; at < this.whole.length && at < this.sampling.maxTokens; at += step) {
      if (paceMs > 0) await new Promise((resolve) => setTimeout(resolve, paceMs));
      if (this.stopped) return;
      if (failAt !== undefined && at >= failAt) {
        const error = new OpenClawError('E_INTERNAL', 'the fake engine broke; secret detail');
        this.stopped = true;
        this.fail(error);
        throw error;
      }
      const ids = this.whole.slice(at, Math.min(at + step, this.sampling.maxTokens));
      this.ids.push(...ids);
      yield { ids: Int32Array.from(ids), logprobs: Float32Array.from(ids, (_, i) => -0.5 - (at + i) / 100) };
    }
    this.stopped = true;
    this.settle(this.generated(this.ids.at(-1) === END ? 'stop' : 'length'));
  }

  private generated(finish: Generated['finish']): Generated {
    return {
      ids: Int32Array.from(this.ids),
      logprobs: new Float32Array(this.ids.length),
      finish,
      version: this.version,
      cachedTokens: 3,
    };
  }
}

export class FakeLedger implements ServeLedger {
  readonly turns = new Map<string, ServeTurn>();
  readonly observed: NextState[] = [];
  readonly ended: Array<[string, string]> = [];
  readonly meta = new Map<string, string>();
  readonly optOuts = new Set<string>();
  /** in order: what was asked of the ledger */ readonly log: string[] = [];
  commitDelayMs = 0;
  /** a commit does not return before this resolves */ commitGate: Promise<void> = Promise.resolve();
  updateRows: Update[] = [];

  async commitTurn(turn: Turn, o: { refuse?: Refusal } = {}): Promise<void> {
    if (this.commitDelayMs > 0) await new Promise((resolve) => setTimeout(resolve, this.commitDelayMs));
    for (const known of this.turns.values()) {
      if (known.requestId === turn.requestId && known.userId === turn.userId)
        throw new OpenClawError('E_LEDGER', `duplicate of ${known.id}`, 'requestId');
    }
    const refusal = o.refuse ?? null;
    this.turns.set(turn.id, { ...turn, state: refusal ? 'refused' : 'served', refusal, trainedVersion: null });
    this.log.push(`commit ${refusal ?? 'served'}`);
    await this.commitGate;
  }
  async abortTurn(turnId: string): Promise<void> {
    const turn = this.turns.get(turnId)!;
    this.turns.set(turnId, { ...turn, state: 'refused', refusal: 'aborted' });
    this.log.push('abort');
  }
  async observe(next: NextState): Promise<'observed' | 'already' | 'missing'> {
    const turn = this.turns.get(next.turnId);
    if (!turn) return 'missing';
    if (turn.state !== 'served') return 'already';
    this.turns.set(turn.id, { ...turn, state: 'observed' });
    this.observed.push(next);
    this.log.push('observe');
    return 'observed';
  }
  async endSession(sessionId: string, reason: string): Promise<number> {
    this.ended.push([sessionId, reason]);
    return 1;
  }
  async findTurn(turnId: string): Promise<ServeTurn | null> {
    return this.turns.get(turnId) ?? null;
  }
  async findByRequest(userId: string, requestId: string): Promise<ServeTurn | null> {
    return [...this.turns.values()].find((turn) => turn.userId === userId && turn.requestId === requestId) ?? null;
  }
  async turnsOfSession(sessionId: string): Promise<ServeTurn[]> {
    return [...this.turns.values()].filter((turn) => turn.sessionId === sessionId);
  }
  async lastTurnOfSession(sessionId: string): Promise<ServeTurn | null> {
    return (await this.turnsOfSession(sessionId)).at(-1) ?? null;
  }
  async updates(): Promise<Update[]> {
    return this.updateRows;
  }
  async optedOut(userId: string): Promise<boolean> {
    return this.optOuts.has(userId);
  }
  async setOptOut(userId: string, optOut: boolean): Promise<void> {
    if (optOut) this.optOuts.add(userId);
    else this.optOuts.delete(userId);
  }
  async deleteUser(userId: string): Promise<number> {
    const mine = [...this.turns.values()].filter((turn) => turn.userId === userId);
    for (const turn of mine) this.turns.delete(turn.id);
    return mine.length;
  }
  async setMeta(key: string, value: string): Promise<void> {
    this.meta.set(key, value);
  }
  async getMeta(key: string): Promise<string | null> {
    return this.meta.get(key) ?? null;
  }
  last(): ServeTurn {
    return [...this.turns.values()].at(-1)!;
  }
}

/** Sessions by header or by the first message; the next state is whatever stands last. */
export class FakeSessions implements ServeSessions {
  readonly served_: Turn[] = [];
  async resolve(r: Parameters<ServeSessions['resolve']>[0]): Promise<ResolvedTurn> {
    const named = r.headers['x-session-id'] ?? r.body.session_id;
    const sessionId =
      named ?? `s-${r.userId}-${r.messages.find((m) => m.role === 'user')?.content?.slice(0, 16) ?? ''}`;
    const before = this.served_.filter((turn) => turn.sessionId === sessionId);
    const kind = (r.headers['x-turn-type'] ?? r.body.turn_type) === 'side' ? 'side' : 'main';
    const last = before.at(-1);
    const said = r.messages.at(-1)!;
    const next = last
      ? { turnId: last.id, items: [{ role: 'user' as const, text: said.content ?? '' }], arrivedAt: Date.now() }
      : null;
    return {
      sessionId,
      kind,
      index: before.length,
      how: named ? 'header' : 'new',
      next,
      pinned: new Map(),
      done: r.headers['x-session-done'] === '1',
    };
  }
  served(turn: Turn): void {
    this.served_.push(turn);
  }
}

export interface Stage {
  policy: FakePolicy;
  ledger: FakeLedger;
  sessions: FakeSessions;
  events: EventBus;
  errors: unknown[];
  server: Server;
  http: HttpServer;
  url: string;
  close(): Promise<void>;
}

/** Serve over a real socket with everything else faked. */
export async function stage(
  script: Script,
  o: Partial<Pick<ServerOptions, 'apiKeys' | 'pageFolder' | 'ledger' | 'sessions'>> & {
    limits?: PartialConfig['limits'];
  } = {},
): Promise<Stage> {
  const policy = new FakePolicy(script);
  const ledger = new FakeLedger();
  const sessions = new FakeSessions();
  const events = new EventBus();
  const errors: unknown[] = [];
  const server = createServer({
    policy,
    ledger: o.ledger ?? ledger,
    sessions: o.sessions ?? sessions,
    events,
    text: { textStream: (stop) => textStream(tokenizer, { stop }), toolSplitter: createToolSplitter },
    metrics: { contentType: 'text/plain', render: async () => 'fake 1\n' },
    status: async () => ({ model: policy.name }),
    apiKeys: o.apiKeys ?? [],
    limits: parseConfig({ limits: o.limits }).limits,
    pageFolder: o.pageFolder ?? null,
    logError: (error) => errors.push(error),
  });
  const http = createHttpServer((incoming, outgoing) => void server.nodeHandler(incoming, outgoing));
  server.attachWebSocket(http);
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const close = async () => {
    await server.close();
    http.closeAllConnections();
    await new Promise<void>((resolve) => http.close(() => resolve()));
  };
  return { policy, ledger, sessions, events, errors, server, http, url, close };
}

export const user = (content: string) => ({ role: 'user' as const, content });

/** Waits until it holds, at most so long. */
export async function until(holds: () => boolean, ms = 5000): Promise<void> {
  const deadline = Date.now() + ms;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error('what was waited for did not happen');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
