import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { listen, OPERATIONS } from '../../../ts/serve/index.js';
import { type Stage, stage, until, user } from './fakes.js';

const open: Stage[] = [];
async function on(reply = 'ok', o: Parameters<typeof stage>[1] = {}): Promise<Stage> {
  const s = await stage({ reply }, o);
  open.push(s);
  return s;
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((s) => s.close()));
});
const post = (url: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
async function oneTurn(s: Stage): Promise<string> {
  const response = await post(`${s.url}/v1/chat/completions`, { messages: [user('hi')], session_id: 'sess' });
  await response.text();
  return response.headers.get('x-openclaw-rl-turn')!;
}

describe('records', () => {
  it('a turn, its session, versions, models', async () => {
    const s = await on();
    const id = await oneTurn(s);
    expect(await (await fetch(`${s.url}/v1/turns/${id}`)).json()).toMatchObject({
      id,
      state: 'served',
      session_id: 'sess',
      text: 'ok',
      refusal: null,
    });
    expect(await (await fetch(`${s.url}/v1/sessions/sess`)).json()).toMatchObject({ id: 'sess', turns: [{ id }] });
    expect((await fetch(`${s.url}/v1/sessions/none`)).status).toBe(404);
    s.ledger.updateRows = [
      {
        id: 'u',
        version: 'fake@1',
        parent: 'fake@0',
        method: 'hybrid',
        turnIds: ['a', 'b'],
        metrics: { loss: 1 },
        probes: {},
        state: 'live',
        folder: null,
        createdAt: 5,
      },
    ];
    expect(await (await fetch(`${s.url}/v1/versions`)).json()).toMatchObject({
      live: 'fake@0',
      data: [{ version: 'fake@1', turns: 2, state: 'live' }],
    });
    expect(await (await fetch(`${s.url}/v1/models`)).json()).toMatchObject({
      object: 'list',
      data: [{ id: 'fake', object: 'model', max_model_len: 4096 }],
    });
    expect((await fetch(`${s.url}/v1/models/other`)).status).toBe(404);
  });

  it('feedback counts as what came next, once', async () => {
    const s = await on();
    const turn_id = await oneTurn(s);
    const say = async (body: unknown) => (await post(`${s.url}/v1/feedback`, body)).json();
    expect(await say({ turn_id, score: -1, text: 'too long' })).toEqual({
      turn_id,
      recorded: true,
      outcome: 'observed',
    });
    expect(await say({ turn_id, score: 1 })).toEqual({ turn_id, recorded: false, outcome: 'already' });
    expect(s.ledger.observed[0]!.items).toEqual([
      { role: 'user', text: 'too long' },
      { role: 'env', text: 'feedback: -1', isError: true },
    ]);
    expect(await say({ turn_id })).toMatchObject({ error: { param: 'score' } });
    expect(await say({ turn_id: 'none', score: 1 })).toMatchObject({ error: { code: 'not_found' } });
  });

  it('opting out and deletion', async () => {
    const s = await on();
    await oneTurn(s);
    expect(await (await post(`${s.url}/v1/users/local/opt-out`, { opt_out: true })).json()).toEqual({
      user: 'local',
      opt_out: true,
    });
    expect(s.ledger.optOuts.has('local')).toBe(true);
    expect(await (await fetch(`${s.url}/v1/users/me/data`, { method: 'DELETE' })).json()).toEqual({
      user: 'local',
      deleted_turns: 1,
    });
  });
});

describe('watching', () => {
  it('health, readiness, metrics, the document of the doors', async () => {
    const s = await on();
    expect(await (await fetch(`${s.url}/healthz`)).json()).toEqual({ ok: true });
    expect((await fetch(`${s.url}/readyz`)).status).toBe(200);
    expect(await (await fetch(`${s.url}/metrics`)).text()).toBe('fake 1\n');
    const document = (await (await fetch(`${s.url}/openapi.json`)).json()) as { paths: Record<string, object> };
    expect(Object.values(document.paths).flatMap(Object.keys)).toHaveLength(Object.keys(OPERATIONS).length);
    await s.server.close();
    expect((await fetch(`${s.url}/readyz`)).status).toBe(503);
  });

  it.each(Object.keys(OPERATIONS))('%s is a route', async (operation) => {
    const s = await on();
    const [method, path] = operation.split(' ') as [string, string];
    const leave = new AbortController();
    const response = await fetch(s.url + path.replace('{id}', 'x'), { method, signal: leave.signal });
    const text = path === '/v1/events' ? '' : await response.text();
    leave.abort();
    expect(text).not.toContain('unknown_route');
  });

  it('events come as they happen, and a reader that returns misses none', async () => {
    const s = await on();
    await oneTurn(s);
    const leave = new AbortController();
    const read = async (after: number, wanted: number): Promise<number[]> => {
      const response = await fetch(`${s.url}/v1/events`, {
        headers: { 'last-event-id': String(after) },
        signal: leave.signal,
      });
      const ids: number[] = [];
      const decoder = new TextDecoder();
      for await (const bytes of response.body!) {
        for (const match of decoder.decode(bytes).matchAll(/^id: (\d+)$/gm)) ids.push(Number(match[1]));
        if (ids.length >= wanted) break;
      }
      return ids;
    };
    const first = s.events.lastId;
    const live = read(first - 1, 3);
    await new Promise((resolve) => setTimeout(resolve, 50));
    s.events.emit({ type: 'update.started', turns: 1 });
    s.events.emit({ type: 'update.started', turns: 2 });
    expect(await live).toEqual([first, first + 1, first + 2]);
    expect(await read(first + 1, 1)).toEqual([first + 2]);
    leave.abort();
  });

  it('so many readers and no more', async () => {
    const s = await on('ok', { limits: { maxEventReaders: 1 } });
    const first = await fetch(`${s.url}/v1/events`);
    expect((await fetch(`${s.url}/v1/events`)).status).toBe(429);
    await first.body!.cancel();
    let status = 429;
    for (let i = 0; i < 50 && status !== 200; i++) {
      const again = await fetch(`${s.url}/v1/events`);
      status = again.status;
      await again.body!.cancel();
    }
    expect(status).toBe(200);
  });

  it('the page: its files and nothing beside them', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'openclaw-rl-page-'));
    mkdirSync(join(folder, 'page', 'assets'), { recursive: true });
    writeFileSync(join(folder, 'secret.txt'), 'secret');
    writeFileSync(join(folder, 'page', 'index.html'), '<h1>page</h1>');
    writeFileSync(join(folder, 'page', 'assets', 'a.js'), '1');
    const s = await on('ok', { pageFolder: join(folder, 'page') });
    const root = await fetch(`${s.url}/`);
    expect(await root.text()).toBe('<h1>page</h1>');
    expect(root.headers.get('content-security-policy')).toContain("default-src 'self'");
    expect((await fetch(`${s.url}/assets/a.js`)).headers.get('content-type')).toContain('javascript');
    expect((await fetch(`${s.url}/..%2fsecret.txt`)).status).toBe(404);
    expect((await fetch(`${s.url}/nothing`)).status).toBe(404);
    const bare = await on();
    expect(await (await fetch(`${bare.url}/`)).text()).toContain('npm run build');
    rmSync(folder, { recursive: true });
  });
});

describe('a listener of our own', () => {
  it('answers to this machine’s names only when no key is asked for', async () => {
    const s = await on();
    const own = await listen(s.server, { port: 0, host: '127.0.0.1', guardHost: true });
    const ask = (host: string) =>
      new Promise<number>((resolve) => {
        httpRequest(`${own.url}/healthz`, { headers: { host } }, (response) =>
          resolve(response.resume().statusCode!),
        ).end();
      });
    expect(await ask('127.0.0.1:1')).toBe(200);
    expect(await ask('localhost')).toBe(200);
    expect(await ask('evil.example:30000')).toBe(403);
    await expect(listen(s.server, { port: own.port, host: '127.0.0.1', guardHost: true })).rejects.toMatchObject({
      code: 'E_CONFIG',
      argument: 'port',
    });
    own.server.closeAllConnections();
    await own.close();
  });

  it('as a fetch handler: no socket needed, a cancelled stream is a client that left', async () => {
    const s = await stage({ reply: 'w'.repeat(500), paceMs: 2 });
    open.push(s);
    const ask = (body: unknown, signal?: AbortSignal) =>
      s.server.fetch(
        new Request('http://in.process/v1/chat/completions', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
          ...(signal ? { signal } : {}),
        }),
      );
    const response = await ask({ messages: [user('hi')], stream: true });
    const reader = response.body!.getReader();
    await reader.read();
    await reader.cancel();
    await until(() => s.ledger.turns.size === 1);
    expect(s.ledger.last().refusal).toBe('aborted');
    // aborting after everything was read changes nothing
    s.policy.script = { reply: 'short' };
    const late = new AbortController();
    await (await ask({ messages: [user('hi')], stream: true }, late.signal)).text();
    late.abort();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(s.ledger.last().state).toBe('served');
  });
});
