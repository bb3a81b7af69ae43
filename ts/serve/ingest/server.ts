/** WebSocket /v1/ingest: who may connect, and one connection per identity. What a connection does is in connection.ts. */
import type { Server as HttpServer, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { type Caller, identify } from '../http/keys.js';
import type { ApiKey, ServeEvents, ServeLedger, ServeLimits } from '../ports.js';
import { IngestConnection } from './connection.js';
import { CLOSE, type HelloFrame } from './frames.js';
import { IngestIdentity } from './identity.js';

export const INGEST_PATH = '/v1/ingest';
/** identities remembered for resuming; the one longest unused is forgotten first, and then resends a little more */
const MAX_IDENTITIES = 4096;

export interface IngestDeps {
  ledger: ServeLedger;
  events: ServeEvents;
  limits: ServeLimits;
  apiKeys: readonly ApiKey[];
  logError(error: unknown, about: Record<string, unknown>): void;
}

export class IngestServer {
  private readonly sockets: WebSocketServer;
  private readonly connections = new Set<IngestConnection>();
  private readonly identities = new Map<string, IngestIdentity>();
  private closed = false;

  constructor(private readonly deps: IngestDeps) {
    const { maxFrameBytes } = deps.limits.ingest;
    this.sockets = new WebSocketServer({ noServer: true, maxPayload: maxFrameBytes, perMessageDeflate: false });
  }

  /** @param accept further conditions on the request, such as its Host */
  attach(server: HttpServer, accept: (incoming: IncomingMessage) => boolean = () => true): void {
    server.on('upgrade', (incoming, socket, head) => {
      if (new URL(incoming.url ?? '/', 'http://host').pathname !== INGEST_PATH) {
        // another listener may want it; without one nobody would ever answer
        if (server.listenerCount('upgrade') === 1) refuse(socket, '404 Not Found');
        return;
      }
      if (!accept(incoming) || !sameOrigin(incoming)) return refuse(socket, '403 Forbidden');
      if (this.closed || this.connections.size >= this.deps.limits.ingest.maxConnections)
        return refuse(socket, '503 Service Unavailable');
      this.sockets.handleUpgrade(incoming, socket, head, (ws) => this.connect(ws, incoming));
    });
  }

  async close(): Promise<void> {
    this.closed = true;
    await Promise.all(
      [...this.connections].map((connection) => connection.end(CLOSE.goingAway, 'the server is shutting down')),
    );
    this.sockets.close();
  }

  private connect(ws: WebSocket, incoming: IncomingMessage): void {
    const connection: IngestConnection = new IngestConnection(ws, {
      ...this.deps,
      identify: (hello) => this.identify(hello, incoming, connection),
      ended: () => this.connections.delete(connection),
    });
    this.connections.add(connection);
  }

  /** The key comes in the upgrade request or in the hello. @throws HttpError 401 */
  private identify(hello: HelloFrame, incoming: IncomingMessage, connection: IngestConnection): IngestIdentity {
    const authorization =
      hello.token !== undefined ? `Bearer ${hello.token}` : (incoming.headers.authorization ?? null);
    const caller = identify(authorization, this.deps.apiKeys);
    const identity = this.identityOf(caller, hello.client);
    void identity.connection?.end(CLOSE.badFrame, 'the same client connected again');
    identity.connection = connection;
    return identity;
  }

  private identityOf(caller: Caller, client: string): IngestIdentity {
    const key = `${caller.key ?? ''}\u0000${client}`;
    const identity = this.identities.get(key) ?? new IngestIdentity(caller, client);
    this.identities.delete(key);
    this.identities.set(key, identity);
    for (const [oldest, { connection }] of this.identities) {
      if (this.identities.size <= MAX_IDENTITIES) break;
      if (!connection) this.identities.delete(oldest);
    }
    return identity;
  }
}

/** A browser names the page that connects; only pages of this very server may. Programs send no Origin. */
function sameOrigin(incoming: IncomingMessage): boolean {
  const { origin, host } = incoming.headers;
  if (origin === undefined) return true;
  try {
    return new URL(origin).host === host;
  } catch {
    return false;
  }
}

function refuse(socket: Duplex, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
}
