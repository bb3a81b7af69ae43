/**
 * kill -9 at 20 moments of the demo, restart on the same data folder each time, and look into the ledger at the end. The moments
 * are drawn from a seed and aimed so that all of a turn's life is hit: starting, talking, scoring, epochs, writing a version,
 * publishing it. A client of the test's own talks the whole time and remembers every reply whose last byte it got.
 */
import { mkdirSync, readFileSync, watch } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { EventType, RuntimeEvent } from '../../../ts/record/index.js';
import type { DemoReport } from '../../../ts/world/demo/index.js';
import type { Progress } from '../../../ts/world/demo/progress.js';
import { Random } from '../../../ts/world/random.js';
import { type Book, problemsOfTraining, problemsOfVersions, readBook } from './book.js';
import { followEvents, NANO, Program, temporaryFolder } from './program.js';

const KILLS = 20;
const AIMS = ['starting', 'talking', 'scoring', 'epoch', 'writing', 'published', 'any'] as const;
type Aim = (typeof AIMS)[number];
/** a moment that does not come for so long is not waited for */
const LATE_MS = 90_000;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!NANO)('kill -9 (skipped where models/claw-nano is not made yet)', () => {
  it('loses no acknowledged turn, trains none twice, and goes on', async () => {
    const rng = new Random('crash:1');
    const run = new KilledDemo(join(temporaryFolder(), 'data'));
    const hits: Aim[] = [];
    for (let n = 0; n < KILLS; n++) {
      const aim = AIMS[n % AIMS.length]!;
      if (await run.untilKilled(aim, rng)) hits.push(aim);
    }
    for (const aim of AIMS) expect(hits, 'moments that were met').toContain(aim);
    const report = await run.toTheEnd();
    const book = readBook(run.data);
    expect(book.damage).toEqual([]);
    expect(run.problems).toEqual([]);
    expect(lostReplies(run.heard, book)).toEqual([]);
    expect(run.heard.size).toBeGreaterThanOrEqual(KILLS);
    expect(lostSessions(run.progress(), book)).toEqual([]);
    expect(problemsOfTraining(book)).toEqual([]);
    expect(problemsOfVersions(book.versions, book.turns[0]!.version!)).toEqual([]);
    expect(report).toMatchObject({ updates: book.versions.length, refusedRequests: 0, mixedVersionReplies: 0 });
    expect(book.versions.length).toBeGreaterThanOrEqual(3);
  }, 900_000);
});

/** One data folder under many processes, each killed. */
class KilledDemo {
  /** turn → text of replies that arrived to their last byte */ readonly heard = new Map<string, string>();
  readonly problems: string[] = [];

  constructor(readonly data: string) {
    mkdirSync(join(data, 'versions'), { recursive: true });
  }

  progress(): Progress {
    return JSON.parse(readFileSync(join(this.data, 'demo.json'), 'utf8')) as Progress;
  }

  /** Runs until the moment has come, then kills. False: it did not come in time (killed all the same). */
  async untilKilled(aim: Aim, rng: Random): Promise<boolean> {
    const liveBefore = readBook(this.data).live;
    const program = this.start(1000);
    const talk = this.talkOn(program, liveBefore, rng.int(0, 1e6));
    const met = await moment(aim, program, this.data, rng);
    await program.kill();
    await talk;
    return met;
  }

  async toTheEnd(): Promise<DemoReport> {
    const liveBefore = readBook(this.data).live;
    const json = join(this.data, 'report.json');
    const sessions = this.progress().sessions.length + 2;
    const program = this.start(sessions, '--json', json);
    const talk = this.talkOn(program, liveBefore, 1);
    expect(await program.ended, program.output).toBe(0);
    await talk;
    const report = JSON.parse(readFileSync(json, 'utf8')) as DemoReport;
    expect(report.sessions.map((s) => s.index)).toEqual(Array.from({ length: sessions }, (_, i) => i + 1));
    return report;
  }

  private start(sessions: number, ...more: string[]): Program {
    const fixed = ['demo', '--once', '--port', '0', '--held-out', '4', '--data', this.data];
    return new Program([...fixed, '--sessions', String(sessions), ...more]);
  }

  /** The test's own client, until the server is gone. */
  private async talkOn(program: Program, liveBefore: string | null, salt: number): Promise<void> {
    try {
      const url = await program.url();
      await this.checkGoesOn(url, liveBefore);
      for (let n = 0; ; n++) await this.session(url, `own-${salt}-${n}`, salt + n);
    } catch {
      // killed: whatever was under way was not acknowledged
    }
  }

  /** What was live when the process died is live again (or something newer, made since). */
  private async checkGoesOn(url: string, liveBefore: string | null): Promise<void> {
    const response = await fetch(`${url}/v1/versions`);
    const { live, data } = (await response.json()) as { live: string; data: Array<{ version: string }> };
    if (liveBefore === null) return;
    const order = data.map(({ version }) => version).reverse();
    const went = order.indexOf(live) - order.indexOf(liveBefore);
    if (!order.includes(liveBefore) || went < 0) this.problems.push(`${liveBefore} was live, now it is ${live}`);
  }

  /** Somebody who is never pleased, so that there is always something to learn. */
  private async session(url: string, session: string, seed: number): Promise<void> {
    const messages = [{ role: 'user', content: `Tom has ${3 + (seed % 5)} apples and buys 2. How many has he now?` }];
    const wishes = ['No lists and no bold, please. Just plain prose.', 'Shorter, please: one sentence.', 'Thanks.'];
    for (const [n, wish] of wishes.entries()) {
      const reply = await this.ask(url, session, messages, seed + n);
      messages.push({ role: 'assistant', content: reply }, { role: 'user', content: wish });
    }
  }

  private async ask(url: string, session: string, messages: object[], seed: number): Promise<string> {
    const stream = seed % 2 === 0;
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-id': session },
      body: JSON.stringify({ messages, max_tokens: 120, temperature: 0.6, seed, stream }),
    });
    const body = await response.text();
    const text = stream ? streamedText(body) : wholeText(body);
    if (response.status !== 200 || text === null) {
      this.problems.push(`status ${response.status}: ${body.slice(-300)}`);
      throw new Error('the reply is not whole');
    }
    this.heard.set(response.headers.get('x-openclaw-rl-turn')!, text);
    return text;
  }
}

function wholeText(body: string): string | null {
  const parsed = JSON.parse(body) as { choices?: Array<{ message: { content: string } }> };
  return parsed.choices?.[0]?.message.content ?? null;
}

function streamedText(body: string): string | null {
  const data = body.split('\n\n').flatMap((event) => (event.startsWith('data: ') ? [event.slice(6)] : []));
  if (data.at(-1) !== '[DONE]') return null;
  const chunks = data
    .slice(0, -1)
    .map((text) => JSON.parse(text) as { choices?: Array<{ delta: { content?: string } }> });
  if (chunks.some((chunk) => chunk.choices === undefined)) return null;
  return chunks.map((chunk) => chunk.choices![0]?.delta.content ?? '').join('');
}

/** Resolves at the moment; false where it did not come. */
async function moment(aim: Aim, program: Program, data: string, rng: Random): Promise<boolean> {
  const pause = rng.int(0, aim === 'starting' ? 1500 : 30);
  const count = rng.int(1, 4);
  if (aim === 'starting') {
    await sleep(pause);
    return true;
  }
  const url = await program.url();
  if (aim === 'any') {
    await sleep(rng.int(300, 3000));
    return true;
  }
  const came = await Promise.race([aim === 'writing' ? change(data) : event(url, aim, count), sleep(LATE_MS)]);
  await sleep(pause);
  return came === true;
}

/** Something moves in the folder of versions. */
function change(data: string): Promise<true> {
  return new Promise((resolve) => {
    const watcher = watch(join(data, 'versions'), () => {
      watcher.close();
      resolve(true);
    });
  });
}

const EVENTS: Record<Exclude<Aim, 'starting' | 'any' | 'writing'>, (event: RuntimeEvent) => boolean> = {
  talking: is('turn.served'),
  scoring: (event) => event.type === 'update.progress' && event.stage === 'scoring',
  epoch: (event) => event.type === 'update.progress' && event.stage === 'epoch',
  published: is('update.done'),
};

function is(type: EventType): (event: RuntimeEvent) => boolean {
  return (event) => event.type === type;
}

/** The `count`-th event of its kind; the first version will do. */
function event(url: string, aim: keyof typeof EVENTS, count: number): Promise<true> {
  let left = aim === 'published' ? 1 : count;
  return new Promise((resolve) => {
    void followEvents(url, (event) => {
      if (EVENTS[aim](event) && --left === 0) resolve(true);
    });
  });
}

/** Replies a client has in full and the ledger has not, or not as something that may be learned from. */
function lostReplies(heard: ReadonlyMap<string, string>, { turns }: Book): string[] {
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  return [...heard].flatMap(([id, text]) => {
    const turn = byId.get(id);
    if (turn === undefined) return [`${id} is not there`];
    if (turn.text !== text) return [`${id} holds other words`];
    if (turn.refusal === 'aborted') return [`${id} is recorded as aborted`];
    return turn.logprobs?.length === turn.response_ids.length ? [] : [`${id} has no log-probs for its ids`];
  });
}

/** Sessions the demo has written down as over whose first reply the ledger does not have. */
function lostSessions({ sessions }: Progress, { turns }: Book): number[] {
  const has = (index: number, text: string) =>
    turns.some((turn) => turn.session_id === `demo-1-${index}` && turn.text === text);
  return sessions.filter((s) => s.version !== null && !has(s.index, s.firstReply)).map((s) => s.index);
}
