/** `openclaw-rl demo`: a simulated person talks to the policy over real HTTP, and the policy learns what they want. */
import { type Config, loadConfig } from '../config.js';
import { createRuntime, type Runtime } from '../loop.js';
import type { Message } from '../record/index.js';
import type { DemoHost } from '../world/demo/index.js';
import { closeOnSignal, configOf, fileOf, print, type RuntimeFlags } from './common.js';

export interface DemoFlags extends RuntimeFlags {
  persona: 'student' | 'assistant' | 'teacher' | 'joint';
  sessions?: number;
  seed: number;
  json?: string;
  heldOut?: number;
  keepServing?: boolean;
  once?: boolean;
}

const BUILT_IN = 'claw-nano';
const DEFAULT_PORT = 30_000;

export async function demo(flags: DemoFlags): Promise<void> {
  // the world is not needed to serve, so it is loaded here and not before
  const { pickFolder, recipe, runDemo } = await import('../world/demo/index.js');
  const given = loadConfig(configOf(flags), fileOf(flags));
  const scene = given.model === BUILT_IN ? 'stories' : 'everyday';
  const { method } = given.train;
  const run = `demo-${nameOf(given.model)}-${flags.persona}-${method}-${flags.seed}`;
  const dataFolder = flags.data ?? pickFolder(given.dataFolder, run);
  const under = { train: { ...recipe(scene), seed: flags.seed }, log: { level: 'warn' as const } };
  const settings = loadConfig({ ...configOf(flags), dataFolder }, { ...fileOf(flags), under });
  const runtime = await createRuntime(settings, scene === 'stories' ? { anchors: await storyAnchors(flags.seed) } : {});
  const signal = closeOnSignal(runtime);
  const { url } = await listen(runtime, settings);
  print(`${runtime.policy.name} at ${url}/v1  ·  page ${url}/`);
  await runDemo(
    {
      model: runtime.policy.name,
      scene,
      persona: flags.persona,
      method,
      sessions: flags.sessions ?? null,
      seed: flags.seed,
      dataFolder,
      json: flags.json ?? null,
      ...(flags.heldOut === undefined ? {} : { heldOut: flags.heldOut }),
    },
    hostOf(runtime, url, signal),
  );
  if (flags.keepServing && !flags.once) print(`\nStill serving: talk to it at ${url}/  ·  Ctrl-C ends it`);
  else await runtime.close();
}

/** The port that was asked for; when it is taken and nobody asked, any other. */
async function listen(runtime: Runtime, config: Config): Promise<{ url: string }> {
  try {
    return await runtime.listen();
  } catch (error) {
    if (config.port !== DEFAULT_PORT) throw error;
    print(`port ${config.port} is taken, another one is used`);
    return runtime.listen(0);
  }
}

function hostOf(runtime: Runtime, url: string, signal: AbortSignal): DemoHost {
  return {
    url,
    apiKey: null,
    signal,
    print,
    learned: async (timeoutMs) => void (await runtime.trainIdle({ timeoutMs })),
    updates: async () => (await runtime.ledger.counts()).updates,
    onSession: ({ index, firstReplyObeys, correct, version, persona }) =>
      runtime.events.emit({ type: 'demo.session', index, firstReplyObeys, correct, version, persona }),
  };
}

/** "…/smollm2-135m-instruct-q4_1.gguf" → "smollm2-135m-instruct-q4_1" */
const nameOf = (model: string): string =>
  (model.split(/[\\/]/).filter(Boolean).at(-1) ?? model).replace(/\.gguf$/i, '').replace(/[^\w.-]/g, '_');

const ANCHORS = 48;
/**
 * Talks on which the built-in model should stay as it is: those in which somebody said how the reply should be, grading and
 * small talk. Not the replies nobody gave an order for: their form is what is to be learned.
 */
const ANCHOR_KINDS = new Set(['hinted', 'noted', 'corrected', 'wrong', 'graded', 'chat']);

async function storyAnchors(seed: number): Promise<Message[][]> {
  const { corpus } = await import('../world/corpus.js');
  const talks: Message[][] = [];
  for (const talk of corpus(`anchors:${seed}`)) {
    if (ANCHOR_KINDS.has(talk.kind) && talk.given === '') talks.push(talk.messages);
    if (talks.length === ANCHORS) break;
  }
  return talks;
}
