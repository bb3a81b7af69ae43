/**
 * The sessions in use, newest last; a cache over the ledger, so the least recently used may go at any time. Chains are
 * kept per user: no user's request can meet another's turn.
 */
import type { ChainTurn } from './ports.js';

export interface Session {
  id: string;
  userId: string;
  /** oldest first, at most MAX_TURNS */ turns: ChainTurn[];
  /** all the ledger has is here too */ complete: boolean;
  /** ms since the epoch */ lastSeen: number;
}

/** turns kept per session: what may be pinned or branched from without asking the ledger */
export const MAX_TURNS = 64;

export class SessionMemory {
  /** insertion order is order of use */
  readonly #sessions = new Map<string, Session>();
  readonly #points = new Map<string, ChainTurn[]>();

  constructor(private readonly maxSessions: number) {}

  get size(): number {
    return this.#sessions.size;
  }

  get(sessionId: string): Session | null {
    return this.#sessions.get(sessionId) ?? null;
  }

  /** The session, made if need be and marked as just used. */
  touch(sessionId: string, userId: string, now: number): Session {
    const session = this.#sessions.get(sessionId) ?? newSession(sessionId, userId, now);
    session.lastSeen = now;
    this.#sessions.delete(sessionId);
    this.#sessions.set(sessionId, session);
    for (const oldest of this.#sessions.keys()) {
      if (this.#sessions.size <= this.maxSessions) break;
      this.forget(oldest);
    }
    return session;
  }

  add(session: Session, turn: ChainTurn): void {
    if (session.turns.some((known) => known.turnId === turn.turnId)) return;
    session.turns.push(turn);
    const key = pointKey(session.userId, turn);
    this.#points.set(key, [...(this.#points.get(key) ?? []), turn]);
    if (session.turns.length > MAX_TURNS) this.#drop(session, session.turns.shift()!);
  }

  /** Takes in what the ledger has of a session; what is already here stays. */
  fill(session: Session, turns: readonly ChainTurn[]): void {
    for (const turn of turns) this.add(session, turn);
    session.turns.sort((a, b) => a.index - b.index || a.servedAt - b.servedAt);
    session.complete = true;
  }

  /** This user's turns that end at a point. */
  at(userId: string, strict: string): readonly ChainTurn[] {
    return this.#points.get(`${userId}\u0000${strict}`) ?? [];
  }

  forget(sessionId: string): void {
    const session = this.#sessions.get(sessionId);
    if (session === undefined) return;
    this.#sessions.delete(sessionId);
    for (const turn of session.turns) this.#drop(session, turn);
  }

  #drop(session: Session, turn: ChainTurn): void {
    const key = pointKey(session.userId, turn);
    const rest = (this.#points.get(key) ?? []).filter((known) => known.turnId !== turn.turnId);
    if (rest.length > 0) this.#points.set(key, rest);
    else this.#points.delete(key);
  }
}

function newSession(id: string, userId: string, now: number): Session {
  return { id, userId, turns: [], complete: false, lastSeen: now };
}

const pointKey = (userId: string, turn: ChainTurn): string => `${userId}\u0000${turn.chain.strict}`;
