/**
 * One ingest connection. Frames are handled one after the other; `ack` goes out only when everything up to that number is in
 * the ledger. Nothing here trusts the client: size, order, credit and shape are checked, and whoever breaks them is cut off.
 */
import type { RawData, WebSocket } from 'ws';
import { type Code, OpenClawError, type RuntimeEvent, type Turn } from '../../record/index.js';
import { feedbackState } from '../admin.js';
import { toHttpError } from '../http/errors.js';
import { CLOSE, type ClientFrame, clientFrame, type HelloFrame, helloFrame, type ServerFrame } from './frames.js';
import type { IngestIdentity } from './identity.js';
import { type OpenTurn, OpenTurns } from './open-turns.js';
import type { IngestDeps } from './server.js';

export interface ConnectionDeps extends IngestDeps {
  /** @throws when the key is wrong */ identify(hello: HelloFrame): IngestIdentity;
  ended(): void;
}

/** ms in which a new connection must say hello */
const HELLO_MS = 10_000;
/** bytes held for a client that does not read */
const MAX_UNREAD = 1 << 20;
/** failures of ours after which the client should come back with the same frames */
const RETRYABLE: ReadonlySet<Code> = new Set<Code>(['E_BUSY', 'E_DISPOSED']);

interface Received {
  frame: ClientFrame;
  size: number;
}

export class IngestConnection {
  private identity: IngestIdentity | null = null;
  private readonly turns: OpenTurns;
  private readonly queue: Received[] = [];
  private working: Promise<void> | null = null;
  /** last number handled */ private handled = 0;
  private received = 0;
  private over = false;
  private alive = true;
  private readonly helloTimer: NodeJS.Timeout;
  private readonly heartbeat: NodeJS.Timeout;
  private unsubscribe = () => {};

  constructor(
    private readonly ws: WebSocket,
    private readonly deps: ConnectionDeps,
  ) {
    const { maxOpenBytes, heartbeatMs } = deps.limits.ingest;
    this.turns = new OpenTurns(maxOpenBytes);
    this.helloTimer = setTimeout(() => void this.end(CLOSE.badFrame, 'no hello'), HELLO_MS);
    this.heartbeat = setInterval(() => this.beat(), heartbeatMs);
    ws.on('message', (data, binary) => this.receive(data, binary));
    ws.on('pong', () => {
      this.alive = true;
    });
    // too large a frame and protocol errors arrive here; ws has closed the socket already
    ws.on('error', () => {});
    ws.on('close', () => this.closed());
  }

  /** Finishes the frame at hand, then closes. */
  async end(code: number, reason: string): Promise<void> {
    if (this.over) return;
    this.over = true;
    this.queue.length = 0;
    await this.working;
    this.ws.close(code, reason.slice(0, 120));
    setTimeout(() => this.ws.terminate(), 2000).unref();
  }

  private closed(): void {
    this.over = true;
    clearTimeout(this.helloTimer);
    clearInterval(this.heartbeat);
    this.unsubscribe();
    if (this.identity?.connection === this) this.identity.connection = null;
    this.deps.ended();
  }

  private beat(): void {
    if (this.alive) this.ws.ping();
    else this.ws.terminate();
    this.alive = false;
  }

  private send(frame: ServerFrame): void {
    if (this.ws.readyState !== this.ws.OPEN) return;
    if (this.ws.bufferedAmount > MAX_UNREAD) this.ws.terminate();
    else this.ws.send(JSON.stringify(frame));
  }

  private fail(closeCode: number, code: string, message: string, seq?: number): void {
    this.send({ type: 'error', code, message, ...(seq === undefined ? {} : { seq }) });
    void this.end(closeCode, message);
  }

  // --- in ---

  private receive(data: RawData, binary: boolean): void {
    if (this.over) return;
    try {
      const text = binary ? '' : data.toString();
      const json = parse(text);
      if (this.identity) this.accept({ frame: readFrame(json), size: text.length }, this.identity);
      else this.hello(json);
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      this.fail(CLOSE.badFrame, error.code, error.message, error.seq);
    }
  }

  private hello(json: unknown): void {
    const parsed = helloFrame.safeParse(json);
    if (!parsed.success) throw new Violation('E_ARGUMENT', `hello: ${parsed.error.issues[0]!.message}`);
    this.identity = this.identified(parsed.data);
    clearTimeout(this.helloTimer);
    const { acked } = this.identity;
    this.received = this.handled = acked ?? 0;
    if (parsed.data.subscribe) this.unsubscribe = this.deps.events.subscribe((event) => this.tell(event));
    this.send({ type: 'welcome', resumeFrom: (acked ?? 0) + 1, credit: this.deps.limits.ingest.credit });
  }

  private identified(hello: HelloFrame): IngestIdentity {
    try {
      return this.deps.identify(hello);
    } catch (error) {
      throw new Violation('E_FORBIDDEN', toHttpError(error).message);
    }
  }

  private accept(received: Received, identity: IngestIdentity): void {
    const { seq } = received.frame;
    const first = identity.acked === null && this.received === 0;
    if (!first && seq <= this.received) {
      this.already(seq, identity);
      return;
    }
    if (!first && seq !== this.received + 1)
      throw new Violation('E_ARGUMENT', `seq: expected ${this.received + 1}, came ${seq}`, seq);
    if (this.queue.length >= this.deps.limits.ingest.credit)
      throw new Violation('E_BUSY', 'more frames than there was credit for', seq);
    this.received = seq;
    this.queue.push(received);
    this.working ??= this.work(identity).finally(() => {
      this.working = null;
    });
  }

  /** A frame we hold: it costs the client its credit like any other, and gets it back. */
  private already(seq: number, identity: IngestIdentity): void {
    this.send({ type: 'credit', n: 1 });
    if (identity.acked !== null && seq <= identity.acked) this.send({ type: 'ack', seq: identity.acked });
  }

  private async work(identity: IngestIdentity): Promise<void> {
    for (let next = this.queue.shift(); next; next = this.queue.shift()) {
      if (!(await this.handle(next, identity))) return;
      this.handled = next.frame.seq;
      this.acknowledge(identity);
      this.send({ type: 'credit', n: 1 });
    }
  }

  private acknowledge(identity: IngestIdentity): void {
    const open = this.turns.firstSeq();
    const durable = open === null ? this.handled : open - 1;
    if (durable < 1 || durable <= (identity.acked ?? 0)) return;
    identity.acked = durable;
    this.send({ type: 'ack', seq: durable });
  }

  /** False: the frame is not done and the connection is at its end. What the client did wrong is told, and counts as done. */
  private async handle({ frame, size }: Received, identity: IngestIdentity): Promise<boolean> {
    try {
      await this.apply(frame, size, identity);
      return true;
    } catch (error) {
      const known = error instanceof OpenClawError;
      if (known && !RETRYABLE.has(error.code) && error.code !== 'E_LEDGER') {
        this.send({ type: 'error', code: error.code, message: error.message, seq: frame.seq });
        return true;
      }
      if (!known || error.code === 'E_LEDGER') this.deps.logError(error, { ingest: frame.type, seq: frame.seq });
      const busy = known && RETRYABLE.has(error.code);
      // end() waits for this very work: it is called after it
      setImmediate(() =>
        this.fail(
          busy ? CLOSE.busy : CLOSE.failed,
          busy ? 'E_BUSY' : 'E_INTERNAL',
          busy ? error.message : 'the frame could not be recorded',
          frame.seq,
        ),
      );
      this.queue.length = 0;
      return false;
    }
  }

  private async apply(frame: ClientFrame, size: number, identity: IngestIdentity): Promise<void> {
    switch (frame.type) {
      case 'open':
        return this.deps.ledger.setMeta(
          metaKey(identity, frame.session),
          JSON.stringify({ user: frame.user, agent: frame.agent }),
        );
      case 'turn.start':
        return this.turns.start(frame, size);
      case 'turn.delta':
        return this.turns.add(frame, size);
      case 'turn.end':
        return this.endTurn(frame, identity);
      case 'state':
        return this.observe(
          { turnId: identity.turnId(frame.turn), items: frame.items.map(withoutUndefined), arrivedAt: Date.now() },
          frame.turn,
        );
      case 'feedback': {
        if (frame.score === undefined && frame.text === undefined)
          throw new OpenClawError('E_ARGUMENT', 'score or text is needed', 'score');
        return this.observe(
          feedbackState(identity.turnId(frame.turn), frame.score ?? null, frame.text ?? null),
          frame.turn,
        );
      }
      case 'close':
        return this.closeSession(identity.sessionId(frame.session), frame.reason);
    }
  }

  private async endTurn(frame: Extract<ClientFrame, { type: 'turn.end' }>, identity: IngestIdentity): Promise<void> {
    const open = this.turns.get(frame.turn);
    const turn = await this.turnOf(frame, open, identity);
    // Committed on an earlier connection that ended before the ack: it is there, and that is all that matters.
    if (!(await this.deps.ledger.findTurn(turn.id))) {
      await this.deps.ledger.commitTurn(turn, frame.finish === 'abort' ? { refuse: 'aborted' } : {});
      this.deps.events.emit(servedEvent(turn));
    }
    this.turns.end(frame.turn);
  }

  private async turnOf(
    frame: Extract<ClientFrame, { type: 'turn.end' }>,
    open: OpenTurn,
    identity: IngestIdentity,
  ): Promise<Turn> {
    const sessionId = identity.sessionId(open.session);
    const meta = await this.deps.ledger.getMeta(metaKey(identity, open.session));
    const { user } = (meta ? JSON.parse(meta) : {}) as { user?: string };
    const last = await this.deps.ledger.lastTurnOfSession(sessionId);
    const id = identity.turnId(frame.turn);
    // Ids without the prompt's are of no use to a trainer, nor are ids without log-probs: then both are absent, not empty.
    const exact = open.promptIds.length > 0 && open.ids.length > 0 && open.logprobs !== null;
    return {
      id,
      sessionId,
      userId: identity.userId(user),
      index: last ? last.index + 1 : 0,
      kind: 'main',
      requestId: `ingest~${id}`,
      version: frame.version ?? null,
      promptIds: open.promptIds,
      responseIds: Int32Array.from(open.ids),
      logprobs: exact ? Float32Array.from(open.logprobs!) : null,
      sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: Math.max(1, open.ids.length), seed: null, stop: [] },
      messages: open.messages,
      tools: open.tools,
      text: open.text,
      toolCalls: [],
      finish: frame.finish,
      servedAt: Date.now(),
    };
  }

  private async observe(next: Parameters<IngestDeps['ledger']['observe']>[0], name: string): Promise<void> {
    const outcome = await this.deps.ledger.observe(next);
    if (outcome === 'missing') throw new OpenClawError('E_NOT_FOUND', `there is no turn '${name}'`, 'turn');
    if (outcome === 'observed') this.deps.events.emit({ type: 'turn.observed', turnId: next.turnId });
  }

  private async closeSession(sessionId: string, reason: string): Promise<void> {
    const unobserved = await this.deps.ledger.endSession(sessionId, reason);
    this.deps.events.emit({ type: 'session.ended', sessionId, reason, unobserved });
  }

  // --- out, for subscribers ---

  private tell(event: RuntimeEvent): void {
    if (event.type === 'update.done') this.send({ type: 'version', version: event.version });
    if (event.type !== 'turn.judged') return;
    const turn = this.identity?.turnName(event.turnId);
    if (turn !== undefined) this.send({ type: 'verdict', turn, reward: event.reward, hints: event.hints });
  }
}

const metaKey = (identity: IngestIdentity, session: string): string => `ingest.session.${identity.sessionId(session)}`;

function servedEvent(turn: Turn): Parameters<IngestDeps['events']['emit']>[0] {
  return {
    type: 'turn.served',
    turnId: turn.id,
    sessionId: turn.sessionId,
    kind: turn.kind,
    index: turn.index,
    version: turn.version,
    finish: turn.finish,
    promptTokens: turn.promptIds.length,
    cachedTokens: 0,
    replyTokens: turn.responseIds.length,
    msToFirst: null,
    ms: null,
  };
}

/** What a client must not do: the connection ends with it. */
class Violation extends Error {
  constructor(
    readonly code: Code,
    message: string,
    readonly seq?: number,
  ) {
    super(message);
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Violation('E_ARGUMENT', 'a frame must be JSON text');
  }
}

function readFrame(json: unknown): ClientFrame {
  const parsed = clientFrame.safeParse(json);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  throw new Violation('E_ARGUMENT', `${issue.path.join('.') || 'frame'}: ${issue.message}`, seqOf(json));
}

function seqOf(json: unknown): number | undefined {
  const seq = (json as { seq?: unknown } | null)?.seq;
  return typeof seq === 'number' && Number.isInteger(seq) && seq > 0 ? seq : undefined;
}

/** zod's optional fields may be undefined, the record's are absent. */
function withoutUndefined<T extends object>(item: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(item).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
