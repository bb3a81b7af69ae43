/** What session inference needs from the ledger; loop.ts hands the object over. */
import type { Finish, TurnChain } from '../record/index.js';

/** A turn as inference sees it: no prompt, no messages. */
export interface ChainTurn {
  turnId: string;
  sessionId: string;
  index: number;
  servedAt: number;
  /** still without a next state */ open: boolean;
  chain: TurnChain;
  responseIds: Int32Array;
  /** stop texts were asked for: the ids may reach past the text the client got */ stopTexts: boolean;
  finish: Finish;
  text: string;
}

export interface SessionLedger {
  findSession(sessionId: string): Promise<{ userId: string } | null>;
  /** newest first */
  findChains(userId: string, by: 'strict' | 'loose', points: string[], limit: number): Promise<ChainTurn[]>;
  /** the newest main-line turns, oldest first */
  chainOfSession(sessionId: string, limit: number): Promise<ChainTurn[]>;
  idleSessions(before: number, limit: number): Promise<string[]>;
  endSession(sessionId: string, reason: string): Promise<number>;
}
