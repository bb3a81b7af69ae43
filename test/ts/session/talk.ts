/** A host and an endpoint in miniature: requests go through inference, replies into an in-memory or real ledger. */
import type { Ledger } from '../../../ts/ledger/index.js';
import type { Message, ToolCall, Turn } from '../../../ts/record/index.js';
import type { Resolved, Sessions } from '../../../ts/session/index.js';
import { makeTurn } from '../ledger/make.js';

export interface Ask {
  userId?: string;
  headers?: Record<string, string>;
  body?: Record<string, unknown>;
}

export interface Answer {
  text?: string;
  toolCalls?: ToolCall[];
  responseIds?: Int32Array;
  finish?: Turn['finish'];
  stop?: string[];
}

export class Talk {
  #turns = 0;

  constructor(
    public sessions: Sessions,
    private readonly ledger: Ledger,
    private readonly clock: () => number,
  ) {}

  /** One request as serve handles it: resolve, observe, reply, commit, remember. */
  async turn(
    messages: Message[],
    answer: Answer = {},
    ask: Ask = {},
  ): Promise<Resolved & { turnId: string; observed: string | null }> {
    const userId = ask.userId ?? 'ann';
    const resolved = await this.sessions.resolve({
      userId,
      headers: ask.headers ?? {},
      body: ask.body ?? {},
      messages,
    });
    const observed = resolved.next === null ? null : await this.ledger.observe(resolved.next);
    const turn = this.#reply(userId, messages, resolved, answer);
    await this.ledger.commitTurn(turn);
    this.sessions.served(turn);
    return { ...resolved, turnId: turn.id, observed };
  }

  #reply(userId: string, messages: Message[], resolved: Resolved, answer: Answer): Turn {
    const id = `turn_${++this.#turns}`;
    const plain = makeTurn(id);
    return makeTurn(id, {
      userId,
      messages,
      sessionId: resolved.sessionId,
      kind: resolved.kind,
      index: resolved.index,
      text: answer.text ?? 'Hello there, my friend.',
      toolCalls: answer.toolCalls ?? [],
      responseIds: answer.responseIds ?? Int32Array.of(10, 11, 2),
      finish: answer.finish ?? 'stop',
      sampling: { ...plain.sampling, stop: answer.stop ?? [] },
      logprobs: null,
      servedAt: this.clock(),
    });
  }
}

export const user = (content: string): Message => ({ role: 'user', content });
export const assistant = (content: string | null, toolCalls?: ToolCall[]): Message => ({
  role: 'assistant',
  content,
  ...(toolCalls ? { toolCalls } : {}),
});
export const system = (content: string): Message => ({ role: 'system', content });
export const tool = (content: string, toolCallId: string): Message => ({ role: 'tool', content, toolCallId });
export const call = (id: string, name: string, args: string): ToolCall => ({
  id,
  type: 'function',
  function: { name, arguments: args },
});
