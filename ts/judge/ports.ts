/** What a judge is given, what it gives back, and what the judging loop needs from the ledger; loop.ts hands the objects over. */
import type { EventBody, NextState, Refusal, Turn, Verdict } from '../record/index.js';

export interface JudgeItem {
  turn: Turn;
  next: NextState;
  /** earlier turns of the session, oldest first, each with what came after it */
  history: Array<{ turn: Turn; next: NextState | null }>;
}

export interface Judge {
  /** Never rejects for a failed vote: that is a verdict ('abstained' with the votes' failures). Rejects when aborted. */
  judge(item: JudgeItem, signal: AbortSignal): Promise<Verdict>;
}

export interface JudgeLedger {
  claimObserved(limit: number): Promise<JudgeItem[]>;
  recordVerdict(turnId: string, verdict: Verdict): Promise<void>;
  refuse(turnId: string, reason: Refusal): Promise<void>;
  releaseClaims(turnIds: string[]): Promise<void>;
}

export interface JudgeEvents {
  emit(event: EventBody): void;
}
