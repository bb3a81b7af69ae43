/** Everything the worker thread does for its callers, by name. `READS` take part in no transaction of their own. */
import { claimJudged, claimObserved, recordVerdict } from './claims.js';
import { checkIntegrity, counts } from './counts.js';
import {
  chainOfSession,
  endSession,
  findChains,
  findSession,
  idleSessions,
  lastTurnOfSession,
  sessions,
  turnsOfSession,
} from './sessions.js';
import {
  commitTurn,
  findByRequest,
  findNextState,
  findTurn,
  findVerdict,
  observe,
  refuse,
  releaseClaims,
} from './turns.js';
import {
  commitUpdate,
  findVersion,
  getMeta,
  liveUpdate,
  nextUpdateNumber,
  rollback,
  setMeta,
  updates,
} from './updates.js';
import { deleteUser, optedOut, prune, setOptOut } from './users.js';

export const OPERATIONS = {
  commitTurn,
  observe,
  refuse,
  releaseClaims,
  endSession,
  claimObserved,
  recordVerdict,
  claimJudged,
  commitUpdate,
  findTurn,
  findByRequest,
  findNextState,
  findVerdict,
  lastTurnOfSession,
  turnsOfSession,
  sessions,
  findSession,
  idleSessions,
  findChains,
  chainOfSession,
  updates,
  liveUpdate,
  findVersion,
  nextUpdateNumber,
  rollback,
  counts,
  setMeta,
  getMeta,
  setOptOut,
  optedOut,
  deleteUser,
  prune,
  checkIntegrity,
};

export type Operations = typeof OPERATIONS;
export type OperationName = keyof Operations;

export const READS: ReadonlySet<OperationName> = new Set<OperationName>([
  'releaseClaims',
  'claimObserved',
  'claimJudged',
  'findTurn',
  'findByRequest',
  'findNextState',
  'findVerdict',
  'lastTurnOfSession',
  'turnsOfSession',
  'sessions',
  'findSession',
  'idleSessions',
  'findChains',
  'chainOfSession',
  'updates',
  'liveUpdate',
  'findVersion',
  'counts',
  'getMeta',
  'optedOut',
  'checkIntegrity',
]);

/** Operations after which the write-ahead log is emptied, so that deleted words are gone from it too. */
export const FORGETS: ReadonlySet<OperationName> = new Set<OperationName>(['deleteUser', 'prune']);
