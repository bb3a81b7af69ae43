import { z } from 'zod';

/** Roles as OpenAI names them; `developer` is read as `system` at the door. */
export const roleSchema = z.enum(['system', 'user', 'assistant', 'tool']);

export const toolCallSchema = z.object({
  id: z.string(),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string() }),
});
export type ToolCall = z.infer<typeof toolCallSchema>;

/** A message after the door: content is one string (text parts joined), or null beside tool calls. */
export const messageSchema = z.object({
  role: roleSchema,
  content: z.string().nullable(),
  name: z.string().optional(),
  toolCalls: z.array(toolCallSchema).optional(),
  toolCallId: z.string().optional(),
});
export type Message = z.infer<typeof messageSchema>;

/** One function tool as the request gave it (JSON schema untouched). */
export const toolSchema = z.object({
  type: z.literal('function'),
  function: z.object({ name: z.string(), description: z.string().optional(), parameters: z.unknown().optional() }),
});
export type Tool = z.infer<typeof toolSchema>;

export const samplingSchema = z.object({
  /** 0 = greedy; else 0 < t <= 2 */ temperature: z.number().min(0).max(2),
  /** 0 < p <= 1 */ topP: z.number().gt(0).max(1),
  /** 0 = off */ topK: z.number().int().min(0),
  /** tokens of the reply at most, end token included */ maxTokens: z.number().int().min(1),
  /** null: a fresh one is drawn and recorded */ seed: z.number().int().nonnegative().nullable(),
  /** texts that end the reply */ stop: z.array(z.string()),
});
export type Sampling = z.infer<typeof samplingSchema>;

export const TURN_STATES = ['served', 'observed', 'judged', 'trained', 'refused'] as const;
export type TurnState = (typeof TURN_STATES)[number];

export type Finish = 'stop' | 'length' | 'tool' | 'abort';

/** One reply and everything needed to learn from it. */
export interface Turn {
  /** unique, `turn_…` */ id: string;
  sessionId: string;
  /** who talks, as far as known; isolation and opt-out are by this */ userId: string;
  /** 0, 1, 2 … main-line turns of the session in order */ index: number;
  kind: 'main' | 'side';
  /** id of the HTTP request or the client's own idempotency key */ requestId: string;
  /** the version that sampled every token of the reply; null when it came from an engine that does not say */ version:
    | string
    | null;
  /** [P] ids the policy saw */ promptIds: Int32Array;
  /** [T] ids as sampled, end token included where the reply ended by itself */ responseIds: Int32Array;
  /** [T] natural log, full softmax at temperature 1, for exactly responseIds; null: not known (absent is not zero) */
  logprobs: Float32Array | null;
  sampling: Sampling;
  /** the conversation as the policy saw it, up to and without the reply */ messages: Message[];
  tools: Tool[];
  /** the reply as the client got it */ text: string;
  toolCalls: ToolCall[];
  finish: Finish;
  /** ms since the epoch */ servedAt: number;
}

/** What came after a reply: the user's next words, tool results, an exit code. */
export interface NextState {
  turnId: string;
  items: Array<{
    role: 'user' | 'tool' | 'env';
    text: string;
    isError?: boolean;
    exitCode?: number;
    toolCallId?: string;
  }>;
  /** ms since the epoch */ arrivedAt: number;
}
