/**
 * The frames of /v1/ingest, protocol 1: JSON text, one object per frame, checked before anything is done with it. For agents
 * that call their own model and only report what was said.
 */
import { z } from 'zod';
import { messageSchema, toolSchema } from '../../record/index.js';

export const PROTOCOL = 1;

const name = z.string().min(1).max(256);
const seq = z.number().int().min(1);
const ids = z.array(z.number().int().min(0));

export const helloFrame = z.object({
  type: z.literal('hello'),
  protocol: z.literal(PROTOCOL),
  token: z.string().max(1024).optional(),
  /** names the connection's identity: `seq` counts within it, across reconnects */ client: name,
  /** whether verdict and version frames are wanted */ subscribe: z.boolean().optional(),
});

const open = z.object({ type: z.literal('open'), seq, session: name, user: name.optional(), agent: name.optional() });
const turnStart = z.object({
  type: z.literal('turn.start'),
  seq,
  session: name,
  turn: name,
  messages: z.array(messageSchema).optional(),
  promptIds: ids.optional(),
  tools: z.array(toolSchema).optional(),
});
const turnDelta = z.object({
  type: z.literal('turn.delta'),
  seq,
  turn: name,
  text: z.string().optional(),
  ids: ids.optional(),
  /** natural logarithms for exactly `ids` */ logprobs: z.array(z.number().max(0)).optional(),
});
const turnEnd = z.object({
  type: z.literal('turn.end'),
  seq,
  turn: name,
  finish: z.enum(['stop', 'length', 'tool', 'abort']),
  version: name.nullish(),
  usage: z
    .object({ promptTokens: z.number().int().min(0), replyTokens: z.number().int().min(0) })
    .partial()
    .optional(),
});
const state = z.object({
  type: z.literal('state'),
  seq,
  turn: name,
  items: z
    .array(
      z.object({
        role: z.enum(['user', 'tool', 'env']),
        text: z.string(),
        isError: z.boolean().optional(),
        exitCode: z.number().int().optional(),
        toolCallId: z.string().optional(),
      }),
    )
    .min(1),
});
const feedback = z.object({
  type: z.literal('feedback'),
  seq,
  turn: name,
  score: z.union([z.literal(-1), z.literal(0), z.literal(1)]).optional(),
  text: z.string().min(1).optional(),
});
const close = z.object({ type: z.literal('close'), seq, session: name, reason: z.string().max(256) });

export const clientFrame = z.discriminatedUnion('type', [open, turnStart, turnDelta, turnEnd, state, feedback, close]);

export type HelloFrame = z.infer<typeof helloFrame>;
export type ClientFrame = z.infer<typeof clientFrame>;
export type ClientFrameBody = ClientFrame extends infer F ? (F extends ClientFrame ? Omit<F, 'seq'> : never) : never;

export const serverFrame = z.discriminatedUnion('type', [
  /** frames before `resumeFrom` are held already; `credit` frames may be sent before more is granted */
  z.object({ type: z.literal('welcome'), resumeFrom: z.number().int().min(1), credit: z.number().int().min(1) }),
  /** everything up to `seq` is durable */ z.object({ type: z.literal('ack'), seq }),
  z.object({ type: z.literal('credit'), n: z.number().int().min(1) }),
  z.object({ type: z.literal('error'), code: z.string(), message: z.string(), seq: seq.optional() }),
  z.object({ type: z.literal('verdict'), turn: name, reward: z.number().nullable(), hints: z.number().int() }),
  z.object({ type: z.literal('version'), version: name }),
]);
export type ServerFrame = z.infer<typeof serverFrame>;

/** Why a connection was ended, as WebSocket close codes. */
export const CLOSE = {
  normal: 1000,
  goingAway: 1001,
  badFrame: 1008,
  tooBig: 1009,
  failed: 1011,
  busy: 1013,
} as const;
