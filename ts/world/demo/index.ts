/**
 * The demo: measure, talk session after session over real HTTP while the policy learns, measure again. The person is away for a
 * moment between sessions, as people are; learning happens then and during the talk. Nothing here touches the policy.
 */
import { mkdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import type { PersonaChoice } from '../personas.js';
import { ChatClient } from './client.js';
import { evaluate, type Measure } from './evaluate.js';
import { loadProgress, type Progress, saveProgress } from './progress.js';
import { everydayScene, type Scene, storyScene } from './scene.js';
import { curve, measureLine, sessionLine } from './screen.js';
import { runSession, type SessionResult } from './session.js';

export { pickFolder } from './progress.js';
export { recipe } from './recipe.js';

export interface DemoOptions {
  /** name for the report */ model: string;
  /** stories for the built-in model, everyday questions for others */ scene: Scene['name'];
  persona: PersonaChoice;
  method: string;
  /** null: the scene's own number */ sessions: number | null;
  seed: number;
  dataFolder: string;
  /** where the report goes; null: nowhere */ json: string | null;
  /** held-out replies measured before and after */ heldOut?: number;
}

/** What the demo needs of the runtime it talks to. */
export interface DemoHost {
  url: string;
  apiKey: string | null;
  /** Resolves when everything said so far is judged and no update runs, or after `timeoutMs`. */
  learned(timeoutMs: number): Promise<void>;
  /** updates that made a version */ updates(): Promise<number>;
  onSession(session: SessionResult): void;
  print(line: string): void;
  signal?: AbortSignal;
}

export interface DemoReport {
  model: string;
  persona: string;
  method: string;
  seed: number;
  sessions: Array<{ index: number; firstReplyObeys: boolean; correct: boolean; version: string | null }>;
  sessionsToAdapt: number | null;
  before: Measure;
  after: Measure;
  updates: number;
  refusedRequests: number;
  mixedVersionReplies: number;
  /** the sessions alone, without the measures before and after */ talkSeconds: number;
  wallSeconds: number;
}

const HELD_OUT = 128;
/** the person is away for at most this long between two sessions */
const AWAY_MS = 120_000;

export async function runDemo(o: DemoOptions, host: DemoHost): Promise<DemoReport> {
  const started = performance.now();
  const scene = o.scene === 'stories' ? storyScene(o.persona, o.seed) : everydayScene(o.seed);
  const total = o.sessions ?? scene.sessions;
  mkdirSync(o.dataFolder, { recursive: true });
  const progress = loadProgress(o.dataFolder, { model: o.model, persona: o.persona, method: o.method, seed: o.seed });
  const client = new ChatClient(host.url, host.apiKey);
  const known = {
    refused: progress.refusedRequests,
    mixed: progress.mixedVersionReplies,
    seconds: progress.secondsBefore,
  };
  const save = () => {
    progress.refusedRequests = known.refused + client.refused;
    progress.mixedVersionReplies = known.mixed + client.mixed;
    progress.secondsBefore = known.seconds + (performance.now() - started) / 1000;
    return saveProgress(o.dataFolder, progress);
  };
  if (progress.sessions.length > 0) host.print(`going on after session ${progress.sessions.length}`);
  progress.before ??= await measure('before', client, scene, o, host);
  await save();
  const talk = performance.now();
  await talkOn(progress, { client, scene, total, o, host, save });
  const talkSeconds = (performance.now() - talk) / 1000;
  host.print(`\nfirst reply obeys, mean of 3:  ${curve(progress.sessions)}\n`);
  progress.after ??= await measure('after', client, scene, o, host);
  await save();
  const report = await reportOf(progress, { talkSeconds, updates: await host.updates() });
  if (o.json) await writeFile(o.json, `${JSON.stringify(report, null, 2)}\n`);
  summary(report, host);
  return report;
}

interface Talk {
  client: ChatClient;
  scene: Scene;
  total: number;
  o: DemoOptions;
  host: DemoHost;
  save(): Promise<void>;
}

async function talkOn(progress: Progress, { client, scene, total, o, host, save }: Talk): Promise<void> {
  for (let index = progress.sessions.length + 1; index <= total; index++) {
    host.signal?.throwIfAborted();
    const session = await runSession(client, scene, scene.task(index - 1), o.seed, index);
    progress.sessions.push(session);
    await save();
    host.onSession(session);
    host.print(sessionLine(session, total));
    if (session.version === null) host.print(`  refused: ${client.lastRefusal}`);
    await host.learned(AWAY_MS);
  }
}

async function measure(
  name: string,
  client: ChatClient,
  scene: Scene,
  o: DemoOptions,
  host: DemoHost,
): Promise<Measure> {
  const count = o.heldOut ?? HELD_OUT;
  const m = await evaluate(client, scene, o.seed, count, () => host.signal?.throwIfAborted());
  host.print(measureLine(name, m));
  return m;
}

/** The session that completes three in a row whose first reply obeys. */
export function sessionsToAdapt(sessions: ReadonlyArray<{ firstReplyObeys: boolean }>): number | null {
  let row = 0;
  for (const [i, s] of sessions.entries()) {
    row = s.firstReplyObeys ? row + 1 : 0;
    if (row === 3) return i + 1;
  }
  return null;
}

async function reportOf(p: Progress, o: { talkSeconds: number; updates: number }): Promise<DemoReport> {
  return {
    model: p.model,
    persona: p.persona,
    method: p.method,
    seed: p.seed,
    sessions: p.sessions.map(({ index, firstReplyObeys, correct, version }) => ({
      index,
      firstReplyObeys,
      correct,
      version,
    })),
    sessionsToAdapt: sessionsToAdapt(p.sessions),
    before: p.before!,
    after: p.after!,
    updates: o.updates,
    refusedRequests: p.refusedRequests,
    mixedVersionReplies: p.mixedVersionReplies,
    talkSeconds: o.talkSeconds,
    wallSeconds: p.secondsBefore,
  };
}

function summary(report: DemoReport, host: DemoHost): void {
  host.print(measureLine('before', report.before));
  host.print(measureLine('after', report.after));
  const adapted = report.sessionsToAdapt === null ? 'not adapted' : `adapted at session ${report.sessionsToAdapt}`;
  host.print(
    `${adapted} · ${report.updates} updates · ${report.refusedRequests} requests refused · ${report.mixedVersionReplies} replies of mixed versions · ${report.wallSeconds.toFixed(0)} s`,
  );
}
