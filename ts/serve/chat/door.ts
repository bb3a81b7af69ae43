/** POST /v1/chat/completions: from the parsed body to the HTTP response, streamed or whole. */
import { randomUUID } from 'node:crypto';
import { OpenClawError, type Turn } from '../../record/index.js';
import type { Delivery } from '../http/delivery.js';
import { HttpError, toHttpError } from '../http/errors.js';
import { Slots } from '../http/slots.js';
import {
  chunk,
  completion,
  type ReplyHead,
  SSE_DONE,
  sse,
  tokenLogprobs,
  type Usage,
  usageChunk,
  usageOf,
} from '../openai/reply.js';
import { type ChatRequest, parseChatRequest } from '../openai/request.js';
import type { ServeEvents, ServeLimits, ServeTurn } from '../ports.js';
import { type Prepared, prepare } from './prepare.js';
import { identifyRequest, type RequestIdentity, Retries } from './retries.js';
import { type Committed, type Piece, Run, type RunDeps } from './run.js';
import { eventStream } from './stream.js';

export interface ChatDeps extends RunDeps {
  events: ServeEvents;
  limits: ServeLimits;
  /** failures whose details must not leave the house */ logError(error: unknown, about: Record<string, unknown>): void;
}

export interface ChatCall {
  userId: string;
  json: unknown;
  headers: Record<string, string | undefined>;
  delivery: Delivery;
  /** ms, performance.now() at arrival */ arrivedAt: number;
}

/** A request that passed the checks and holds a place. */
interface Seated {
  call: ChatCall;
  request: ChatRequest;
  identity: RequestIdentity;
  prepared: Prepared;
  turnId: string;
  signal: AbortSignal;
}

export class ChatDoor {
  readonly slots: Slots;
  private readonly retries: Retries;
  private readonly stopping = new AbortController();
  private draining = false;
  private readonly open = new Set<Promise<unknown>>();

  constructor(private readonly deps: ChatDeps) {
    this.slots = new Slots(deps.limits.maxRunning, deps.limits.maxWaiting);
    this.retries = new Retries(deps.limits.retryWindowMs);
  }

  /** New requests are turned away; those in flight get `drainMs`, then are aborted (and recorded as such). */
  async close(): Promise<void> {
    this.draining = true;
    const timer = setTimeout(() => this.stopping.abort(shuttingDown()), this.deps.limits.drainMs);
    while (this.open.size > 0) await Promise.allSettled([...this.open]);
    clearTimeout(timer);
  }

  async handle(call: ChatCall): Promise<Response> {
    if (this.draining) throw shuttingDown();
    const request = parseChatRequest(call.json, this.deps.limits);
    this.checkModel(request.model);
    const identity = identifyRequest(call.userId, call.headers, JSON.stringify(call.json), () => `req_${randomUUID()}`);
    const earlier = await this.earlierTurn(call.userId, identity);
    if (earlier) return this.replay(request, earlier);
    const settle = this.retries.begin(identity.remember);
    return this.answer(call, request, identity, settle);
  }

  private checkModel(model: string | null): void {
    if (model === null || model === 'default' || model === this.deps.policy.name || model === this.deps.policy.live())
      return;
    throw new HttpError(
      404,
      `the model '${model}' does not exist; this server has '${this.deps.policy.name}'`,
      'model_not_found',
      'model',
    );
  }

  // --- retries ---

  /** The turn an earlier attempt at this very request left behind, if its reply can be given again. */
  private async earlierTurn(userId: string, identity: RequestIdentity): Promise<ServeTurn | null> {
    const { ledger, limits } = this.deps;
    const turnId = await this.retries.earlier(identity.lookup);
    let turn = turnId ? await ledger.findTurn(turnId) : null;
    if (!turn && identity.named) turn = await ledger.findByRequest(userId, identity.requestId);
    if (!turn) return null;
    if (turn.refusal !== 'aborted' && Date.now() - turn.servedAt < limits.retryWindowMs) return turn;
    // The name is taken by a turn nobody got the end of (or by an old one): this attempt is a turn of its own.
    if (turn.requestId === identity.requestId) identity.requestId += `~${randomUUID().slice(0, 8)}`;
    return null;
  }

  private replay(request: ChatRequest, turn: ServeTurn): Response {
    const committed: Committed = { turn, cachedTokens: 0, msToFirst: null };
    const recorded = turn.refusal === 'opted-out' ? 'no:opted-out' : turn.kind;
    const headers = { ...this.headers(turn, recorded, null), 'x-openclaw-rl-replayed': 'true' };
    const head = this.head(turn);
    if (!request.stream) return Response.json(this.whole(head, committed, request), { headers });
    const first = sse(chunk(head, { role: 'assistant', content: '' }));
    const piece = this.pieceChunk(
      head,
      request,
      { text: turn.text, calls: turn.toolCalls, ids: turn.responseIds, logprobs: turn.logprobs ?? new Float32Array() },
      0,
    );
    const body = first + piece + this.lastChunks(head, committed, request);
    return new Response(body, { headers: { ...headers, ...STREAM_HEADERS } });
  }

  // --- one turn ---

  private async answer(
    call: ChatCall,
    request: ChatRequest,
    identity: RequestIdentity,
    settle: (turnId: string | null) => void,
  ): Promise<Response> {
    const deadline = AbortSignal.timeout(this.remaining(call));
    const signal = AbortSignal.any([call.delivery.gone, this.stopping.signal]);
    let release: () => void = () => {};
    let seated: Seated;
    try {
      release = await this.slots.take(AbortSignal.any([signal, deadline]));
      const prepared = await prepare(request, call.userId, call.headers, this.deps);
      seated = { call, request, identity, prepared, turnId: `turn_${randomUUID()}`, signal };
    } catch (error) {
      release();
      settle(null);
      throw this.refused(error);
    }
    const run = this.run(seated, (turnId) => {
      release();
      settle(turnId);
    });
    return request.stream ? this.streamed(seated, run) : this.unstreamed(seated, run);
  }

  private remaining(call: ChatCall): number {
    return Math.max(1, Math.round(this.deps.limits.requestMs - (performance.now() - call.arrivedAt)));
  }

  /** A wait that ended by the request's deadline is a 504; a request turned away is counted. */
  private refused(error: unknown): unknown {
    const cause =
      error instanceof DOMException && error.name === 'TimeoutError'
        ? new OpenClawError('E_DEADLINE', 'the deadline of the request passed while it waited for a place')
        : error;
    const http = toHttpError(cause);
    if (http.status === 429 || http.status === 503)
      this.deps.events.emit({ type: 'request.refused', reason: http.code ?? 'overloaded' });
    return cause;
  }

  /** The run with everything that must happen at its end, whichever end it is. */
  private async *run(seated: Seated, ended: (turnId: string | null) => void): AsyncGenerator<Piece, Committed> {
    const { request, prepared, turnId, identity, signal, call } = seated;
    let finished!: () => void;
    const open = new Promise<void>((resolve) => {
      finished = resolve;
    });
    this.open.add(open);
    let served: string | null = null;
    try {
      const run = new Run(
        { request, prepared, turnId, requestId: identity.requestId, signal, deadlineMs: this.remaining(call) },
        this.deps,
      );
      const committed = yield* run.pieces();
      served = turnId;
      this.afterCommit(seated, committed);
      return committed;
    } catch (error) {
      if (signal.aborted) this.deps.events.emit({ type: 'turn.refused', turnId, reason: 'aborted' });
      throw this.refused(error);
    } finally {
      ended(served);
      this.open.delete(open);
      finished();
    }
  }

  private afterCommit(seated: Seated, { turn, cachedTokens, msToFirst }: Committed): void {
    const { call, prepared } = seated;
    this.deps.events.emit({
      type: 'turn.served',
      turnId: turn.id,
      sessionId: turn.sessionId,
      kind: turn.kind,
      index: turn.index,
      version: turn.version,
      finish: turn.finish,
      promptTokens: turn.promptIds.length,
      cachedTokens,
      replyTokens: turn.responseIds.length,
      msToFirst,
      ms: performance.now() - call.arrivedAt,
    });
    const undo = () => this.background(this.abortTurn(turn.id), { turnId: turn.id });
    if (call.delivery.gone.aborted) undo();
    else call.delivery.gone.addEventListener('abort', undo, { once: true });
    if (prepared.resolved.done) this.background(this.endSession(turn.sessionId), { sessionId: turn.sessionId });
  }

  /** Between the commit and the last byte the client left: the reply it never got is not training data. */
  private async abortTurn(turnId: string): Promise<void> {
    await this.deps.ledger.abortTurn(turnId);
    this.deps.events.emit({ type: 'turn.refused', turnId, reason: 'aborted' });
  }

  private async endSession(sessionId: string): Promise<void> {
    const unobserved = await this.deps.ledger.endSession(sessionId, 'done');
    this.deps.events.emit({ type: 'session.ended', sessionId, reason: 'done', unobserved });
  }

  /** Work the client does not wait for, but close() does. */
  private background(work: Promise<void>, about: Record<string, unknown>): void {
    const tracked: Promise<void> = work
      .catch((error: unknown) => this.deps.logError(error, about))
      .finally(() => this.open.delete(tracked));
    this.open.add(tracked);
  }

  // --- answers ---

  private async unstreamed(seated: Seated, run: AsyncGenerator<Piece, Committed>): Promise<Response> {
    let step = await run.next();
    while (!step.done) step = await run.next();
    const committed = step.value;
    const headers = this.headers(committed.turn, seated.prepared.recorded, seated.prepared);
    seated.call.delivery.handOver();
    return Response.json(this.whole(this.head(committed.turn), committed, seated.request), { headers });
  }

  /** Headers leave with the first token, so that what fails before has a status of its own; after `keepAliveMs` they leave anyway. */
  private async streamed(seated: Seated, run: AsyncGenerator<Piece, Committed>): Promise<Response> {
    const { prepared, turnId, call } = seated;
    const live = this.deps.policy.live();
    const first = run.next();
    const began = await firstOrTimeout(first, this.deps.limits.keepAliveMs);
    // The engine takes its version between these two looks. Where they differ the header stays away: absent is not wrong.
    const version = began && this.deps.policy.live() === live ? live : null;
    const about = { id: turnId, sessionId: prepared.resolved.sessionId, version };
    const body = eventStream(this.events(seated, first, run), {
      keepAliveMs: this.deps.limits.keepAliveMs,
      cancelled: () => call.delivery.lost(),
      ended: () => call.delivery.handOver(),
    });
    return new Response(body, { headers: { ...this.headers(about, prepared.recorded, prepared), ...STREAM_HEADERS } });
  }

  private async *events(
    seated: Seated,
    first: Promise<IteratorResult<Piece, Committed>>,
    run: AsyncGenerator<Piece, Committed>,
  ): AsyncGenerator<string> {
    const { request, turnId, prepared } = seated;
    const head = this.head({ id: turnId, sessionId: prepared.resolved.sessionId });
    let calls = 0;
    try {
      let step = await first;
      yield sse(chunk(head, { role: 'assistant', content: '' }));
      for (; !step.done; step = await run.next()) {
        const data = this.pieceChunk(head, request, step.value, calls);
        calls += step.value.calls.length;
        if (data) yield data;
      }
      yield this.lastChunks(head, step.value, request);
    } catch (error) {
      // The status has left: the error travels as an event, which stock clients throw.
      const http = toHttpError(error);
      if (!seated.signal.aborted) this.deps.logError(error, { turnId });
      yield sse(http.body());
      yield SSE_DONE;
    }
  }

  private pieceChunk(head: ReplyHead, request: ChatRequest, piece: Piece, callsBefore: number): string {
    const logprobs = request.logprobs ? { logprobs: this.logprobsOf(piece.ids, piece.logprobs) } : {};
    const delta = {
      ...(piece.text ? { content: piece.text } : {}),
      ...(piece.calls.length > 0
        ? { tool_calls: piece.calls.map((call, i) => ({ index: callsBefore + i, ...call })) }
        : {}),
    };
    const empty = Object.keys(delta).length === 0 && !(request.logprobs && piece.ids.length > 0);
    return empty ? '' : sse(chunk(head, delta, logprobs));
  }

  private lastChunks(head: ReplyHead, committed: Committed, request: ChatRequest): string {
    const { turn } = committed;
    const last = sse(chunk(head, {}, { finish: turn.finish, version: turn.version }));
    const usage = request.includeUsage ? sse(usageChunk(head, this.usage(committed), turn.version)) : '';
    return last + usage + SSE_DONE;
  }

  private whole(head: ReplyHead, committed: Committed, request: ChatRequest): Record<string, unknown> {
    const { turn } = committed;
    const logprobs = request.logprobs && turn.logprobs ? this.logprobsOf(turn.responseIds, turn.logprobs) : null;
    return completion(head, turn, this.usage(committed), logprobs);
  }

  private logprobsOf(ids: Int32Array, logprobs: Float32Array): ReturnType<typeof tokenLogprobs> {
    return tokenLogprobs(ids, logprobs, (id) => this.deps.policy.decode(id));
  }

  private usage({ turn, cachedTokens }: Committed): Usage {
    return usageOf(turn.promptIds.length, turn.responseIds.length, cachedTokens);
  }

  private head(turn: Pick<Turn, 'id' | 'sessionId'>): ReplyHead {
    const id = `chatcmpl-${turn.id.replace(/^turn_/, '')}`;
    return { id, created: Math.floor(Date.now() / 1000), model: this.deps.policy.name, sessionId: turn.sessionId };
  }

  private headers(
    turn: Pick<Turn, 'id' | 'sessionId' | 'version'>,
    recorded: string,
    prepared: Prepared | null,
  ): Record<string, string> {
    const clamped = prepared?.clampedFrom
      ? { 'x-openclaw-rl-clamped': `max_tokens=${prepared.clampedFrom}; given=${prepared.sampling.maxTokens}` }
      : {};
    return {
      'x-openclaw-rl-session': headerSafe(turn.sessionId),
      'x-openclaw-rl-turn': turn.id,
      'x-openclaw-rl-recorded': recorded,
      ...(turn.version === null ? {} : { 'x-openclaw-rl-version': headerSafe(turn.version) }),
      ...clamped,
    };
  }
}

const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // proxies of the nginx kind hold streams back unless told
  'x-accel-buffering': 'no',
};

/** Header values are visible ASCII; the body carries the exact name. */
const headerSafe = (text: string): string => text.replace(/[^\x21-\x7e]/gu, '?');

const shuttingDown = (): HttpError =>
  new HttpError(503, 'the server is shutting down', 'shutting_down', null, { 'retry-after': '5' });

/** Whether the first piece came in time. A failure before then is thrown, to be answered with its own status. */
async function firstOrTimeout(first: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([first.then(() => true), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
