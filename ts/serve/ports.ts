/** What serve needs from the stations around it; loop.ts hands the objects over. */
import type {
  EventSink,
  Message,
  NextState,
  Refusal,
  RuntimeEvent,
  Sampling,
  Tool,
  ToolCall,
  Turn,
  TurnState,
  Update,
} from '../record/index.js';

export interface Generated {
  ids: Int32Array;
  logprobs: Float32Array;
  finish: 'stop' | 'length' | 'abort' | 'deadline';
  version: string;
  cachedTokens: number;
}

/** Tokens as they are sampled; `result` settles after the last one. */
export interface Generation extends AsyncIterable<{ ids: Int32Array; logprobs: Float32Array }> {
  readonly result: Promise<Generated>;
  abort(): void;
}

/** Ids in, text out: never half a character, never the beginning of a stop text. */
export interface TextStream {
  /** the text that is certain now */ push(ids: Int32Array): string;
  /** what was held back */ end(): string;
  /** a stop text was met: nothing more comes out */ readonly stopped: boolean;
}

export interface ServePolicy {
  readonly name: string;
  /** tokens of prompt and reply together */ readonly context: number;
  live(): string;
  renderChat(
    messages: Message[],
    o?: { tools?: Tool[]; pinned?: ReadonlyMap<number, Int32Array>; addGenerationPrompt?: boolean },
  ): Int32Array;
  generate(ids: Int32Array, sampling: Sampling, o?: { signal?: AbortSignal; deadlineMs?: number }): Generation;
  decode(ids: Int32Array, o?: { skipSpecial?: boolean }): string;
}

/** Parts the reply's text into words for the person and calls of tools, as the policy's own format has them. */
export interface ToolSplitter {
  /** text that is certainly not part of a call, and the calls completed by this piece */
  push(text: string): { text: string; calls: ToolCall[] };
  /** what was held back; an unfinished call comes back as text */
  end(): { text: string; calls: ToolCall[] };
}

export interface TextTools {
  textStream(stop: readonly string[]): TextStream;
  /** without tools nothing is a call */ toolSplitter(tools: Tool[]): ToolSplitter;
}

export type ServeTurn = Turn & { state: TurnState; refusal: Refusal | null; trainedVersion: string | null };

export interface ServeLedger {
  commitTurn(turn: Turn, o?: { refuse?: Refusal }): Promise<void>;
  abortTurn(turnId: string): Promise<void>;
  observe(next: NextState): Promise<'observed' | 'already' | 'missing'>;
  endSession(sessionId: string, reason: string): Promise<number>;
  findTurn(turnId: string): Promise<ServeTurn | null>;
  findByRequest(userId: string, requestId: string): Promise<ServeTurn | null>;
  lastTurnOfSession(sessionId: string): Promise<ServeTurn | null>;
  turnsOfSession(sessionId: string): Promise<ServeTurn[]>;
  updates(o?: { limit?: number }): Promise<Update[]>;
  optedOut(userId: string): Promise<boolean>;
  setOptOut(userId: string, optOut: boolean): Promise<void>;
  deleteUser(userId: string): Promise<number>;
  setMeta(key: string, value: string): Promise<void>;
  getMeta(key: string): Promise<string | null>;
}

export interface ResolvedTurn {
  sessionId: string;
  kind: 'main' | 'side';
  index: number;
  how: 'header' | 'body' | 'chain' | 'new';
  /** the next state of the turn before, to be given to the ledger */ next: NextState | null;
  /** index of an assistant message → the exact ids sampled for it */ pinned: Map<number, Int32Array>;
  /** the host says that this turn ends the session */ done: boolean;
}

export interface ServeSessions {
  resolve(request: {
    userId: string;
    headers: Record<string, string | undefined>;
    body: { session_id?: string; turn_type?: string; session_done?: boolean | string; user?: string };
    messages: Message[];
  }): Promise<ResolvedTurn>;
  served(turn: Turn): void;
}

export interface ServeEvents extends EventSink {
  /** Events after `after` that are still held, then live ones; returns the way out. */
  subscribe(listener: (event: RuntimeEvent) => void, o?: { after?: number }): () => void;
}

export interface ServeMetrics {
  readonly contentType: string;
  render(): Promise<string>;
}

/** Numbers for the page that no event carries; assembled by loop.ts. */
export type StatusReport = () => Promise<Record<string, unknown>>;

export interface ServeLimits {
  /** bytes of a request body */ maxBodyBytes: number;
  /** ms from arrival to the last token */ requestMs: number;
  /** requests that generate at once */ maxRunning: number;
  /** requests that wait for a place; one more is 429 */ maxWaiting: number;
  /** tokens of a reply, whatever was asked for */ maxReplyTokens: number;
  /** messages of a request */ maxMessages: number;
  /** how long a retry finds the recorded reply, ms */ retryWindowMs: number;
  /** ms that close() gives requests in flight */ drainMs: number;
  /** ms after which a stream that still has no token sends its headers and a comment */ keepAliveMs: number;
  /** readers of /v1/events at once */ maxEventReaders: number;
  ingest: {
    maxConnections: number;
    /** bytes of a frame */ maxFrameBytes: number;
    /** frames a client may send ahead of the server */ credit: number;
    /** bytes of turns begun but not ended, per connection */ maxOpenBytes: number;
    heartbeatMs: number;
  };
}

export interface ApiKey {
  /** names the user behind the key; never secret */ name: string;
  /** hex */ sha256: string;
}
