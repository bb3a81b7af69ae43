/**
 * IngestClient: reports turns over /v1/ingest from any program. Frames are kept until the server says they are durable; a lost
 * connection is made again, with growing pauses, and what was not acknowledged is sent again.
 */
import { WebSocket } from 'ws';
import { OpenClawError } from '../../record/index.js';
import { CLOSE, type ClientFrame, type ClientFrameBody, PROTOCOL, type ServerFrame, serverFrame } from './frames.js';

export interface IngestClientOptions {
  /** ws://host:port/v1/ingest */ url: string;
  /** names this client across its connections; of two with one name the later wins */ client: string;
  /** API key */ token?: string;
  /** whether verdicts and versions are wanted */ subscribe?: boolean;
  /** frames kept in memory at most; one more throws E_BUSY */ maxPending?: number;
  /** pauses before connecting again, ms */ reconnect?: { minMs?: number; maxMs?: number };
  onVerdict?(verdict: { turn: string; reward: number | null; hints: number }): void;
  onVersion?(version: string): void;
  /** what the server did not take (a frame it refused, a key it does not know) and what broke the connection */
  onError?(error: OpenClawError): void;
}

interface Pending {
  frame: ClientFrame;
  resolve(): void;
}

type Body<T extends ClientFrameBody['type']> = Omit<Extract<ClientFrameBody, { type: T }>, 'type'>;

export class IngestClient {
  private socket: WebSocket | null = null;
  /** frames not yet acknowledged, by number */ private pending: Pending[] = [];
  private nextSeq = 1;
  /** how many of `pending` were sent on this connection */ private sent = 0;
  private credit = 0;
  private welcomed = false;
  private everWelcomed = false;
  private failures = 0;
  private timer: NodeJS.Timeout | null = null;
  private closing = false;
  private readonly idle = new Set<() => void>();

  constructor(private readonly o: IngestClientOptions) {
    this.connect();
  }

  /** Each resolves when the frame is durable on the server. */
  open(frame: Body<'open'>): Promise<void> {
    return this.send({ type: 'open', ...frame });
  }
  turnStart(frame: Body<'turn.start'>): Promise<void> {
    return this.send({ type: 'turn.start', ...frame });
  }
  turnDelta(frame: Body<'turn.delta'>): Promise<void> {
    return this.send({ type: 'turn.delta', ...frame });
  }
  turnEnd(frame: Body<'turn.end'>): Promise<void> {
    return this.send({ type: 'turn.end', ...frame });
  }
  state(frame: Body<'state'>): Promise<void> {
    return this.send({ type: 'state', ...frame });
  }
  feedback(frame: Body<'feedback'>): Promise<void> {
    return this.send({ type: 'feedback', ...frame });
  }
  closeSession(frame: Body<'close'>): Promise<void> {
    return this.send({ type: 'close', ...frame });
  }

  /** Resolves when everything sent so far is durable. @throws E_DEADLINE */
  flush(timeoutMs = 30_000): Promise<void> {
    if (this.pending.length === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const done = () => {
        clearTimeout(timer);
        this.idle.delete(done);
        resolve();
      };
      const timer = setTimeout(() => {
        this.idle.delete(done);
        reject(
          new OpenClawError('E_DEADLINE', `${this.pending.length} frames are not acknowledged after ${timeoutMs} ms`),
        );
      }, timeoutMs);
      this.idle.add(done);
    });
  }

  /** Waits for what is under way, then closes. @throws E_DEADLINE; the connection is closed all the same */
  async close(timeoutMs = 30_000): Promise<void> {
    try {
      await this.flush(timeoutMs);
    } finally {
      this.closing = true;
      if (this.timer) clearTimeout(this.timer);
      this.socket?.close(CLOSE.normal);
    }
  }

  private send(body: ClientFrameBody): Promise<void> {
    if (this.closing) throw new OpenClawError('E_DISPOSED', 'the client is closed');
    const max = this.o.maxPending ?? 65_536;
    if (this.pending.length >= max) throw new OpenClawError('E_BUSY', `${max} frames wait to be acknowledged`);
    return new Promise((resolve) => {
      this.pending.push({ frame: { ...body, seq: this.nextSeq++ } as ClientFrame, resolve });
      this.pump();
    });
  }

  // --- the connection ---

  private connect(): void {
    const socket = new WebSocket(this.o.url, { perMessageDeflate: false });
    this.socket = socket;
    this.welcomed = false;
    socket.on('open', () => socket.send(JSON.stringify(this.hello())));
    socket.on('message', (data) => this.receive(data.toString()));
    socket.on('error', (error) => this.report('E_REMOTE', error.message));
    socket.on('close', () => this.lost(socket));
  }

  private hello(): Record<string, unknown> {
    const { client, token, subscribe } = this.o;
    return {
      type: 'hello',
      protocol: PROTOCOL,
      client,
      ...(token ? { token } : {}),
      ...(subscribe ? { subscribe } : {}),
    };
  }

  private lost(socket: WebSocket): void {
    if (this.socket !== socket) return;
    this.socket = null;
    this.welcomed = false;
    if (this.closing) return;
    const { minMs = 100, maxMs = 10_000 } = this.o.reconnect ?? {};
    const pause = Math.min(maxMs, minMs * 2 ** this.failures++);
    // spread, so that many clients of a server that comes back do not come all at once
    this.timer = setTimeout(() => this.connect(), pause * (0.5 + Math.random() / 2));
  }

  private receive(text: string): void {
    const parsed = serverFrame.safeParse(safeJson(text));
    if (parsed.success) this.handle(parsed.data);
    else this.report('E_REMOTE', 'the server sent a frame that cannot be read');
  }

  private handle(frame: ServerFrame): void {
    switch (frame.type) {
      case 'welcome':
        this.resume(frame.resumeFrom, frame.credit);
        break;
      case 'ack':
        this.acknowledged(frame.seq);
        break;
      case 'credit':
        this.credit += frame.n;
        this.pump();
        break;
      case 'error':
        this.report('E_REMOTE', `${frame.code}: ${frame.message}`);
        break;
      case 'verdict':
        this.o.onVerdict?.({ turn: frame.turn, reward: frame.reward, hints: frame.hints });
        break;
      case 'version':
        this.o.onVersion?.(frame.version);
        break;
    }
  }

  private resume(resumeFrom: number, credit: number): void {
    this.failures = 0;
    this.welcomed = true;
    this.credit = credit;
    // A new program under an old name goes on where its predecessor's numbers ended.
    if (!this.everWelcomed) this.renumber(resumeFrom);
    this.everWelcomed = true;
    this.sent = 0;
    this.acknowledged(resumeFrom - 1);
    this.pump();
  }

  private renumber(from: number): void {
    for (const [i, { frame }] of this.pending.entries()) frame.seq = from + i;
    this.nextSeq = from + this.pending.length;
  }

  private acknowledged(seq: number): void {
    const first = this.pending.findIndex(({ frame }) => frame.seq > seq);
    const done = this.pending.splice(0, first < 0 ? this.pending.length : first);
    this.sent = Math.max(0, this.sent - done.length);
    for (const { resolve } of done) resolve();
    if (this.pending.length === 0) for (const wake of [...this.idle]) wake();
  }

  private pump(): void {
    while (this.welcomed && this.credit > 0 && this.sent < this.pending.length) {
      this.credit--;
      this.socket?.send(JSON.stringify(this.pending[this.sent++]!.frame));
    }
  }

  private report(code: 'E_REMOTE', message: string): void {
    this.o.onError?.(new OpenClawError(code, message));
  }
}

function safeJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
