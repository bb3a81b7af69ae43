import { createHash } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { IngestClient, type IngestClientOptions } from '../../../ts/serve/index.js';
import { type Stage, stage, until, user } from './fakes.js';

const stages: Stage[] = [];
const clients: IngestClient[] = [];
const sockets: WebSocket[] = [];
async function on(o: Parameters<typeof stage>[1] = {}): Promise<Stage & { ws: string }> {
  const s = await stage({ reply: 'unused' }, o);
  stages.push(s);
  return { ...s, ws: `${s.url.replace('http', 'ws')}/v1/ingest` };
}
function client(url: string, o: Partial<IngestClientOptions> = {}): IngestClient {
  const c = new IngestClient({ url, client: 'test', reconnect: { minMs: 5, maxMs: 20 }, ...o });
  clients.push(c);
  return c;
}
afterEach(async () => {
  await Promise.all(clients.splice(0).map((c) => c.close(1).catch(() => {})));
  for (const socket of sockets.splice(0)) socket.terminate();
  await Promise.all(stages.splice(0).map((s) => s.close()));
});

/** A bare socket: every frame received, and the close code. */
async function raw(url: string, o: { headers?: Record<string, string> } = {}) {
  const socket = new WebSocket(url, { headers: o.headers ?? {} });
  sockets.push(socket);
  const frames: Array<Record<string, unknown>> = [];
  const closed = new Promise<number>((resolve) => socket.on('close', resolve));
  socket.on('message', (data) => frames.push(JSON.parse(data.toString()) as Record<string, unknown>));
  socket.on('error', () => {});
  await new Promise((resolve) => socket.on('open', resolve).on('close', resolve));
  return { socket, frames, closed, send: (frame: unknown) => socket.send(JSON.stringify(frame)) };
}
const hello = { type: 'hello', protocol: 1, client: 'raw' };
const end = (c: IngestClient, turn: string) => c.turnEnd({ turn, finish: 'stop' });

describe('IngestClient against the server', () => {
  it('records turns, what followed, opinions and the end of a session', async () => {
    const { ws, ledger, events } = await on();
    const c = client(ws);
    await c.open({ session: 's', user: 'ann' });
    void c.turnStart({ session: 's', turn: 't1', messages: [user('hi')], promptIds: [1, 2] });
    void c.turnDelta({ turn: 't1', text: 'he', ids: [3], logprobs: [-0.5] });
    void c.turnDelta({ turn: 't1', text: 'llo', ids: [4], logprobs: [-0.25] });
    await c.turnEnd({ turn: 't1', finish: 'stop', version: 'v7' });
    expect(ledger.last()).toMatchObject({
      sessionId: 'test:s',
      userId: 'ann',
      text: 'hello',
      version: 'v7',
      index: 0,
      state: 'served',
      finish: 'stop',
    });
    expect([...ledger.last().responseIds]).toEqual([3, 4]);
    expect([...ledger.last().logprobs!]).toEqual([-0.5, -0.25]);
    await c.state({ turn: 't1', items: [{ role: 'tool', text: 'no such file', isError: true }] });
    expect(ledger.observed[0]!.items).toEqual([{ role: 'tool', text: 'no such file', isError: true }]);
    void c.turnStart({ session: 's', turn: 't2', messages: [user('again')] });
    await c.turnEnd({ turn: 't2', finish: 'stop' });
    expect(ledger.last()).toMatchObject({ index: 1, logprobs: null, version: null });
    await c.feedback({ turn: 't2', score: -1, text: 'too long' });
    expect(ledger.observed[1]!.items.map((item) => item.text)).toEqual(['too long', 'feedback: -1']);
    await c.closeSession({ session: 's', reason: 'bye' });
    expect(ledger.ended).toEqual([['test:s', 'bye']]);
    expect(events.history().map((e) => e.type)).toEqual([
      'turn.served',
      'turn.observed',
      'turn.served',
      'turn.observed',
      'session.ended',
    ]);
  });

  it('acknowledges a turn only after its commit', async () => {
    const { ws, ledger } = await on();
    ledger.commitDelayMs = 80;
    const c = client(ws);
    let started = false;
    void c.turnStart({ session: 's', turn: 't', messages: [user('hi')] }).then(() => {
      started = true;
    });
    const ended = end(c, 't').then(() => expect(ledger.turns.size).toBe(1));
    await new Promise((resolve) => setTimeout(resolve, 40));
    expect(started).toBe(false);
    await ended;
  });

  it('survives connections cut again and again: every turn once, in order', async () => {
    const { ws, ledger, http } = await on();
    ledger.commitDelayMs = 2;
    const connections = new Set<import('node:net').Socket>();
    http.on('upgrade', (_, socket) => connections.add(socket as import('node:net').Socket));
    const c = client(ws);
    const cutter = setInterval(() => {
      for (const socket of connections) socket.destroy();
      connections.clear();
    }, 25);
    for (let i = 0; i < 40; i++) {
      void c.turnStart({ session: 's', turn: `t${i}`, messages: [user(`${i}`)] });
      void c.turnDelta({ turn: `t${i}`, text: `reply ${i}` });
      void end(c, `t${i}`);
      await new Promise((resolve) => setTimeout(resolve, 4));
    }
    await c.flush(15_000);
    clearInterval(cutter);
    expect([...ledger.turns.values()].map((t) => t.text)).toEqual(Array.from({ length: 40 }, (_, i) => `reply ${i}`));
    expect([...ledger.turns.values()].map((t) => t.index)).toEqual(Array.from({ length: 40 }, (_, i) => i));
  }, 30_000);

  it('goes on under an old name after a restart of the program, and of the server', async () => {
    const first = await on();
    const a = client(first.ws);
    void a.turnStart({ session: 's', turn: 'a', messages: [user('1')] });
    await end(a, 'a');
    await a.close();
    const b = client(first.ws);
    void b.turnStart({ session: 's', turn: 'b', messages: [user('2')] });
    await end(b, 'b');
    expect(first.ledger.turns.size).toBe(2);
    await b.close();
    const second = await on();
    for (const [id, turn] of first.ledger.turns) second.ledger.turns.set(id, turn);
    const c = client(second.ws);
    void c.turnStart({ session: 's', turn: 'b', messages: [user('2')] });
    await end(c, 'b');
    expect(second.ledger.turns.size).toBe(2);
  });

  it('more frames than the window holds still get through', async () => {
    const { ws, ledger } = await on({ limits: { ingest: { credit: 4 } } });
    const c = client(ws);
    void c.turnStart({ session: 's', turn: 't', messages: [user('hi')] });
    for (let i = 0; i < 100; i++) void c.turnDelta({ turn: 't', text: `${i},` });
    await end(c, 't');
    expect(ledger.last().text).toBe(Array.from({ length: 100 }, (_, i) => `${i},`).join(''));
  });

  it('tells subscribers verdicts of their turns, and versions', async () => {
    const { ws, ledger, events } = await on();
    const verdicts: unknown[] = [];
    const versions: string[] = [];
    const c = client(ws, { subscribe: true, onVerdict: (v) => verdicts.push(v), onVersion: (v) => versions.push(v) });
    void c.turnStart({ session: 's', turn: 't', messages: [user('hi')] });
    await end(c, 't');
    events.emit({ type: 'turn.judged', turnId: ledger.last().id, reward: -1, hints: 2 });
    events.emit({ type: 'turn.judged', turnId: 'turn_of_somebody_else', reward: 1, hints: 0 });
    events.emit({ type: 'update.done', version: 'v1', parent: 'v0', turns: 1, metrics: {}, ms: 1 });
    await until(() => versions.length === 1);
    expect(verdicts).toEqual([{ turn: 't', reward: -1, hints: 2 }]);
  });

  it('is told what the server did not take', async () => {
    const { ws, ledger } = await on();
    const errors: string[] = [];
    const c = client(ws, { onError: (e) => errors.push(e.message) });
    await c.state({ turn: 'nobody', items: [{ role: 'user', text: 'x' }] });
    await c.turnEnd({ turn: 'never begun', finish: 'stop' });
    void c.turnStart({ session: 's', turn: 't', messages: [user('hi')] });
    void c.turnDelta({ turn: 't', ids: [1, 2], logprobs: [-1] });
    await end(c, 't');
    expect(errors).toEqual([
      expect.stringMatching(/no turn 'nobody'/),
      expect.stringMatching(/'never begun' has not begun/),
      expect.stringMatching(/logprobs: expected 2/),
    ]);
    expect(ledger.turns.size).toBe(1);
  });

  it('aborted turns are refused, and their absence of log-probs is not zero', async () => {
    const { ws, ledger } = await on();
    const c = client(ws);
    void c.turnStart({ session: 's', turn: 't', messages: [user('hi')], promptIds: [1] });
    void c.turnDelta({ turn: 't', ids: [5], logprobs: [-1] });
    void c.turnDelta({ turn: 't', ids: [6] });
    await c.turnEnd({ turn: 't', finish: 'abort' });
    expect(ledger.last()).toMatchObject({ refusal: 'aborted', logprobs: null });
  });
});

describe('hostile and broken clients', () => {
  it.each([
    ['not JSON', 'hi', 1008],
    ['no hello', JSON.stringify({ type: 'open', seq: 1, session: 's' }), 1008],
    ['another protocol', JSON.stringify({ type: 'hello', protocol: 2, client: 'x' }), 1008],
    ['a frame beyond the limit', `"${'x'.repeat(2000)}"`, 1009],
  ])('%s ends the connection', async (_, text, code) => {
    const { ws } = await on({ limits: { ingest: { maxFrameBytes: 1000 } } });
    const { socket, closed } = await raw(ws);
    socket.send(text);
    expect(await closed).toBe(code);
  });

  it('a gap in the numbers, an unknown frame, more than the credit', async () => {
    const { ws, ledger } = await on({ limits: { ingest: { credit: 2 } } });
    const gap = await raw(ws);
    gap.send(hello);
    gap.send({ type: 'open', seq: 1, session: 's' });
    gap.send({ type: 'open', seq: 3, session: 's' });
    expect(await gap.closed).toBe(1008);
    expect(gap.frames).toContainEqual(expect.objectContaining({ type: 'error', seq: 3 }));

    const unknown = await raw(ws);
    unknown.send({ ...hello, client: 'u' });
    unknown.send({ type: 'frobnicate', seq: 1 });
    expect(await unknown.closed).toBe(1008);

    ledger.commitDelayMs = 100;
    const greedy = await raw(ws);
    greedy.send({ ...hello, client: 'g' });
    greedy.send({ type: 'turn.start', seq: 1, session: 's', turn: 't', messages: [user('x')] });
    greedy.send({ type: 'turn.end', seq: 2, turn: 't', finish: 'stop' });
    for (let seq = 3; seq < 9; seq++) greedy.send({ type: 'open', seq, session: 's' });
    expect(await greedy.closed).toBe(1008);
    expect(greedy.frames).toContainEqual(expect.objectContaining({ type: 'error', code: 'E_BUSY' }));
  });

  it('open turns hold a bounded number of bytes', async () => {
    const { ws } = await on({ limits: { ingest: { maxOpenBytes: 500 } } });
    const { send, closed, frames } = await raw(ws);
    send(hello);
    send({ type: 'turn.start', seq: 1, session: 's', turn: 't', messages: [user('x')] });
    for (let seq = 2; seq < 9; seq++) send({ type: 'turn.delta', seq, turn: 't', text: 'y'.repeat(100) });
    expect(await closed).toBe(1013);
    expect(frames).toContainEqual(expect.objectContaining({ type: 'error', code: 'E_BUSY' }));
  });

  it('one that does not answer pings is cut off', async () => {
    const { ws } = await on({ limits: { ingest: { heartbeatMs: 40 } } });
    const { socket, closed } = await raw(ws);
    socket.send(JSON.stringify(hello));
    (socket as unknown as { _receiver: { removeAllListeners(e: string): void } })._receiver.removeAllListeners('ping');
    expect(await closed).toBe(1006);
  });

  it('keys, foreign pages and other paths', async () => {
    const { ws } = await on({
      apiKeys: [{ name: 'k', sha256: createHash('sha256').update('good-key').digest('hex') }],
    });
    const wrong = await raw(ws);
    wrong.send({ ...hello, token: 'bad' });
    expect(await wrong.closed).toBe(1008);
    expect(wrong.frames).toMatchObject([{ type: 'error', code: 'E_FORBIDDEN' }]);
    const right = await raw(ws);
    right.send({ ...hello, token: 'good-key' });
    await until(() => right.frames.length === 1);
    expect(right.frames[0]).toEqual({ type: 'welcome', resumeFrom: 1, credit: 256 });
    expect(await (await raw(ws, { headers: { origin: 'http://evil.example' } })).closed).toBe(1006);
    expect(await (await raw(ws.replace('ingest', 'other'))).closed).toBe(1006);
  });
});
