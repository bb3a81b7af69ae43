/** The whole runtime with a real (tiny, random) model: what serve, ledger, judge and trainer do together, over real sockets. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createRuntime, IngestClient, type PartialConfig, type Runtime } from '../../../ts/index.js';
import { createPolicy } from '../../../ts/policy/index.js';
import { CHATML, tinyConfig, tinyTokenizer } from '../policy/helpers.js';
import { user } from './fakes.js';

const folder = mkdtempSync(join(tmpdir(), 'openclaw-rl-runtime-'));
const model = join(folder, 'tiny');
const open: Runtime[] = [];
let data = 0;

beforeAll(async () => {
  const policy = await createPolicy(
    { name: 'tiny', config: tinyConfig({ context: 1024 }), tokenizerJson: tinyTokenizer(), chatTemplate: CHATML },
    { seed: 3, std: 0.2 },
    { threads: 1 },
  );
  await policy.writeModel(model, { dtype: 'f32' });
  await policy.close();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((runtime) => runtime.close()));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const newData = (): string => join(folder, `data-${++data}`);

async function start(o: PartialConfig = {}): Promise<{ runtime: Runtime; url: string; client: OpenAI }> {
  const runtime = await createRuntime({
    model,
    dataFolder: newData(),
    threads: 1,
    log: { level: 'silent' },
    ...o,
    train: { batchTurns: 1, epochs: 1, anchor: { perUpdate: 1 }, ...o.train },
  });
  open.push(runtime);
  const { url } = await runtime.listen(0);
  return { runtime, url, client: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }) };
}

/** A reply, and a complaint about it: what an update is made of. */
async function complain(client: OpenAI, seed = 1): Promise<void> {
  const messages: OpenAI.ChatCompletionMessageParam[] = [user(`fox ${seed}`)];
  const ask = () => client.chat.completions.create({ model: 'default', messages, max_tokens: 12, seed, stop: ['zzz'] });
  const reply = (await ask()).choices[0]!.message.content ?? '';
  messages.push(
    { role: 'assistant', content: reply },
    user('Please do not use bold text. Answer in one short sentence.'),
  );
  await ask();
}

// Random weights end few replies by themselves, and a cut reply is not learned from unless its hint may be.
const learnFromCut: PartialConfig['train'] = { admission: { truncated: 'hint-only' } };

describe('the loop', () => {
  it('a complaint becomes a version; the next reply comes from it; a restart goes on with it', async () => {
    const dataFolder = newData();
    const first = await start({ dataFolder, train: learnFromCut });
    const before = first.runtime.policy.live();
    await complain(first.client);
    expect(await first.runtime.trainIdle({ timeoutMs: 30_000 })).toBe(true);
    const after = first.runtime.policy.live();
    expect(after).not.toBe(before);
    const { response } = await first.client.chat.completions
      .create({ model: 'default', messages: [user('again')], max_tokens: 4 })
      .withResponse();
    expect(response.headers.get('x-openclaw-rl-version')).toBe(after);
    const versions = (await (await fetch(`${first.url}/v1/versions`)).json()) as {
      live: string;
      data: Array<{ version: string }>;
    };
    expect(versions).toMatchObject({
      live: after,
      data: [{ version: after, parent: before, state: 'live', turns: 1 }],
    });
    const status = (await (await fetch(`${first.url}/v1/status`)).json()) as {
      counts: { states: Record<string, number> };
    };
    expect(status.counts.states.trained).toBe(1);
    expect(await (await fetch(`${first.url}/metrics`)).text()).toContain('openclaw_rl_turns{state="trained"} 1');
    await first.runtime.close();
    const second = await start({ dataFolder, train: learnFromCut });
    expect(second.runtime.policy.live()).toBe(after);
  });

  it('method none records and judges, and never makes a version', async () => {
    const { runtime, client } = await start({ train: { method: 'none' } });
    const before = runtime.policy.live();
    await complain(client);
    await runtime.trainIdle({ timeoutMs: 20_000 });
    expect(runtime.policy.live()).toBe(before);
    expect((await runtime.ledger.counts()).states).toMatchObject({ judged: 1, trained: 0 });
  });

  it('refuses nothing and mixes no versions while weights are swapped', async () => {
    const { runtime, client } = await start({ train: learnFromCut });
    let stop = false;
    let replies = 0;
    const versions = new Set<string>();
    const talk = async (who: number): Promise<void> => {
      while (!stop) {
        const { data, response } = await client.chat.completions
          .create(
            { model: 'default', stream: true, max_tokens: 24, seed: replies, messages: [user(`sea ${who}`)] },
            { headers: { 'x-turn-type': 'side' } },
          )
          .withResponse();
        const seen = new Set<string>();
        const named = response.headers.get('x-openclaw-rl-version');
        if (named) seen.add(named);
        for await (const chunk of data) if (chunk.system_fingerprint) seen.add(chunk.system_fingerprint);
        expect(seen.size).toBe(1);
        for (const version of seen) versions.add(version);
        replies++;
      }
    };
    const talkers = [talk(1), talk(2), talk(3)];
    for (let i = 0; i < 4; i++) {
      await complain(client, i);
      await runtime.trainIdle({ timeoutMs: 20_000 });
    }
    stop = true;
    await Promise.all(talkers);
    expect((await runtime.ledger.counts()).updates).toBeGreaterThanOrEqual(3);
    expect(versions.size).toBeGreaterThan(2);
    expect(replies).toBeGreaterThan(10);
    expect(runtime.events.history().filter((e) => e.type === 'request.refused')).toEqual([]);
  });
});

describe('embedding', () => {
  it('lives inside another server, doors and WebSocket alike', async () => {
    const runtime = await createRuntime({
      model,
      dataFolder: newData(),
      threads: 1,
      log: { level: 'silent' },
      train: { method: 'none' },
    });
    open.push(runtime);
    const host = createServer((incoming, outgoing) => {
      if (incoming.url?.startsWith('/v1/')) void runtime.nodeHandler(incoming, outgoing);
      else outgoing.end('the host');
    });
    runtime.attachWebSocket(host);
    await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve));
    const { port } = host.address() as AddressInfo;
    expect(await (await fetch(`http://127.0.0.1:${port}/other`)).text()).toBe('the host');
    const models = (await (await fetch(`http://127.0.0.1:${port}/v1/models`)).json()) as {
      data: Array<{ id: string }>;
    };
    expect(models.data[0]!.id).toBe('tiny');
    const ingest = new IngestClient({ url: `ws://127.0.0.1:${port}/v1/ingest`, client: 'agent' });
    void ingest.turnStart({ session: 's', turn: 't', messages: [user('hi')] });
    void ingest.turnDelta({ turn: 't', text: 'hello' });
    await ingest.turnEnd({ turn: 't', finish: 'stop' });
    await ingest.state({ turn: 't', items: [{ role: 'user', text: 'thanks, that is right' }] });
    await runtime.trainIdle({ timeoutMs: 20_000 });
    const [turn] = await runtime.ledger.turnsOfSession('agent:s');
    expect(turn).toMatchObject({ text: 'hello', state: 'judged', logprobs: null });
    await ingest.close();
    host.closeAllConnections();
    await new Promise((resolve) => host.close(resolve));
  });

  it('as fetch alone, without any socket', async () => {
    const { runtime } = await start({ train: { method: 'none' } });
    const response = await runtime.fetch(
      new Request('http://anywhere/v1/chat/completions', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [user('hi')], max_tokens: 3, temperature: 0 }),
      }),
    );
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      object: 'chat.completion',
      usage: { completion_tokens: expect.any(Number) },
    });
  });

  it('a start that fails leaves nothing open', async () => {
    const dataFolder = newData();
    await expect(
      createRuntime({ model: join(folder, 'nothing'), dataFolder, log: { level: 'silent' } }),
    ).rejects.toMatchObject({ code: 'E_CONFIG', argument: 'model' });
    const { runtime } = await start({ dataFolder });
    await expect(createRuntime({ model, dataFolder, log: { level: 'silent' } })).rejects.toMatchObject({
      code: 'E_LEDGER',
    });
    await runtime.close();
    await runtime.close();
  });
});
