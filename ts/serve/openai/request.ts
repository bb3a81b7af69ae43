/**
 * POST /v1/chat/completions: the body as a stock client sends it → what the path of a turn needs. Wrong types and values are
 * refused by the field's name; fields nobody here knows are ignored, as OpenAI-compatible servers do; fields we know and
 * cannot honour are refused, because ignoring them would change what the caller gets.
 */
import { z } from 'zod';
import type { Message, Tool, ToolCall } from '../../record/index.js';
import { badRequest } from '../http/errors.js';

export interface ChatRequest {
  /** as asked for; null: not said */ model: string | null;
  messages: Message[];
  tools: Tool[];
  stream: boolean;
  includeUsage: boolean;
  /** log-probs of the sampled tokens */ logprobs: boolean;
  temperature: number;
  topP: number;
  topK: number;
  seed: number | null;
  stop: string[];
  /** null: as much as fits */ maxTokens: number | null;
  /** the reference's body twins of its headers, and OpenAI's `user` */
  twins: { session_id?: string; turn_type?: string; session_done?: boolean | string; user?: string };
}

const MAX_STOP_TEXTS = 16;
const MAX_TOOLS = 256;
/** OpenAI's default; unlike greedy it leaves room for a reply to become better than the one before */
const DEFAULT_TEMPERATURE = 1;

const textPart = z.object({ type: z.literal('text'), text: z.string() });
const contentSchema = z.union([z.string(), z.array(textPart)], { error: contentProblem }).nullish();

const toolCallSchema = z.object({
  id: z.string(),
  type: z.literal('function').default('function'),
  function: z.object({
    name: z.string(),
    // the reference accepts arguments that are an object already
    arguments: z.union([z.string(), z.record(z.string(), z.unknown())]).default('{}'),
  }),
});

const messageSchema = z.discriminatedUnion('role', [
  z.object({ role: z.enum(['system', 'developer', 'user']), content: contentSchema, name: z.string().nullish() }),
  z.object({
    role: z.literal('assistant'),
    content: contentSchema,
    name: z.string().nullish(),
    tool_calls: z.array(toolCallSchema).nullish(),
  }),
  z.object({ role: z.literal('tool'), content: contentSchema, tool_call_id: z.string() }),
]);
type WireMessage = z.infer<typeof messageSchema>;

const toolSchema = z.object({
  type: z.literal('function'),
  function: z.object({
    name: z.string().min(1).max(256),
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.unknown()).nullish(),
  }),
});

const count = z.number().int();
const bodySchema = z.object({
  model: z.string().nullish(),
  messages: z.array(messageSchema).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  max_tokens: count.min(1).nullish(),
  max_completion_tokens: count.min(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: count.min(-1).nullish(),
  seed: count.nullish(),
  stop: z.union([z.string().min(1).max(1024), z.array(z.string().min(1).max(1024)).max(MAX_STOP_TEXTS)]).nullish(),
  n: count.min(1).nullish(),
  tools: z.array(toolSchema).max(MAX_TOOLS).nullish(),
  tool_choice: z
    .union([
      z.enum(['auto', 'none', 'required']),
      z.object({ type: z.literal('function'), function: z.object({ name: z.string() }) }),
    ])
    .nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: count.min(0).max(20).nullish(),
  response_format: z.object({ type: z.string() }).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  logit_bias: z.record(z.string(), z.number()).nullish(),
  user: z.string().max(256).nullish(),
  session_id: z.string().max(256).nullish(),
  turn_type: z.string().max(32).nullish(),
  session_done: z.union([z.boolean(), z.string().max(8)]).nullish(),
});
type Body = z.infer<typeof bodySchema>;

/** @throws HttpError 400 naming the field */
export function parseChatRequest(json: unknown, limits: { maxMessages: number }): ChatRequest {
  const parsed = bodySchema.safeParse(json);
  if (!parsed.success) throw firstProblem(parsed.error, json);
  const body = parsed.data;
  if (body.messages.length > limits.maxMessages) {
    throw badRequest(
      `at most ${limits.maxMessages} messages, came ${body.messages.length}`,
      'messages',
      'invalid_value',
    );
  }
  refuseUnsupported(body);
  return toRequest(body);
}

function toRequest(body: Body): ChatRequest {
  const toolsOff = body.tool_choice === 'none';
  return {
    model: body.model ?? null,
    messages: body.messages.map(toMessage),
    tools: toolsOff ? [] : (body.tools ?? []).map(toTool),
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    logprobs: body.logprobs ?? false,
    temperature: body.temperature ?? DEFAULT_TEMPERATURE,
    topP: body.top_p ?? 1,
    topK: Math.max(0, body.top_k ?? 0),
    seed: body.seed == null ? null : toSeed(body.seed),
    stop: body.stop == null ? [] : [body.stop].flat(),
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? null,
    twins: present({
      session_id: body.session_id,
      turn_type: body.turn_type,
      session_done: body.session_done,
      user: body.user,
    }),
  };
}

/** Any integer is a seed; negative ones are folded into the 32 bits the sampler takes for them. */
function toSeed(seed: number): number {
  return seed >= 0 ? seed : ((seed % 2 ** 32) + 2 ** 32) % 2 ** 32;
}

/** Known fields that would change the reply and that this server does not do. */
function refuseUnsupported(body: Body): void {
  const refuse = (param: string, what: string): never => {
    throw badRequest(`${param}: ${what}`, param, 'unsupported_value');
  };
  if ((body.n ?? 1) > 1) refuse('n', 'only one reply per request (n = 1)');
  if ((body.top_logprobs ?? 0) > 0)
    refuse('top_logprobs', 'only the log-probs of the sampled tokens are given; leave it out or 0');
  if (body.tool_choice === 'required' || (typeof body.tool_choice === 'object' && body.tool_choice !== null))
    refuse('tool_choice', "only 'auto' and 'none': a forced call would not be the policy's own words");
  if (body.response_format && body.response_format.type !== 'text') refuse('response_format', "only {type: 'text'}");
  if (body.frequency_penalty) refuse('frequency_penalty', 'not supported; leave it out or 0');
  if (body.presence_penalty) refuse('presence_penalty', 'not supported; leave it out or 0');
  if (body.logit_bias && Object.keys(body.logit_bias).length > 0) refuse('logit_bias', 'not supported; leave it out');
}

function toMessage(wire: WireMessage): Message {
  const role = wire.role === 'developer' ? 'system' : wire.role;
  const content = toText(wire.content);
  if (wire.role === 'tool') return { role: 'tool', content: content ?? '', toolCallId: wire.tool_call_id };
  const name = wire.name ? { name: wellFormed(wire.name) } : {};
  if (wire.role !== 'assistant') return { role, content: content ?? '', ...name };
  const calls = (wire.tool_calls ?? []).map(toToolCall);
  return {
    role,
    content: calls.length > 0 ? content : (content ?? ''),
    ...name,
    ...(calls.length > 0 ? { toolCalls: calls } : {}),
  };
}

function toText(content: WireMessage['content']): string | null {
  if (content == null) return null;
  return wellFormed(typeof content === 'string' ? content : content.map((part) => part.text).join(''));
}

function toToolCall(call: z.infer<typeof toolCallSchema>): ToolCall {
  const given = call.function.arguments;
  const text = typeof given === 'string' ? given : JSON.stringify(given);
  return { id: call.id, type: 'function', function: { name: call.function.name, arguments: wellFormed(text) } };
}

function toTool(tool: z.infer<typeof toolSchema>): Tool {
  const { name, description, parameters } = tool.function;
  return { type: 'function', function: { name, ...present({ description, parameters }) } };
}

/** JSON can hold half a surrogate pair, UTF-8 cannot: it becomes U+FFFD here, once, so that text and ids agree. */
function wellFormed(text: string): string {
  return /\p{Surrogate}/u.test(text) ? Buffer.from(text, 'utf8').toString('utf8') : text;
}

/** Without the fields that are null or undefined. */
function present<T extends Record<string, unknown>>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}

function contentProblem(issue: { input?: unknown }): string {
  const parts = Array.isArray(issue.input) ? (issue.input as Array<{ type?: unknown } | null>) : [];
  const other = parts.find((part) => part?.type !== 'text');
  if (other && typeof other.type === 'string')
    return `only content parts of type 'text' are understood, came '${other.type}'`;
  return 'expected a string, or a list of {type: "text", text: string}';
}

/** The first problem zod found, as a sentence that names the field the way OpenAI does: messages[0].role. */
function firstProblem(error: z.ZodError, input: unknown): Error {
  const issue = error.issues[0]!;
  const param = fieldName(issue.path);
  const value = issue.path.reduce<unknown>(
    (at, key) => (at as Record<PropertyKey, unknown> | null | undefined)?.[key],
    input,
  );
  const missing = value === undefined && param !== null;
  const message = missing ? `missing required parameter: '${param}'` : `invalid '${param ?? 'body'}': ${issue.message}`;
  return badRequest(
    message,
    param,
    missing ? 'missing_required_parameter' : issue.code === 'invalid_type' ? 'invalid_type' : 'invalid_value',
  );
}

function fieldName(path: readonly PropertyKey[]): string | null {
  if (path.length === 0) return null;
  return path.reduce<string>(
    (name, key) => (typeof key === 'number' ? `${name}[${key}]` : name ? `${name}.${String(key)}` : String(key)),
    '',
  );
}
