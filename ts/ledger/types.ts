/** What the ledger offers; index.ts opens one. All times are ms since the epoch; every promise rejects with an OpenClawError. */
import type { NextState, Refusal, Turn, TurnChain, TurnState, Update, Verdict } from '../record/index.js';

export type StoredTurn = Turn & { state: TurnState; refusal: Refusal | null; trainedVersion: string | null };

export interface ObservedTurn {
  turn: Turn;
  next: NextState;
  /** at most HISTORY_TURNS earlier main-line turns of the session, oldest first */
  history: Array<{ turn: Turn; next: NextState | null }>;
}

export interface JudgedTurn {
  turn: Turn;
  next: NextState;
  verdict: Verdict;
}

/** A turn as session inference needs it: no prompt, no messages. */
export interface ChainTurn {
  turnId: string;
  sessionId: string;
  index: number;
  servedAt: number;
  /** still without a next state */ open: boolean;
  chain: TurnChain;
  responseIds: Int32Array;
  /** ended by a stop text: the ids reach past the text the client got */ stopTexts: boolean;
  finish: Turn['finish'];
  text: string;
}

export interface SessionRow {
  id: string;
  userId: string;
  startedAt: number;
  lastAt: number;
  endedAt: number | null;
  endReason: string | null;
}

export interface Counts {
  states: Record<TurnState, number>;
  /** refusals that ever happened, duplicates included; deletion of turns does not lower them */
  refusals: Partial<Record<Refusal, number>>;
  sessions: number;
  updates: number;
}

export interface Ledger {
  /**
   * Durable when it resolves. State `served`; `refused` with `o.refuse`, for a side turn ('side-turn') and for a user who
   * opted out ('opted-out'). The same request of the same user twice: E_LEDGER naming the first turn.
   */
  commitTurn(turn: Turn, o?: { refuse?: Refusal }): Promise<void>;
  /** The client was gone before the last byte: refused('aborted'). */
  abortTurn(turnId: string): Promise<void>;
  /** served → observed. 'already': the turn is past that, 'missing': there is no such turn. */
  observe(next: NextState): Promise<'observed' | 'already' | 'missing'>;
  /** Turns still without a next state → refused('no-next-state'); says how many. A later turn opens the session again. */
  endSession(sessionId: string, reason: string): Promise<number>;
  /** Oldest first. Claims live in memory: recordVerdict, refuse or releaseClaims frees them, and so does a restart. */
  claimObserved(limit: number): Promise<ObservedTurn[]>;
  /** observed → judged */
  recordVerdict(turnId: string, verdict: Verdict): Promise<void>;
  /** served, observed or judged → refused. A turn refused before keeps its first reason; a trained one is E_LEDGER. */
  refuse(turnId: string, reason: Refusal): Promise<void>;
  releaseClaims(turnIds: string[]): Promise<void>;
  /** Oldest first, claimed like claimObserved. */
  claimJudged(limit: number): Promise<JudgedTurn[]>;
  /**
   * One transaction: the update's row (live, its parent retired; or `discarded`, with nothing trained), its turns
   * trained(version) and refused(reason). E_LEDGER and nothing changed where a trained turn is not judged and claimed
   * (its user may have opted out meanwhile: drop the candidate, release the other claims), or the parent is not live.
   */
  commitUpdate(update: Update, o: { trained: string[]; refused: Array<[string, Refusal]> }): Promise<void>;
  findTurn(turnId: string): Promise<StoredTurn | null>;
  findByRequest(userId: string, requestId: string): Promise<StoredTurn | null>;
  findNextState(turnId: string): Promise<NextState | null>;
  findVerdict(turnId: string): Promise<Verdict | null>;
  lastTurnOfSession(sessionId: string): Promise<StoredTurn | null>;
  turnsOfSession(sessionId: string): Promise<StoredTurn[]>;
  /** Newest activity first. */
  sessions(o?: { limit?: number; userId?: string }): Promise<SessionRow[]>;
  findSession(sessionId: string): Promise<SessionRow | null>;
  /** Open sessions without a turn since `before`, longest idle first. */
  idleSessions(before: number, limit: number): Promise<string[]>;
  /** Main-line turns of this user whose chain ends at one of these points, newest first, at most `limit`. */
  findChains(userId: string, by: 'strict' | 'loose', points: string[], limit: number): Promise<ChainTurn[]>;
  /** The newest main-line turns of a session, oldest first. */
  chainOfSession(sessionId: string, limit: number): Promise<ChainTurn[]>;
  /** Newest first. */
  updates(o?: { limit?: number }): Promise<Update[]>;
  liveUpdate(): Promise<Update | null>;
  findVersion(version: string): Promise<Update | null>;
  /** A number never handed out before: reserved for good, whatever becomes of the update. */
  nextUpdateNumber(): Promise<number>;
  /** The live version becomes rolled-back, `version` live again; null: back to the base, none live. */
  rollback(version: string | null): Promise<void>;
  counts(): Promise<Counts>;
  setMeta(key: string, value: string): Promise<void>;
  getMeta(key: string): Promise<string | null>;
  /** true: turns of this user that wait are refused('opted-out') and later ones too. */
  setOptOut(userId: string, optOut: boolean): Promise<void>;
  optedOut(userId: string): Promise<boolean>;
  /** Turns, words, next states, verdicts and sessions of the user; says how many turns. The opt-out stays. */
  deleteUser(userId: string): Promise<number>;
  /** Deletes trained and refused turns served before `before`; says how many. */
  prune(before: number): Promise<number>;
  /** Empty: the file is sound. */
  checkIntegrity(): Promise<string[]>;
  close(): Promise<void>;
}
