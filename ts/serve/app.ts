/** The routes. Each is one line of wiring: who may call, what is read, who answers. */

import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { type Context, Hono } from 'hono';
import type { Admin } from './admin.js';
import type { ChatDoor } from './chat/door.js';
import type { EventFeed } from './event-feed.js';
import { readJson } from './http/body.js';
import { Delivery } from './http/delivery.js';
import { errorResponse, HttpError, notFound, toHttpError } from './http/errors.js';
import { type Caller, identify, userOf } from './http/keys.js';
import { openApiDocument } from './openapi.js';
import type { PageFiles } from './page-files.js';
import type { ApiKey, ServeMetrics, ServePolicy, StatusReport } from './ports.js';

export interface AppParts {
  policy: ServePolicy;
  chat: ChatDoor;
  admin: Admin;
  feed: EventFeed;
  page: PageFiles;
  metrics: ServeMetrics;
  status: StatusReport;
  ready(): boolean;
  apiKeys: readonly ApiKey[];
  maxBodyBytes: number;
  startedAt: number;
  logError(error: unknown, about: Record<string, unknown>): void;
}

type Env = { Bindings: { outgoing?: ServerResponse }; Variables: { caller: Caller; arrivedAt: number } };
type Ctx = Context<Env>;

export function createApp(parts: AppParts): Hono<Env> {
  const app = new Hono<Env>();
  app.use('*', async (c, next) => {
    c.set('arrivedAt', performance.now());
    await next();
    c.header('x-request-id', requestName(c.req.header('x-request-id')));
  });
  app.get('/healthz', (c) => c.json({ ok: true }));
  app.get('/readyz', (c) => (parts.ready() ? c.json({ ready: true }) : c.json({ ready: false }, 503)));
  for (const path of ['/v1/*', '/metrics', '/openapi.json']) {
    app.use(path, async (c, next) => {
      c.set('caller', identify(c.req.header('authorization') ?? null, parts.apiKeys));
      await next();
    });
  }
  chatRoutes(app, parts);
  recordRoutes(app, parts);
  watchRoutes(app, parts);
  app.get('*', (c) => parts.page.respond(new URL(c.req.url).pathname) ?? errorResponse(noRoute(c)));
  app.notFound((c) => errorResponse(noRoute(c)));
  app.onError((error, c) => answerError(error, c, parts));
  return app;
}

function chatRoutes(app: Hono<Env>, parts: AppParts): void {
  app.post('/v1/chat/completions', async (c) => {
    const delivery = new Delivery(c.req.raw, c.env?.outgoing ?? null);
    const json = await readJson(c.req.raw, parts.maxBodyBytes);
    const user = (json as { user?: unknown } | null)?.user;
    const userId = userOf(c.get('caller'), typeof user === 'string' ? user : undefined);
    const headers = Object.fromEntries(c.req.raw.headers);
    return parts.chat.handle({ userId, json, headers, delivery, arrivedAt: c.get('arrivedAt') });
  });
  app.get('/v1/models', (c) => c.json({ object: 'list', data: [modelView(parts)] }));
  app.get('/v1/models/:id', (c) => {
    const id = c.req.param('id');
    if (id !== parts.policy.name && id !== 'default')
      throw new HttpError(404, `the model '${id}' does not exist`, 'model_not_found', 'model');
    return c.json(modelView(parts));
  });
}

function recordRoutes(app: Hono<Env>, { admin, policy, maxBodyBytes }: AppParts): void {
  app.get('/v1/versions', async (c) => c.json(await admin.versions(policy.live())));
  app.get('/v1/sessions/:id', async (c) => c.json(await admin.session(c.get('caller'), c.req.param('id'))));
  app.get('/v1/turns/:id', async (c) => c.json(await admin.turn(c.get('caller'), c.req.param('id'))));
  app.delete('/v1/users/:id/data', async (c) => c.json(await admin.deleteUser(c.get('caller'), c.req.param('id'))));
  app.post('/v1/users/:id/opt-out', async (c) =>
    c.json(await admin.setOptOut(c.get('caller'), c.req.param('id'), await readJson(c.req.raw, maxBodyBytes))),
  );
  app.post('/v1/feedback', async (c) =>
    c.json(await admin.feedback(c.get('caller'), await readJson(c.req.raw, maxBodyBytes))),
  );
}

function watchRoutes(app: Hono<Env>, { feed, metrics, status }: AppParts): void {
  app.get('/v1/events', (c) => feed.open(Number(c.req.header('last-event-id') ?? c.req.query('after') ?? 0) || 0));
  app.get('/v1/status', async (c) => c.json(await status()));
  app.get(
    '/metrics',
    async () => new Response(await metrics.render(), { headers: { 'content-type': metrics.contentType } }),
  );
  app.get('/openapi.json', (c) => c.json(openApiDocument()));
}

function modelView({ policy, startedAt }: AppParts): Record<string, unknown> {
  return {
    id: policy.name,
    object: 'model',
    created: Math.floor(startedAt / 1000),
    owned_by: 'openclaw-rl',
    root: policy.live(),
    max_model_len: policy.context,
  };
}

const noRoute = (c: Ctx): HttpError =>
  notFound(`there is no ${c.req.method} ${new URL(c.req.url).pathname}`, 'unknown_route');

/** The caller's own name for the request, if it fits a header, else a fresh one. */
function requestName(given: string | undefined): string {
  return given !== undefined && /^[\x21-\x7e]{1,128}$/.test(given) ? given : `req_${randomUUID()}`;
}

function answerError(error: unknown, c: Ctx, parts: AppParts): Response {
  const http = toHttpError(error);
  if (http.status >= 500 && http.code !== 'shutting_down') parts.logError(error, { route: c.req.path });
  return errorResponse(http);
}
