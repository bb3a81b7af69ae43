import { createHash } from 'node:crypto';
import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { END, encode, type Script, type Stage, stage, until, user } from './fakes.js';

const open: Stage[] = [];
async function on(script: Script | string, o: Parameters<typeof stage>[1] = {}): Promise<Stage & { client: OpenAI }> {
  const s = await stage(typeof script === 'string' ? { reply: script } : script, o);
  open.push(s);
  return { ...s, client: new OpenAI({ baseURL: `${s.url}/v1`, apiKey: 'none', maxRetries: 0 }) };
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((s) => s.close()));
});

const tools = [
  { type: 'function' as const, function: { name: 'look', parameters: { type: 'object', properties: {} } } },
];

describe('a whole reply, through the openai package', () => {
  it('has the text, the usage, the headers, and is a committed turn', async () => {
    const { client, ledger, sessions } = await on('Grüße, 世界 🎉');
    const { data, response } = await client.chat.completions
      .create({ model: 'fake', messages: [user('hi')] })
      .withResponse();
    expect(data.object).toBe('chat.completion');
    expect(data.choices[0]!.message).toMatchObject({ role: 'assistant', content: 'Grüße, 世界 🎉' });
    expect(data.choices[0]!.finish_reason).toBe('stop');
    const turn = ledger.last();
    expect(data.usage).toEqual({
      prompt_tokens: turn.promptIds.length,
      completion_tokens: turn.responseIds.length,
      total_tokens: turn.promptIds.length + turn.responseIds.length,
      prompt_tokens_details: { cached_tokens: 3 },
    });
    expect(response.headers.get('x-openclaw-rl-turn')).toBe(turn.id);
    expect(response.headers.get('x-openclaw-rl-session')).toBe(turn.sessionId);
    expect(response.headers.get('x-openclaw-rl-version')).toBe('fake@0');
    expect(response.headers.get('x-openclaw-rl-recorded')).toBe('main');
    expect(data).toMatchObject({ session_id: turn.sessionId, system_fingerprint: 'fake@0' });
    expect(turn).toMatchObject({
      state: 'served',
      finish: 'stop',
      version: 'fake@0',
      kind: 'main',
      text: 'Grüße, 世界 🎉',
    });
    expect([...turn.responseIds]).toEqual([...encode('Grüße, 世界 🎉'), END]);
    expect(turn.logprobs).toHaveLength(turn.responseIds.length);
    expect(turn.sampling.seed).toBeTypeOf('number');
    expect(sessions.served_.map((t) => t.id)).toEqual([turn.id]);
  });

  it('passes the sampling on and reads developer, parts and tool results', async () => {
    const { client, policy, ledger } = await on('ok');
    const messages = [
      { role: 'developer', content: 'be brief' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: { x: 1 } } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'seen' },
    ] as unknown as OpenAI.ChatCompletionMessageParam[];
    await client.chat.completions.create({
      model: 'default',
      messages,
      temperature: 0.3,
      top_p: 0.9,
      seed: -1,
      max_completion_tokens: 7,
      tools,
      top_k: 5,
    } as OpenAI.ChatCompletionCreateParamsNonStreaming);
    expect(policy.asked[0]!.sampling).toEqual({
      temperature: 0.3,
      topP: 0.9,
      topK: 5,
      maxTokens: 7,
      seed: 2 ** 32 - 1,
      stop: [],
    });
    expect(ledger.last().messages).toEqual([
      { role: 'system', content: 'be brief' },
      { role: 'user', content: 'ab' },
      {
        role: 'assistant',
        content: null,
        toolCalls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"x":1}' } }],
      },
      { role: 'tool', content: 'seen', toolCallId: 'c1' },
    ]);
  });

  it('cuts at a stop text, keeps the ids that made it, and samples no further', async () => {
    const { client, ledger, policy } = await on('one two STOP three');
    const data = await client.chat.completions.create({ model: 'fake', messages: [user('hi')], stop: ['STOP'] });
    expect(data.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'one two ' } });
    expect([...ledger.last().responseIds]).toEqual([...encode('one two STOP')]);
    expect(policy.aborted).toBe(1);
  });

  it('says when the reply was cut by the limit, and when less was given than asked for', async () => {
    const { client, ledger } = await on('a long reply');
    const cut = await client.chat.completions.create({ model: 'fake', messages: [user('hi')], max_tokens: 4 });
    expect(cut.choices[0]).toMatchObject({ finish_reason: 'length', message: { content: 'a lo' } });
    expect(ledger.last()).toMatchObject({ finish: 'length', state: 'served' });
    const { response } = await client.chat.completions
      .create({ model: 'fake', messages: [user('hi')], max_tokens: 178_220 })
      .withResponse();
    expect(response.headers.get('x-openclaw-rl-clamped')).toBe(`max_tokens=178220; given=${4096 - 'user:hi\n'.length}`);
  });

  it('parses tool calls', async () => {
    const { client, ledger } = await on(
      'Let me see.\n<tool_call>\n{"name": "look", "arguments": {"at": "x"}}\n</tool_call>',
    );
    const data = await client.chat.completions.create({ model: 'fake', messages: [user('hi')], tools });
    const { message, finish_reason } = data.choices[0]!;
    expect(finish_reason).toBe('tool_calls');
    expect(message.content).toBe('Let me see.');
    expect(message.tool_calls).toMatchObject([
      { type: 'function', function: { name: 'look', arguments: '{"at":"x"}' } },
    ]);
    expect(ledger.last()).toMatchObject({ finish: 'tool', text: 'Let me see.' });
  });

  it('gives log-probs of exactly the sampled tokens', async () => {
    const { client, ledger } = await on('ab');
    const data = await client.chat.completions.create({ model: 'fake', messages: [user('hi')], logprobs: true });
    const content = data.choices[0]!.logprobs!.content!;
    expect(content.map((c) => c.token)).toEqual(['a', 'b', '<|im_end|>']);
    expect(content.map((c) => c.logprob)).toEqual([...ledger.last().logprobs!]);
    expect(content[0]).toMatchObject({ bytes: [97], top_logprobs: [] });
  });

  it('observes what came next before it answers', async () => {
    const { client, ledger } = await on('ok');
    const headers = { 'x-session-id': 's1' };
    await client.chat.completions.create({ model: 'fake', messages: [user('hi')] }, { headers });
    await client.chat.completions.create({ model: 'fake', messages: [user('no, shorter')] }, { headers });
    expect(ledger.log).toEqual(['commit served', 'observe', 'commit served']);
    expect(ledger.observed[0]!.items).toEqual([{ role: 'user', text: 'no, shorter' }]);
  });

  it('names side turns and opted-out users, and ends a session when told', async () => {
    const { client, ledger, events } = await on('ok');
    const side = await client.chat.completions
      .create({ model: 'fake', messages: [user('title?')] }, { headers: { 'x-turn-type': 'side' } })
      .withResponse();
    expect(side.response.headers.get('x-openclaw-rl-recorded')).toBe('side');
    expect(ledger.last().refusal).toBe('side-turn');
    ledger.optOuts.add('ann');
    const out = await client.chat.completions
      .create({ model: 'fake', messages: [user('x')], user: 'ann' })
      .withResponse();
    expect(out.response.headers.get('x-openclaw-rl-recorded')).toBe('no:opted-out');
    expect(ledger.last()).toMatchObject({ userId: 'ann', refusal: 'opted-out' });
    await client.chat.completions.create(
      { model: 'fake', messages: [user('bye')] },
      { headers: { 'x-session-done': '1', 'x-session-id': 'z' } },
    );
    await until(() => ledger.ended.length === 1);
    expect(ledger.ended).toEqual([['z', 'done']]);
    expect(events.history().some((e) => e.type === 'session.ended')).toBe(true);
  });
});

describe('a streamed reply', () => {
  it('arrives token by token, whole characters only, with usage when asked for', async () => {
    const { client, ledger } = await on({ reply: 'né 世', paceMs: 2 });
    const stream = await client.chat.completions.create({
      model: 'fake',
      messages: [user('hi')],
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks[0]!.choices[0]!.delta).toEqual({ role: 'assistant', content: '' });
    const pieces = chunks.map((c) => c.choices[0]?.delta.content).filter(Boolean);
    expect(pieces).toEqual(['n', 'é', ' ', '世']);
    expect(chunks.at(-2)!.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' });
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { completion_tokens: ledger.last().responseIds.length },
    });
    expect(new Set(chunks.map((c) => c.id)).size).toBe(1);
  });

  it('is really streamed: the first token is there long before the last is sampled', async () => {
    const { client } = await on({ reply: 'x'.repeat(40), paceMs: 10 });
    const started = performance.now();
    const stream = await client.chat.completions.create({ model: 'fake', messages: [user('hi')], stream: true });
    let first = 0;
    for await (const chunk of stream)
      if (chunk.choices[0]?.delta.content && first === 0) first = performance.now() - started;
    expect(first).toBeLessThan((performance.now() - started) / 2);
  });

  it('is committed before the last bytes leave', async () => {
    const { client, ledger } = await on('done');
    ledger.commitDelayMs = 100;
    const stream = await client.chat.completions.create({ model: 'fake', messages: [user('hi')], stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) expect(ledger.turns.size).toBe(0);
      if (chunk.choices[0]?.finish_reason) expect(ledger.turns.size).toBe(1);
    }
    expect(ledger.last().state).toBe('served');
  });

  it('streams tool calls whole, each with its index', async () => {
    const call = (at: number) => `<tool_call>{"name": "look", "arguments": {"at": ${at}}}</tool_call>`;
    const { client } = await on({ reply: `See: ${call(1)}\n${call(2)}`, step: 3 });
    const stream = client.chat.completions.stream({ model: 'fake', messages: [user('hi')], tools });
    const final = await stream.finalChatCompletion();
    expect(final.choices[0]!.finish_reason).toBe('tool_calls');
    expect(final.choices[0]!.message.content).toBe('See:');
    expect(
      final.choices[0]!.message.tool_calls!.map((c) => (c as { function: { arguments: string } }).function.arguments),
    ).toEqual(['{"at":1}', '{"at":2}']);
  });

  it('never shows the beginning of a stop text', async () => {
    const { client } = await on('good <end> bad');
    const stream = await client.chat.completions.create({
      model: 'fake',
      messages: [user('hi')],
      stream: true,
      stop: '<end>',
    });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).toBe('good ');
  });

  it('whose client leaves in the middle is recorded as aborted, and sampling stops', async () => {
    const { client, ledger, policy, events } = await on({ reply: 'y'.repeat(1000), paceMs: 5 });
    const stream = await client.chat.completions.create({ model: 'fake', messages: [user('hi')], stream: true });
    let seen = 0;
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content && ++seen === 3) break;
    }
    await until(() => ledger.turns.size === 1);
    expect(ledger.last()).toMatchObject({ state: 'refused', refusal: 'aborted', finish: 'abort' });
    expect(ledger.last().responseIds.length).toBeLessThan(200);
    expect(policy.aborted).toBe(1);
    expect(events.history().at(-1)).toMatchObject({ type: 'turn.refused', reason: 'aborted' });
  });

  it('whose client leaves between the commit and the last byte is aborted after all', async () => {
    const { url, ledger, http } = await on('short');
    let open = () => {};
    ledger.commitGate = new Promise((resolve) => {
      open = resolve;
    });
    const gone = new Promise((resolve) => http.once('connection', (socket) => socket.once('close', resolve)));
    const leave = new AbortController();
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [user('hi')], stream: true }),
      signal: leave.signal,
    });
    const read = response.text();
    await until(() => ledger.turns.size === 1);
    expect(ledger.last().state).toBe('served');
    leave.abort();
    await expect(read).rejects.toThrow();
    await gone;
    open();
    await until(() => ledger.last().state === 'refused');
    expect(ledger.last().refusal).toBe('aborted');
  });

  it('that breaks in the middle ends with an error the client throws, without the inside', async () => {
    const { client, errors } = await on({ reply: 'abcdef', failAt: 3 });
    const stream = await client.chat.completions.create({ model: 'fake', messages: [user('hi')], stream: true });
    const read = async () => {
      for await (const _ of stream);
    };
    await expect(read()).rejects.toThrow(/failed to answer/);
    expect(errors).toHaveLength(1);
  });
});

describe('what is refused', () => {
  const cases: Array<[string, unknown, string | null, RegExp]> = [
    ['no messages', { model: 'fake' }, 'messages', /missing/],
    ['empty messages', { messages: [] }, 'messages', /./],
    ['a role nobody has', { messages: [{ role: 'robot', content: 'x' }] }, 'messages[0].role', /./],
    ['content that is a number', { messages: [{ role: 'user', content: 5 }] }, 'messages[0].content', /string/],
    [
      'a picture',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
      'messages[0].content',
      /image_url/,
    ],
    [
      'a tool result without its call',
      { messages: [{ role: 'tool', content: 'x' }] },
      'messages[0].tool_call_id',
      /missing/,
    ],
    ['temperature as text', { messages: [user('x')], temperature: 'hot' }, 'temperature', /number/],
    ['temperature too high', { messages: [user('x')], temperature: 3 }, 'temperature', /2/],
    ['top_p of 0', { messages: [user('x')], top_p: 0 }, 'top_p', /0/],
    ['max_tokens of 0', { messages: [user('x')], max_tokens: 0 }, 'max_tokens', /1/],
    ['half a token', { messages: [user('x')], max_tokens: 1.5 }, 'max_tokens', /int/],
    ['n of 2', { messages: [user('x')], n: 2 }, 'n', /n = 1/],
    ['top_logprobs', { messages: [user('x')], logprobs: true, top_logprobs: 3 }, 'top_logprobs', /sampled/],
    ['an empty stop text', { messages: [user('x')], stop: '' }, 'stop', /./],
    ['stream as text', { messages: [user('x')], stream: 'yes' }, 'stream', /boolean/],
    ['a forced call', { messages: [user('x')], tools, tool_choice: 'required' }, 'tool_choice', /auto/],
    ['a grammar', { messages: [user('x')], response_format: { type: 'json_object' } }, 'response_format', /text/],
    ['a penalty', { messages: [user('x')], presence_penalty: 1 }, 'presence_penalty', /not supported/],
    ['a list', [], null, /object/],
  ];
  it.each(cases)('%s → 400 that names the field', async (_, body, param, message) => {
    const { url, ledger } = await on('never');
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as {
      error: { message: string; type: string; param: string | null; code: string | null };
    };
    expect(error.type).toBe('invalid_request_error');
    expect(error.param).toBe(param);
    expect(error.message).toMatch(message);
    expect(ledger.turns.size).toBe(0);
  });

  it('unknown fields and nulls are let through', async () => {
    const { client } = await on('ok');
    const body = {
      model: 'fake',
      messages: [user('x')],
      store: true,
      metadata: { a: 'b' },
      temperature: null,
      stop: null,
      tools: null,
      frobnicate: 1,
    };
    const data = await client.chat.completions.create(body as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming);
    expect(data.choices[0]!.message.content).toBe('ok');
  });

  it('an unknown model is 404 model_not_found', async () => {
    const { client } = await on('ok');
    await expect(client.chat.completions.create({ model: 'gpt-9', messages: [user('x')] })).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
      param: 'model',
    });
  });

  it('a prompt longer than the context is context_length_exceeded', async () => {
    const { client } = await on('ok');
    await expect(
      client.chat.completions.create({ model: 'fake', messages: [user('x'.repeat(5000))] }),
    ).rejects.toMatchObject({ status: 400, code: 'context_length_exceeded', param: 'messages' });
  });

  it('bodies that are too large, no JSON, no UTF-8 or of another type', async () => {
    const { url } = await on('ok', { limits: { maxBodyBytes: 1000 } });
    const post = (body: BodyInit, type = 'application/json') =>
      fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': type }, body });
    expect((await post('{')).status).toBe(400);
    expect((await post(Uint8Array.of(0x22, 0xff, 0x22))).status).toBe(400);
    expect((await post('{}', 'text/plain')).status).toBe(415);
    expect((await post(JSON.stringify({ messages: [user('x'.repeat(2000))] }))).status).toBe(413);
  });

  it('half a surrogate pair becomes U+FFFD', async () => {
    const { url, ledger } = await on('ok');
    const body = '{"messages":[{"role":"user","content":"a\\ud800b"}]}';
    await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    expect(ledger.last().messages[0]!.content).toBe('a\uFFFDb');
  });
});

describe('overload, deadlines and retries', () => {
  it('waits for a place in order, and turns away only what exceeds the queue', async () => {
    const { client, events } = await on({ reply: 'slow', paceMs: 20 }, { limits: { maxRunning: 1, maxWaiting: 2 } });
    const ask = (text: string) => client.chat.completions.create({ model: 'fake', messages: [user(text)] });
    const results = await Promise.allSettled([ask('1'), ask('2'), ask('3'), ask('4')]);
    expect(results.map((r) => r.status).sort()).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected']);
    const refused = results.find((r) => r.status === 'rejected') as PromiseRejectedResult;
    expect(refused.reason).toMatchObject({ status: 429, code: 'overloaded' });
    expect(refused.reason.headers.get('retry-after')).toBe('1');
    expect(events.history().filter((e) => e.type === 'request.refused')).toHaveLength(1);
  });

  it('a request whose deadline passes in the queue is 504', async () => {
    const { client } = await on({ reply: 'x'.repeat(30), paceMs: 20 }, { limits: { maxRunning: 1, requestMs: 150 } });
    const first = client.chat.completions.create({ model: 'fake', messages: [user('1')] });
    await expect(client.chat.completions.create({ model: 'fake', messages: [user('2')] })).rejects.toMatchObject({
      status: 504,
      code: 'deadline_exceeded',
    });
    await first;
  });

  it('a retry of the SDK gets the recorded reply, not a second turn', async () => {
    const { url, ledger } = await on({ reply: (m) => `reply to ${m.at(-1)!.content}` });
    const post = (headers: Record<string, string>, content = 'hi', stream = false) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ messages: [user(content)], stream }),
      });
    const first = await post({ 'x-stainless-retry-count': '0' });
    const again = await post({ 'x-stainless-retry-count': '1' });
    expect(again.headers.get('x-openclaw-rl-replayed')).toBe('true');
    expect(again.headers.get('x-openclaw-rl-turn')).toBe(first.headers.get('x-openclaw-rl-turn'));
    expect(ledger.turns.size).toBe(1);
    // the same words again without being a retry are a turn of their own
    await post({ 'x-stainless-retry-count': '0' });
    expect(ledger.turns.size).toBe(2);
  });

  it('one request id with one body is one turn, also for two at once and after a restart', async () => {
    const { url, ledger } = await on({ reply: 'once', paceMs: 5 });
    const post = (base: string, content: string, stream = false) =>
      fetch(`${base}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-request-id': 'r1' },
        body: JSON.stringify({ messages: [user(content)], stream }),
      });
    const [a, b] = await Promise.all([post(url, 'hi'), post(url, 'hi')]);
    expect(a.headers.get('x-openclaw-rl-turn')).toBe(b.headers.get('x-openclaw-rl-turn'));
    expect(ledger.turns.size).toBe(1);
    await post(url, 'something else');
    expect(ledger.turns.size).toBe(2);

    const restarted = await on('never said');
    for (const [id, turn] of ledger.turns) restarted.ledger.turns.set(id, turn);
    const replay = await post(restarted.url, 'hi');
    expect(replay.headers.get('x-openclaw-rl-replayed')).toBe('true');
    expect(((await replay.json()) as OpenAI.ChatCompletion).choices[0]!.message.content).toBe('once');
  });

  it('a replay can be streamed, and an aborted attempt is not replayed', async () => {
    const { url, ledger } = await on({ reply: 'z'.repeat(60), paceMs: 5 });
    const post = (signal?: AbortSignal) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': 'k' },
        body: JSON.stringify({ messages: [user('hi')], stream: true }),
        ...(signal ? { signal } : {}),
      });
    const leave = new AbortController();
    const first = await post(leave.signal);
    await first.body!.getReader().read();
    leave.abort();
    await until(() => ledger.turns.size === 1);
    const second = await (await post()).text();
    expect(second).toContain('data: [DONE]');
    expect([...ledger.turns.values()].map((t) => t.refusal)).toEqual(['aborted', null]);
    const replay = await post();
    expect(replay.headers.get('x-openclaw-rl-replayed')).toBe('true');
    expect(await replay.text()).toContain(`"content":"${'z'.repeat(60)}"`);
    expect(ledger.turns.size).toBe(2);
  });

  it('a stream without a token yet stays alive', async () => {
    const { url } = await on({ reply: 'late', paceMs: 120 }, { limits: { keepAliveMs: 30 } });
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [user('hi')], stream: true }),
    });
    const text = await response.text();
    expect(text).toMatch(/^: still here\n\n/);
    expect(text).toContain('"content":"l"');
  });
});

describe('keys', () => {
  const sha = (text: string) => createHash('sha256').update(text).digest('hex');
  it('isolate their users, and a wrong one is 401', async () => {
    const apiKeys = [
      { name: 'a', sha256: sha('key-of-a') },
      { name: 'b', sha256: sha('key-of-b') },
    ];
    const { url, ledger } = await on('ok', { apiKeys });
    const as = (apiKey: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
    await expect(
      as('wrong-key').chat.completions.create({ model: 'fake', messages: [user('x')] }),
    ).rejects.toMatchObject({ status: 401, code: 'invalid_api_key' });
    await as('key-of-a').chat.completions.create({ model: 'fake', messages: [user('x')], user: 'ann' });
    expect(ledger.last().userId).toBe('a:ann');
    const turn = `${url}/v1/turns/${ledger.last().id}`;
    const get = (key: string, path = turn, method = 'GET') =>
      fetch(path, { method, headers: { authorization: `Bearer ${key}` } });
    expect((await get('key-of-a')).status).toBe(200);
    expect((await get('key-of-b')).status).toBe(404);
    expect(await (await get('key-of-b', `${url}/v1/users/ann/data`, 'DELETE')).json()).toEqual({
      user: 'b:ann',
      deleted_turns: 0,
    });
    expect(await (await get('key-of-a', `${url}/v1/users/ann/data`, 'DELETE')).json()).toEqual({
      user: 'a:ann',
      deleted_turns: 1,
    });
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect((await fetch(`${url}/metrics`)).status).toBe(401);
  });
});

describe('shutdown', () => {
  it('lets what is in flight end and turns new requests away', async () => {
    const s = await on({ reply: 'x'.repeat(20), paceMs: 10 });
    const running = s.client.chat.completions.create({ model: 'fake', messages: [user('hi')] });
    await until(() => s.policy.asked.length === 1);
    const closing = s.server.close();
    await expect(s.client.chat.completions.create({ model: 'fake', messages: [user('late')] })).rejects.toMatchObject({
      status: 503,
    });
    expect((await running).choices[0]!.message.content).toBe('x'.repeat(20));
    await closing;
    expect(s.ledger.last().state).toBe('served');
  });

  it('cuts off what outlasts the deadline, and records it', async () => {
    const s = await on({ reply: 'x'.repeat(1000), paceMs: 10 }, { limits: { drainMs: 50 } });
    const running = s.client.chat.completions.create({ model: 'fake', messages: [user('hi')] });
    await until(() => s.policy.asked.length === 1);
    await Promise.all([s.server.close(), expect(running).rejects.toMatchObject({ status: 503 })]);
    expect(s.ledger.last().refusal).toBe('aborted');
  });
});
