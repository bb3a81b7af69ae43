/** The Ledger interface over whatever carries its operations: the worker's client, or anything that answers like it. */
import { OpenClawError } from '../record/errors.js';
import type { Refusal, Turn, Update } from '../record/index.js';
import type { OperationName, Operations } from './operations/index.js';
import type { Ledger } from './types.js';

type Arguments<F> = F extends (context: never, ...args: infer A) => unknown ? A : never;

export interface Caller {
  call<K extends OperationName>(op: K, ...args: Arguments<Operations[K]>): Promise<ReturnType<Operations[K]>>;
  close(): Promise<void>;
}

/** Structured clone copies the whole buffer behind a view: send views of a larger one as copies of their own part. */
function compact<A extends Int32Array | Float32Array>(values: A): A {
  return (values.byteLength === values.buffer.byteLength ? values : values.slice()) as A;
}

function compactTurn(turn: Turn): Turn {
  return {
    ...turn,
    promptIds: compact(turn.promptIds),
    responseIds: compact(turn.responseIds),
    logprobs: turn.logprobs === null ? null : compact(turn.logprobs),
  };
}

async function commitTurn(client: Caller, turn: Turn, refuse: Refusal | null): Promise<void> {
  const { duplicateOf } = await client.call('commitTurn', compactTurn(turn), refuse);
  if (duplicateOf === null) return;
  throw new OpenClawError(
    'E_LEDGER',
    `duplicate: request ${turn.requestId} of this user was recorded before, as turn ${duplicateOf}`,
    'turn.requestId',
  );
}

export function toLedger(client: Caller): Ledger {
  return {
    commitTurn: (turn, o) => commitTurn(client, turn, o?.refuse ?? null),
    abortTurn: (turnId) => client.call('refuse', turnId, 'aborted'),
    observe: (next) => client.call('observe', next),
    endSession: (sessionId, reason) => client.call('endSession', sessionId, reason),
    claimObserved: (limit) => client.call('claimObserved', limit),
    recordVerdict: (turnId, verdict) => client.call('recordVerdict', turnId, verdict),
    refuse: (turnId, reason) => client.call('refuse', turnId, reason),
    releaseClaims: (turnIds) => client.call('releaseClaims', turnIds),
    claimJudged: (limit) => client.call('claimJudged', limit),
    commitUpdate: (update: Update, o) => client.call('commitUpdate', update, o),
    findTurn: (turnId) => client.call('findTurn', turnId),
    findByRequest: (userId, requestId) => client.call('findByRequest', userId, requestId),
    findNextState: (turnId) => client.call('findNextState', turnId),
    findVerdict: (turnId) => client.call('findVerdict', turnId),
    lastTurnOfSession: (sessionId) => client.call('lastTurnOfSession', sessionId),
    turnsOfSession: (sessionId) => client.call('turnsOfSession', sessionId),
    sessions: (o) => client.call('sessions', o?.limit ?? 100, o?.userId ?? null),
    findSession: (sessionId) => client.call('findSession', sessionId),
    idleSessions: (before, limit) => client.call('idleSessions', before, limit),
    findChains: (userId, by, points, limit) => client.call('findChains', userId, by, points, limit),
    chainOfSession: (sessionId, limit) => client.call('chainOfSession', sessionId, limit),
    updates: (o) => client.call('updates', o?.limit ?? 1000),
    liveUpdate: () => client.call('liveUpdate'),
    findVersion: (version) => client.call('findVersion', version),
    nextUpdateNumber: () => client.call('nextUpdateNumber'),
    rollback: (version) => client.call('rollback', version),
    counts: () => client.call('counts'),
    setMeta: (key, value) => client.call('setMeta', key, value),
    getMeta: (key) => client.call('getMeta', key),
    setOptOut: (userId, optOut) => client.call('setOptOut', userId, optOut),
    optedOut: (userId) => client.call('optedOut', userId),
    deleteUser: (userId) => client.call('deleteUser', userId),
    prune: (before) => client.call('prune', before),
    checkIntegrity: () => client.call('checkIntegrity'),
    close: () => client.close(),
  };
}
