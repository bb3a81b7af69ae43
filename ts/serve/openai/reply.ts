/** The shapes that go back: chat.completion, chat.completion.chunk, usage, log-probs. Fields and order as OpenAI's. */
import type { Finish, ToolCall, Turn } from '../../record/index.js';

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
}

export interface TokenLogprob {
  token: string;
  logprob: number;
  bytes: number[];
  top_logprobs: [];
}

export interface ReplyHead {
  id: string;
  /** seconds since the epoch */ created: number;
  model: string;
  sessionId: string;
}

export function usageOf(promptTokens: number, replyTokens: number, cachedTokens: number): Usage {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: replyTokens,
    total_tokens: promptTokens + replyTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

/** OpenAI's word for how the reply ended. */
export function finishReason(finish: Finish): 'stop' | 'length' | 'tool_calls' {
  if (finish === 'tool') return 'tool_calls';
  return finish === 'length' ? 'length' : 'stop';
}

/** [T] one entry per sampled token; tokens that end inside a character carry their bytes only where text can say them. */
export function tokenLogprobs(
  ids: Int32Array,
  logprobs: Float32Array,
  decode: (ids: Int32Array) => string,
): TokenLogprob[] {
  return Array.from(ids, (id, i) => {
    const token = decode(Int32Array.of(id));
    return { token, logprob: logprobs[i]!, bytes: [...Buffer.from(token, 'utf8')], top_logprobs: [] };
  });
}

export function completion(
  head: ReplyHead,
  turn: Pick<Turn, 'text' | 'toolCalls' | 'finish' | 'version'>,
  usage: Usage,
  logprobs: TokenLogprob[] | null,
): Record<string, unknown> {
  const message = {
    role: 'assistant',
    content: turn.toolCalls.length > 0 && turn.text === '' ? null : turn.text,
    refusal: null,
    ...(turn.toolCalls.length > 0 ? { tool_calls: turn.toolCalls } : {}),
  };
  return {
    id: head.id,
    object: 'chat.completion',
    created: head.created,
    model: head.model,
    choices: [
      {
        index: 0,
        message,
        logprobs: logprobs && { content: logprobs, refusal: null },
        finish_reason: finishReason(turn.finish),
      },
    ],
    usage,
    system_fingerprint: turn.version,
    session_id: head.sessionId,
  };
}

export type Delta = { role?: 'assistant'; content?: string; tool_calls?: Array<ToolCall & { index: number }> };

export function chunk(
  head: ReplyHead,
  delta: Delta,
  o: { finish?: Finish; logprobs?: TokenLogprob[]; version?: string | null } = {},
): Record<string, unknown> {
  return {
    ...envelope(head, o.version ?? null),
    choices: [
      {
        index: 0,
        delta,
        logprobs: o.logprobs ? { content: o.logprobs, refusal: null } : null,
        finish_reason: o.finish ? finishReason(o.finish) : null,
      },
    ],
  };
}

export function usageChunk(head: ReplyHead, usage: Usage, version: string | null): Record<string, unknown> {
  return { ...envelope(head, version), choices: [], usage };
}

function envelope(head: ReplyHead, version: string | null): Record<string, unknown> {
  return {
    id: head.id,
    object: 'chat.completion.chunk',
    created: head.created,
    model: head.model,
    ...(version === null ? {} : { system_fingerprint: version }),
    session_id: head.sessionId,
  };
}

export const sse = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
export const SSE_DONE = 'data: [DONE]\n\n';
export const sseComment = (text: string): string => `: ${text}\n\n`;
