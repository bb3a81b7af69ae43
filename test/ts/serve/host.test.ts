/**
 * Requests recorded from a real OpenClaw, played against the doors with the real ledger and the real session inference: no
 * session header, a transient message at the end, tool calls whose ids come back changed.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { type Ledger, openLedger } from '../../../ts/ledger/index.js';
import { createSessions } from '../../../ts/session/index.js';
import { type Stage, stage } from './fakes.js';

interface Recorded {
  headers: Record<string, string>;
  body: { messages: Array<{ role: string; content: unknown; tool_calls?: unknown }>; [key: string]: unknown };
}
const recorded = (name: string): Recorded[] =>
  JSON.parse(
    readFileSync(join(import.meta.dirname, '..', 'fixtures', 'openclaw', `${name}.json`), 'utf8'),
  ) as Recorded[];

let open: { stage: Stage; ledger: Ledger; folder: string } | null = null;
afterEach(async () => {
  await open?.stage.close();
  await open?.ledger.close();
  if (open) rmSync(open.folder, { recursive: true });
  open = null;
});

/** The reply that the recording's next request brings back for this one. */
function repliesOf(requests: Recorded[]): string[] {
  return requests.map((request, i) => {
    const later = (requests[i + 1] ?? request).body.messages;
    const reply = later.slice(request.body.messages.length - 1).find((m) => m.role === 'assistant') as
      | { content: string | null; tool_calls?: Array<{ function: { name: string; arguments: string } }> }
      | undefined;
    const call = reply?.tool_calls?.[0]?.function;
    const words = typeof reply?.content === 'string' ? reply.content : '';
    return call
      ? `${words}<tool_call>{"name": "${call.name}", "arguments": ${call.arguments}}</tool_call>`
      : words || 'fine';
  });
}

it.each(['three-turns', 'tool-call'])('%s: one session, every reply observed but the last', async (name) => {
  const folder = mkdtempSync(join(tmpdir(), 'openclaw-rl-host-'));
  const ledger = await openLedger({ folder });
  const sessions = createSessions({ ledger });
  const s = await stage({ reply: '' }, { ledger, sessions });
  open = { stage: s, ledger, folder };
  Object.defineProperty(s.policy, 'context', { value: 1_000_000 });
  const requests = recorded(name);
  const replies = repliesOf(requests);
  const ids: string[] = [];
  const seen = new Set<string>();
  for (const [i, request] of requests.entries()) {
    s.policy.script = { reply: replies[i]!, step: 16 };
    const headers = {
      'content-type': 'application/json',
      'x-stainless-retry-count': request.headers['x-stainless-retry-count'] ?? '0',
    };
    const body = JSON.stringify({ ...request.body, model: 'default' });
    const response = await fetch(`${s.url}/v1/chat/completions`, { method: 'POST', headers, body });
    expect(response.status).toBe(200);
    const text = await response.text();
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true);
    expect(text).toContain('"usage":{');
    ids.push(response.headers.get('x-openclaw-rl-turn')!);
    seen.add(response.headers.get('x-openclaw-rl-session')!);
    expect(response.headers.get('x-openclaw-rl-recorded')).toBe('main');
  }
  expect(seen.size).toBe(1);
  const states = await Promise.all(ids.map(async (id) => (await ledger.findTurn(id))!.state));
  expect(states).toEqual([...ids.slice(1).map(() => 'observed'), 'served']);
  expect((await ledger.turnsOfSession([...seen][0]!)).map((t) => t.index)).toEqual(ids.map((_, i) => i));
});
