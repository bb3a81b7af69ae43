/** A Node HTTP server around the doors: for those who do not bring one of their own. */
import {
  createServer as createHttpServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { OpenClawError } from '../record/index.js';
import { HttpError } from './http/errors.js';

export interface Listening {
  url: string;
  port: number;
  server: HttpServer;
  /** Stops accepting; resolves when every connection is closed. Idle ones are closed at once. */
  close(): Promise<void>;
}

export interface Handlers {
  nodeHandler(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void>;
  attachWebSocket(server: HttpServer, accept?: (incoming: IncomingMessage) => boolean): void;
}

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

export const isLoopback = (host: string): boolean => LOOPBACK.has(host);

/**
 * @param guardHost answer only requests whose Host is this machine's own name: without keys, a page of another site whose
 *   name was pointed at 127.0.0.1 could otherwise speak to the policy as if it were the user
 * @throws E_CONFIG when the address cannot be listened on
 */
export async function listen(
  handlers: Handlers,
  o: { port: number; host: string; guardHost: boolean },
): Promise<Listening> {
  const accept = (incoming: IncomingMessage) => !o.guardHost || isLoopback(hostName(incoming.headers.host));
  const server = createHttpServer((incoming, outgoing) => {
    if (!accept(incoming)) return refuseHost(outgoing);
    void handlers.nodeHandler(incoming, outgoing);
  });
  // Longer than the idle time of common clients and proxies: it is they who close, so no request meets a closing socket.
  server.keepAliveTimeout = 65_000;
  server.headersTimeout = 70_000;
  handlers.attachWebSocket(server, accept);
  await bind(server, o.port, o.host);
  const { port } = server.address() as AddressInfo;
  const host = o.host.includes(':') ? `[${o.host}]` : o.host;
  return { url: `http://${host}:${port}`, port, server, close: () => stop(server) };
}

function bind(server: HttpServer, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EADDRINUSE' ? 'something else listens there' : error.message;
      reject(new OpenClawError('E_CONFIG', `cannot listen on ${host}:${port}: ${why}`, 'port', { cause: error }));
    };
    server.once('error', failed);
    server.listen(port, host, () => {
      server.off('error', failed);
      resolve();
    });
  });
}

function stop(server: HttpServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
  });
}

function hostName(host: string | undefined): string {
  return (host ?? '').replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
}

function refuseHost(outgoing: ServerResponse): void {
  const error = new HttpError(403, 'this server answers requests to localhost and 127.0.0.1 only', 'unknown_host');
  outgoing.writeHead(error.status, { 'content-type': 'application/json' }).end(JSON.stringify(error.body()));
}
