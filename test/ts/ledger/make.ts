/** Turns, next states and verdicts for tests; whatever a test does not name is plain and valid. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Batcher } from '../../../ts/ledger/batcher.js';
import type { Ledger } from '../../../ts/ledger/index.js';
import { toLedger } from '../../../ts/ledger/ledger.js';
import type { Reply, Request } from '../../../ts/ledger/protocol.js';
import { Store } from '../../../ts/ledger/store.js';
import { type NextState, OpenClawError, type Turn, type Update, type Verdict } from '../../../ts/record/index.js';

export function makeTurn(id: string, over: Partial<Turn> = {}): Turn {
  return {
    id,
    sessionId: 'session-1',
    userId: 'ann',
    index: 0,
    kind: 'main',
    requestId: `request-of-${id}`,
    version: 'claw@0-00000000',
    promptIds: Int32Array.of(1, 2, 3),
    responseIds: Int32Array.of(7, -8, 9),
    logprobs: Float32Array.of(-0.5, -1.25, -3),
    sampling: { temperature: 0.6, topP: 1, topK: 0, maxTokens: 64, seed: 5, stop: [] },
    messages: [{ role: 'user', content: `question of ${id}` }],
    tools: [],
    text: `reply of ${id}`,
    toolCalls: [],
    finish: 'stop',
    servedAt: 1000,
    ...over,
  };
}

export const makeNext = (turnId: string, text = 'and then?'): NextState => ({
  turnId,
  items: [{ role: 'user', text }],
  arrivedAt: 2000,
});

export const makeVerdict = (reward: number | null = 1, hints: string[] = []): Verdict => ({
  reward,
  status: reward === null ? 'abstained' : 'scored',
  votes: [],
  hints,
  vetoes: [],
});

export const makeUpdate = (n: number, over: Partial<Update> = {}): Update => ({
  id: `update-${n}`,
  version: `claw@${n}-0000000${n}`,
  parent: n > 1 ? `claw@${n - 1}-0000000${n - 1}` : 'claw@0-00000000',
  method: 'hybrid',
  turnIds: [],
  metrics: { loss: 0.25 },
  probes: {},
  state: 'live',
  folder: `versions/${n}`,
  createdAt: 3000,
  ...over,
});

export async function temporaryFolder(): Promise<{ folder: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'openclaw-ledger-'));
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

/**
 * The whole ledger but its thread: the same operations, batches and transactions over the same file. It opens at once,
 * where a thread first loads its modules; thread.test.ts and crash.test.ts use the thread.
 */
export function openInline(folder: string, clock: () => number = Date.now): Ledger {
  const waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: unknown) => void }>();
  const settle = (reply: Reply): void => {
    const { resolve, reject } = waiting.get(reply.id)!;
    if ('failure' in reply)
      reject(new OpenClawError(reply.failure.code, reply.failure.message, reply.failure.argument));
    else resolve(structuredClone(reply.value));
  };
  const batcher = new Batcher(new Store(folder), settle, () => undefined);
  let id = 0;
  const send = (op: Request['op'], args: unknown[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      waiting.set(++id, { resolve, reject });
      batcher.push(structuredClone({ id, op, args, now: clock() }));
    });
  return toLedger({
    call: (op, ...args) => send(op, args) as never,
    close: async () => void (await send('close', [])),
  });
}
