/**
 * The doors: HTTP in OpenAI's shape, the WebSocket for agents that only report, the page. Built on fetch, so that it can live
 * inside any server; on Node it comes with a request handler and an upgrade handler.
 */
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { Admin } from './admin.js';
import { createApp } from './app.js';
import { ChatDoor } from './chat/door.js';
import { EventFeed } from './event-feed.js';
import { IngestServer } from './ingest/server.js';
import { PageFiles } from './page-files.js';
import type {
  ApiKey,
  ServeEvents,
  ServeLedger,
  ServeLimits,
  ServeMetrics,
  ServePolicy,
  ServeSessions,
  StatusReport,
  TextTools,
} from './ports.js';

export { sha256 } from './http/keys.js';
export { IngestClient, type IngestClientOptions } from './ingest/client.js';
export type * from './ingest/frames.js';
export { isLoopback, type Listening, listen } from './node.js';
export { OPERATIONS } from './openapi.js';
export type * from './ports.js';

export interface ServerOptions {
  policy: ServePolicy;
  ledger: ServeLedger;
  sessions: ServeSessions;
  events: ServeEvents;
  text: TextTools;
  metrics: ServeMetrics;
  status: StatusReport;
  /** empty: no key is asked for */ apiKeys: readonly ApiKey[];
  limits: ServeLimits;
  /** folder with the built page; null: no page */ pageFolder: string | null;
  logError(error: unknown, about: Record<string, unknown>): void;
}

export interface Server {
  fetch(request: Request): Promise<Response>;
  nodeHandler(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void>;
  attachWebSocket(server: HttpServer, accept?: (incoming: IncomingMessage) => boolean): void;
  /** Requests that generate and requests that wait for a place. */
  load(): { running: number; waiting: number };
  /** Turns new requests away, lets those in flight end, cuts off what is left after `limits.drainMs`. */
  close(): Promise<void>;
}

export function createServer(o: ServerOptions): Server {
  const chat = new ChatDoor(o);
  const feed = new EventFeed(o.events, o.limits.maxEventReaders);
  const ingest = new IngestServer(o);
  let closing: Promise<void> | null = null;
  const app = createApp({
    ...o,
    chat,
    feed,
    admin: new Admin(o.ledger, o.events),
    page: new PageFiles(o.pageFolder),
    ready: () => closing === null,
    maxBodyBytes: o.limits.maxBodyBytes,
    startedAt: Date.now(),
  });
  const handler = getRequestListener((request, env) => app.fetch(request, env), { overrideGlobalObjects: false });

  async function close(): Promise<void> {
    feed.close();
    await Promise.all([chat.close(), ingest.close()]);
  }

  return {
    fetch: async (request) => app.fetch(request, {}),
    nodeHandler: (incoming, outgoing) => handler(incoming, outgoing),
    attachWebSocket: (server, accept) => ingest.attach(server, accept),
    load: () => ({ running: chat.slots.inFlight, waiting: chat.slots.waiting }),
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}
