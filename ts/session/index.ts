/**
 * Whose turn is this? A request belongs to the session it names (header, then body, then the host's own line in the first
 * message); else to the talk its messages continue; else it opens a new one. Users never meet: everything is looked up by
 * user. Memory is a bounded cache over the ledger, which knows every chain after a restart too.
 */
import { randomUUID } from 'node:crypto';
import {
  type ChainPoint,
  chainPoints,
  type Message,
  type NextState,
  namedSession,
  type Turn,
  turnChain,
} from '../record/index.js';
import { type BodyTwins, digest, type Headers, type Identity, identityOf } from './identity.js';
import { bestLoose, bestStrict, type Match, type Reply, repliesOf } from './match.js';
import { MAX_TURNS, type Session, SessionMemory } from './memory.js';
import { nextStateAfter } from './next-state.js';
import { pinnedReplies } from './pinned.js';
import type { SessionLedger } from './ports.js';
import { looksSide } from './side.js';

export type { BodyTwins, Headers } from './identity.js';
export type { ChainTurn, SessionLedger } from './ports.js';

export interface SessionOptions {
  ledger: SessionLedger;
  /** a session without a request for this long ends, default 30 min */ idleMs?: number;
  /** sessions held in memory, default 1000; more are found in the ledger */ maxSessions?: number;
  /** end-of-turn ids of the policy; without them the last id of a finished reply is taken for one */ stopIds?: Iterable<number>;
  /** ms since the epoch, default Date.now */ clock?: () => number;
  onEnded?: (sessionId: string, reason: 'idle', unobserved: number) => void;
}

export interface SessionRequest {
  /** who asks, as far as the key says */ userId: string;
  /** names in lower case */ headers: Headers;
  body: BodyTwins;
  messages: Message[];
}

export interface Resolved {
  sessionId: string;
  kind: 'main' | 'side';
  /** main-line turns of the session before this one */ index: number;
  how: 'header' | 'body' | 'chain' | 'new';
  /** the next state of the turn before; null: none, or a side request */ next: NextState | null;
  /** index of an assistant message → exact ids of that reply, without end token */ pinned: Map<number, Int32Array>;
  /** the request says that the session is over after it */ done: boolean;
}

export interface Sessions {
  resolve(request: SessionRequest): Promise<Resolved>;
  /** After the commit: remembers the chain. */
  served(turn: Turn): void;
  /** Ends idle sessions. */
  sweep(): Promise<void>;
}

const MINUTE = 60_000;
/** idle sessions ended per question to the ledger */
const SWEEP_BATCH = 100;
/** turns of one user that may share a point */
const CANDIDATES = 16;

export function createSessions(options: SessionOptions): Sessions {
  return new Inference(options);
}

/** A request with what is worked out once from its messages. */
interface Reading {
  request: SessionRequest;
  identity: Identity;
  points: ChainPoint[];
  /** newest first */ replies: Reply[];
  now: number;
}

interface Place {
  session: Session;
  how: Resolved['how'];
  match: Match | null;
}

class Inference implements Sessions {
  readonly #ledger: SessionLedger;
  readonly #memory: SessionMemory;
  readonly #idleMs: number;
  readonly #stopIds: ReadonlySet<number> | null;
  readonly #clock: () => number;
  readonly #onEnded: NonNullable<SessionOptions['onEnded']>;
  #sweeping: Promise<void> | null = null;

  constructor(o: SessionOptions) {
    this.#ledger = o.ledger;
    this.#memory = new SessionMemory(o.maxSessions ?? 1000);
    this.#idleMs = o.idleMs ?? 30 * MINUTE;
    this.#stopIds = o.stopIds === undefined ? null : new Set(o.stopIds);
    this.#clock = o.clock ?? Date.now;
    this.#onEnded = o.onEnded ?? (() => undefined);
  }

  async resolve(request: SessionRequest): Promise<Resolved> {
    const points = chainPoints(request.messages);
    const replies = repliesOf(request.messages, points);
    const identity = identityOf(request.headers, request.body);
    const reading: Reading = { request, identity, points, replies, now: this.#clock() };
    const place = await this.#place(reading);
    const kind = identity.kind ?? (looksSide(request.messages, place.match !== null) ? 'side' : 'main');
    return {
      sessionId: place.session.id,
      kind,
      index: (place.session.turns.at(-1)?.index ?? -1) + 1,
      how: place.how,
      next: kind === 'side' ? null : this.#next(reading, place),
      pinned: pinnedReplies(request.messages, replies, place.session.turns, this.#stopIds),
      done: identity.done,
    };
  }

  served(turn: Turn): void {
    if (turn.kind === 'side') return;
    const session = this.#memory.touch(turn.sessionId, turn.userId, this.#clock());
    const continued = new Set(chainPoints(turn.messages).map((point) => point.strict));
    for (const earlier of session.turns) earlier.open &&= !continued.has(earlier.chain.strict);
    this.#memory.add(session, {
      turnId: turn.id,
      sessionId: turn.sessionId,
      index: turn.index,
      servedAt: turn.servedAt,
      open: true,
      chain: turnChain(turn),
      responseIds: turn.responseIds,
      stopTexts: turn.sampling.stop.length > 0,
      finish: turn.finish,
      text: turn.text,
    });
  }

  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweepIdle().finally(() => {
      this.#sweeping = null;
    });
    return this.#sweeping;
  }

  async #sweepIdle(): Promise<void> {
    const before = this.#clock() - this.#idleMs;
    const idle = await this.#ledger.idleSessions(before, SWEEP_BATCH);
    // A request in flight has touched its session here, though the ledger has no turn of it yet.
    const over = idle.filter((id) => (this.#memory.get(id)?.lastSeen ?? 0) < before);
    for (const id of over) {
      const unobserved = await this.#ledger.endSession(id, 'idle');
      this.#memory.forget(id);
      this.#onEnded(id, 'idle', unobserved);
    }
    if (over.length === SWEEP_BATCH) await this.#sweepIdle();
  }

  async #place(reading: Reading): Promise<Place> {
    const { identity, request } = reading;
    if (identity.name !== null) {
      const id = await this.#ownName(identity.name, request.userId);
      return this.#named(reading, id, identity.how);
    }
    const hostName = namedSession(request.messages);
    if (hostName !== null) return this.#named(reading, `session_${digest(request.userId, hostName)}`, null);
    return this.#inferred(reading);
  }

  /** `how` null: by the host's line, which counts as recognised by its messages. */
  async #named(reading: Reading, id: string, how: Identity['how'] | null): Promise<Place> {
    const session = await this.#load(id, reading.request.userId, reading.now);
    const { messages } = reading.request;
    const match =
      bestStrict(messages, reading.replies, session.turns) ?? bestLoose(messages, reading.replies, session.turns);
    return { session, how: how ?? (session.turns.length > 0 ? 'chain' : 'new'), match };
  }

  async #inferred(reading: Reading): Promise<Place> {
    const { request, now } = reading;
    const match = reading.replies.length === 0 ? null : await this.#findMatch(reading);
    const id = match?.turn.sessionId ?? `session_${randomUUID()}`;
    if (match !== null) return { session: await this.#load(id, request.userId, now), how: 'chain', match };
    const session = this.#memory.touch(id, request.userId, now);
    session.complete = true;
    return { session, how: 'new', match };
  }

  async #findMatch({ request, replies }: Reading): Promise<Match | null> {
    const { userId, messages } = request;
    const latest = replies.slice(0, 1);
    const inMemory = bestStrict(messages, latest, this.#memory.at(userId, latest[0]!.point.strict));
    if (inMemory !== null) return inMemory;
    const strict = replies.map((reply) => reply.point.strict);
    const exact = bestStrict(messages, replies, await this.#ledger.findChains(userId, 'strict', strict, CANDIDATES));
    if (exact !== null && exact.position === latest[0]!.position) return exact;
    const loose = replies.map((reply) => reply.point.loose);
    const similar = bestLoose(messages, replies, await this.#ledger.findChains(userId, 'loose', loose, CANDIDATES));
    return later(exact, similar);
  }

  async #load(id: string, userId: string, now: number): Promise<Session> {
    const session = this.#memory.touch(id, userId, now);
    if (!session.complete) this.#memory.fill(session, await this.#ledger.chainOfSession(id, MAX_TURNS));
    return session;
  }

  /** A name belongs to the user who used it first; another user's session of that name gets a name of its own. */
  async #ownName(name: string, userId: string): Promise<string> {
    const stored = this.#memory.get(name) ?? (await this.#ledger.findSession(name));
    // Memory is asked after the wait: another request may have taken the name meanwhile. Touching it takes it.
    const owner = this.#memory.get(name)?.userId ?? stored?.userId ?? userId;
    if (owner !== userId) return `${name}~${digest(userId, name)}`;
    this.#memory.touch(name, userId, this.#clock());
    return name;
  }

  #next(reading: Reading, { session, match, how }: Place): NextState | null {
    const { messages } = reading.request;
    if (match !== null) return nextStateAfter(messages, match.position, match.turn.turnId, reading.now);
    const last = session.turns.at(-1);
    if (last === undefined || how === 'new') return null;
    // The session is named, but its last reply is not found: cut history, or a client that sends only what is new.
    // The same prompt once more is a retry and says nothing about the reply it had.
    if (reading.points.at(-1)?.strict === last.chain.prompt) return null;
    return nextStateAfter(messages, reading.replies[0]?.position ?? -1, last.turnId, reading.now);
  }
}

function later(a: Match | null, b: Match | null): Match | null {
  if (a === null || b === null) return a ?? b;
  return b.position > a.position ? b : a;
}
