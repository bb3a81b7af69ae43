/**
 * One reply, from the first token to the commit. The order is the contract: tokens go out as they come, but the turn is
 * durable before the last bytes leave; a client that is gone earlier leaves an aborted turn, never a served one.
 */
import type { Finish, Refusal, Turn } from '../../record/index.js';
import { OpenClawError } from '../../record/index.js';
import { ClientGone } from '../http/delivery.js';
import type { ChatRequest } from '../openai/request.js';
import type { Generated, Generation, ServeLedger, ServePolicy, ServeSessions, TextTools } from '../ports.js';
import type { Prepared } from './prepare.js';
import { type ReplyPart, ReplyText } from './reply-text.js';

export interface Piece extends ReplyPart {
  ids: Int32Array;
  logprobs: Float32Array;
}

export interface RunDeps {
  policy: ServePolicy;
  ledger: ServeLedger;
  sessions: ServeSessions;
  text: TextTools;
}

export interface RunInput {
  request: ChatRequest;
  prepared: Prepared;
  turnId: string;
  requestId: string;
  /** aborts when nobody wants the reply any more */ signal: AbortSignal;
  deadlineMs: number;
}

export interface Committed {
  turn: Turn;
  cachedTokens: number;
  /** ms since generation was asked for; null: no token came */ msToFirst: number | null;
}

export class Run {
  private readonly reply: ReplyText;
  private readonly ids: number[] = [];
  private readonly logprobs: number[] = [];
  private msToFirst: number | null = null;

  constructor(
    private readonly o: RunInput,
    private readonly deps: RunDeps,
  ) {
    this.reply = new ReplyText(deps.text, { stop: o.prepared.sampling.stop, tools: o.request.tools });
  }

  /** Yields what may go out; returns after the commit. @throws ClientGone after recording the turn as aborted */
  async *pieces(): AsyncGenerator<Piece, Committed> {
    const { promptIds, sampling } = this.o.prepared;
    const started = performance.now();
    const { signal, deadlineMs } = this.o;
    const generation = this.deps.policy.generate(promptIds, sampling, { signal, deadlineMs });
    let failure: unknown = null;
    try {
      for await (const step of generation) {
        this.msToFirst ??= performance.now() - started;
        this.keep(step);
        yield { ...this.reply.push(step.ids), ...step };
        if (this.reply.stopped) break;
      }
    } catch (error) {
      failure = error;
    } finally {
      // after a stop text nobody waits for further tokens; after the last one this does nothing
      generation.abort();
    }
    const generated = await this.outcome(generation);
    if (failure) throw failure;
    const last = { ...this.reply.end(), ids: new Int32Array(), logprobs: new Float32Array() };
    if (last.text !== '' || last.calls.length > 0) yield last;
    return this.commit(generated);
  }

  private keep(step: { ids: Int32Array; logprobs: Float32Array }): void {
    this.ids.push(...step.ids);
    this.logprobs.push(...step.logprobs);
  }

  private async outcome(generation: Generation): Promise<Generated> {
    const generated = await generation.result.catch(async (error: unknown) => {
      // The engine failed; if it was because nobody listens any more, that is recorded like any other parting.
      if (this.o.signal.aborted) await this.commitAborted(null);
      throw this.o.signal.aborted ? this.parting() : error;
    });
    if (this.reply.stopped) return generated;
    if (this.o.signal.aborted || generated.finish === 'abort') {
      await this.commitAborted(generated.version);
      throw this.parting();
    }
    if (generated.finish === 'deadline' && this.ids.length === 0) {
      throw new OpenClawError('E_DEADLINE', 'no token was sampled before the deadline of the request');
    }
    return generated;
  }

  private parting(): Error {
    const { reason } = this.o.signal;
    return reason instanceof Error ? reason : new ClientGone();
  }

  private async commitAborted(version: string | null): Promise<void> {
    await this.deps.ledger.commitTurn(this.turn('abort', version), { refuse: 'aborted' });
  }

  private async commit(generated: Generated): Promise<Committed> {
    await this.o.prepared.observed;
    const turn = this.turn(this.finish(generated), generated.version);
    // The client left while the last tokens were on their way: it never saw the end.
    if (this.o.signal.aborted) {
      await this.commitAborted(generated.version);
      throw this.parting();
    }
    await this.deps.ledger.commitTurn(turn, this.refusal());
    this.deps.sessions.served(turn);
    return { turn, cachedTokens: generated.cachedTokens, msToFirst: this.msToFirst };
  }

  private refusal(): { refuse?: Refusal } {
    const { recorded } = this.o.prepared;
    if (recorded === 'no:opted-out') return { refuse: 'opted-out' };
    return recorded === 'side' ? { refuse: 'side-turn' } : {};
  }

  private finish(generated: Generated): Finish {
    if (this.reply.calls.length > 0) return 'tool';
    if (this.reply.stopped || generated.finish === 'stop') return 'stop';
    return 'length';
  }

  private turn(finish: Finish, version: string | null): Turn {
    const { request, prepared, turnId, requestId } = this.o;
    return {
      id: turnId,
      sessionId: prepared.resolved.sessionId,
      userId: prepared.userId,
      index: prepared.resolved.index,
      kind: prepared.resolved.kind,
      requestId,
      version,
      promptIds: prepared.promptIds,
      responseIds: Int32Array.from(this.ids),
      logprobs: Float32Array.from(this.logprobs),
      sampling: prepared.sampling,
      messages: request.messages,
      tools: request.tools,
      text: this.reply.text,
      toolCalls: this.reply.calls,
      finish,
      servedAt: Date.now(),
    };
  }
}
