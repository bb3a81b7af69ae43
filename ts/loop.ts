/**
 * Builds the stations and joins them: policy → ledger → sessions → judging → training → serve. The only place where one
 * station meets another; what each needs it states itself, and here it gets the object.
 */
import { existsSync, mkdirSync } from 'node:fs';
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import { type Config, hashedKeys, type PartialConfig, parseConfig } from './config.js';
import { createLlmJudge, createRulesJudge, type Judge, type Judging, startJudging } from './judge/index.js';
import { hintOverlap } from './kernels/index.js';
import { type Ledger, openLedger } from './ledger/index.js';
import {
  createTextStream,
  createToolSplitter,
  type NativePolicy,
  openPolicy,
  readAdapter,
  writeAdapter,
} from './policy/index.js';
import { type Message, OpenClawError } from './record/index.js';
import { createServer, isLoopback, type Listening, listen, type Server } from './serve/index.js';
import { createSessions, type Sessions } from './session/index.js';
import {
  type AdapterStore,
  type AnchorSequence,
  conversationAnchors,
  type OverlapKernel,
  startTraining,
  type Training,
  type TrainStatus,
  textAnchors,
} from './train/index.js';
import { createLog, EventBus, type Gauges, logEvents, Metrics } from './watch/index.js';

export interface RuntimeOptions {
  /** conversations on which the policy should stay as it is; absent: plain general text */ anchors?: ReadonlyArray<
    readonly Message[]
  >;
}

export interface Runtime {
  readonly config: Config;
  readonly policy: NativePolicy;
  readonly ledger: Ledger;
  readonly events: EventBus;
  readonly log: Logger;
  /** The doors as a fetch handler, for any server that speaks Request and Response. */
  fetch(request: Request): Promise<Response>;
  /** The same for node:http; mount it where you like, the paths begin at /v1. */
  nodeHandler(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void>;
  /** /v1/ingest on a server of yours. */
  attachWebSocket(server: HttpServer): void;
  /** A server of our own; port and host default to the configuration's. */
  listen(port?: number, host?: string): Promise<Listening>;
  /**
   * Resolves when everything said so far is judged and no full batch waits, or after `timeoutMs` (then false).
   * `flush`: a batch that is not full counts as full.
   */
  trainIdle(o?: { timeoutMs?: number; flush?: boolean }): Promise<boolean>;
  trainStatus(): TrainStatus;
  /** Stops accepting, lets requests in flight end, closes the ledger last. May be called again. */
  close(): Promise<void>;
}

/** @throws E_CONFIG, E_FILE, E_UNSUPPORTED, E_NO_BINARY, E_LEDGER: whatever keeps it from starting */
export async function createRuntime(input: PartialConfig = {}, options: RuntimeOptions = {}): Promise<Runtime> {
  const config = parseConfig(input);
  const closing: Array<() => Promise<unknown> | unknown> = [];
  try {
    return await build(config, options, closing);
  } catch (error) {
    for (const close of closing.reverse()) await close();
    throw error;
  }
}

/** What was opened is pushed to `closing` at once: a start that fails half way leaves nothing open. */
async function build(
  config: Config,
  options: RuntimeOptions,
  closing: Array<() => Promise<unknown> | unknown>,
): Promise<Runtime> {
  const log = createLog(config.log.level);
  const events = new EventBus({ listenerFailed: (error) => log.error({ err: error }, 'an event listener failed') });
  logEvents(events, log);
  mkdirSync(config.dataFolder, { recursive: true });
  const ledger = await openLedger({ folder: config.dataFolder });
  closing.push(() => ledger.close());
  const policy = await openPolicyOf(config);
  closing.push(() => policy.close());
  const sessions = createSessions({
    ledger,
    idleMs: config.session.idleMs,
    maxSessions: config.session.maxSessions,
    stopIds: policy.stopIds,
    onEnded: (sessionId, reason, unobserved) => events.emit({ type: 'session.ended', sessionId, reason, unobserved }),
  });
  const judging = startJudging({ ledger, judge: judgeOf(config), events, concurrency: config.judge.concurrency });
  closing.push(() => judging.close());
  const training = await startTraining({
    ledger,
    policy,
    kernels: overlapKernel,
    store: adapterStore,
    config: config.train,
    dataFolder: config.dataFolder,
    anchors: anchorsOf(policy, config, options),
    emit: events.emit,
  });
  closing.push(() => training.close());
  const stopTimers = keepUp({ config, ledger, sessions, judging, training, events, log });
  closing.push(stopTimers);
  const server = serverOf({ config, policy, ledger, sessions, training, events, log });
  closing.push(() => server.close());
  return runtimeOf({ config, policy, ledger, events, log, judging, training, server, closing });
}

// --- the stations' needs ---

const here = fileURLToPath(new URL('.', import.meta.url));

/** A path as it is; else a model that comes with the package. @throws E_CONFIG naming both places */
export function modelPath(model: string): string {
  if (existsSync(model)) return resolve(model);
  const builtIn = join(here, '..', 'models', model);
  if (/^[\w.-]+$/.test(model) && existsSync(builtIn)) return builtIn;
  throw new OpenClawError(
    'E_CONFIG',
    `model: '${model}' is neither a file or folder nor one of the package's models`,
    'model',
  );
}

function openPolicyOf(config: Config): Promise<NativePolicy> {
  const { dtype, threads, kvBytes, limits } = config;
  return openPolicy(modelPath(config.model), {
    dtype,
    ...(threads === null ? {} : { threads }),
    ...(kvBytes === null ? {} : { kvBytes }),
    maxInFlight: limits.maxRunning,
    maxWaiting: limits.maxWaiting,
  });
}

function judgeOf({ judge }: Config): Judge {
  if (judge.kind === 'rules') return createRulesJudge({ maxHints: judge.maxHints });
  const { kind: _, concurrency: __, apiKey, ...rest } = judge;
  return createLlmJudge({ ...rest, ...(apiKey === undefined ? {} : { apiKey }) });
}

const adapterStore: AdapterStore = {
  write: (folder, state, about) => writeAdapter(folder, { ...state, ...about }),
  async read(folder) {
    const { adapter, state } = await readAdapter(folder);
    if (!state) throw new OpenClawError('E_FILE', `${folder} has no optimiser state: training cannot go on from it`);
    return { ...state, rank: adapter.rank, alpha: adapter.alpha };
  },
};

/** The kernel's own words for the same things: T positions, M hints, a mask of bytes. */
const overlapKernel: OverlapKernel = {
  hintOverlap(student, teachers, { M, T, k }, mask) {
    const bytes = mask === null ? {} : { mask: Uint8Array.from(mask, (m) => (m === 0 ? 0 : 1)) };
    const { choice, tokenChoice, totals } = hintOverlap({ student, teachers, hints: M, positions: T, k, ...bytes });
    return { sequenceChoice: choice, tokenChoice, sums: Array.from(totals) };
  },
};

function anchorsOf(policy: NativePolicy, { train }: Config, { anchors }: RuntimeOptions): AnchorSequence[] {
  if (train.method === 'none' || train.anchor.weight === 0 || train.anchor.perUpdate === 0) return [];
  return anchors ? conversationAnchors(policy, anchors) : textAnchors(policy);
}

interface Joined {
  config: Config;
  ledger: Ledger;
  sessions: Sessions;
  judging: Judging;
  training: Training;
  events: EventBus;
  log: Logger;
}

/** Each loop is told when the one before it has something for it; idle sessions end; what is too old goes. */
function keepUp({ config, ledger, sessions, judging, training, events, log }: Joined): () => void {
  const unsubscribe = events.subscribe((event) => {
    if (event.type === 'turn.observed') judging.poke();
    if (event.type === 'turn.judged') training.poke();
  });
  const failed = (what: string) => (error: unknown) => log.error({ err: error }, what);
  const timer = setInterval(() => {
    void sessions.sweep().catch(failed('ending idle sessions failed'));
    if (config.retentionDays !== null)
      void ledger.prune(Date.now() - config.retentionDays * 86_400_000).catch(failed('deleting old turns failed'));
  }, config.session.sweepMs);
  timer.unref();
  return () => {
    clearInterval(timer);
    unsubscribe();
  };
}

interface ServerParts {
  config: Config;
  policy: NativePolicy;
  ledger: Ledger;
  sessions: Sessions;
  training: Training;
  events: EventBus;
  log: Logger;
}

function serverOf({ config, policy, ledger, sessions, training, events, log }: ServerParts): Server {
  const server: Server = createServer({
    policy,
    ledger,
    sessions,
    events,
    text: {
      textStream: (stop) => createTextStream(policy, { stop }),
      toolSplitter: createToolSplitter,
    },
    metrics: new Metrics(events, () => gauges()),
    status,
    apiKeys: hashedKeys(config),
    limits: config.limits,
    pageFolder: pageFolder(),
    logError: (error, about) => log.error({ err: error, ...about }, 'a request failed'),
  });

  async function gauges(): Promise<Gauges> {
    const { states, refusals, sessions } = await ledger.counts();
    const { kvBytes, weightBytes } = policy.stats();
    return { ...server.load(), states, refusals, sessions, queued: training.status().queued, kvBytes, weightBytes };
  }

  async function status(): Promise<Record<string, unknown>> {
    const counts = await ledger.counts();
    const train = { method: config.train.method, ...training.status() };
    return {
      model: policy.name,
      context: policy.context,
      live: policy.live(),
      load: server.load(),
      counts,
      train,
      lastEvent: events.lastId,
    };
  }

  return server;
}

/** Beside the compiled code; when running from the sources, in dist/. */
function pageFolder(): string | null {
  const places = [join(here, 'page'), join(here, '..', 'dist', 'page')];
  return places.find((place) => existsSync(join(place, 'index.html'))) ?? null;
}

// --- the whole ---

interface Parts {
  config: Config;
  policy: NativePolicy;
  ledger: Ledger;
  events: EventBus;
  log: Logger;
  judging: Judging;
  training: Training;
  server: Server;
  closing: Array<() => Promise<unknown> | unknown>;
}

function runtimeOf({ config, policy, ledger, events, log, judging, training, server, closing }: Parts): Runtime {
  let closed: Promise<void> | null = null;

  async function close(): Promise<void> {
    // in the reverse of the order in which they were opened: listeners and doors first, the ledger last
    for (const step of closing.reverse()) await step();
    log.flush();
  }

  return {
    config,
    policy,
    ledger,
    events,
    log,
    fetch: (request) => server.fetch(request),
    nodeHandler: (incoming, outgoing) => server.nodeHandler(incoming, outgoing),
    attachWebSocket: (http) => server.attachWebSocket(http),
    async listen(port = config.port, host = config.host) {
      const guardHost = isLoopback(host) && config.apiKeys.length === 0;
      if (!isLoopback(host) && config.apiKeys.length === 0)
        throw new OpenClawError(
          'E_CONFIG',
          `apiKeys: at least one key is needed when host is not loopback (host: ${host})`,
          'apiKeys',
        );
      const listening = await listen(server, { port, host, guardHost });
      closing.push(() => stopListening(listening, server));
      log.info({ url: listening.url, model: basename(config.model), live: policy.live() }, 'serving');
      return listening;
    },
    async trainIdle({ timeoutMs = 600_000, flush = false } = {}) {
      const deadline = Date.now() + timeoutMs;
      if (!(await judgedWithin(judging, timeoutMs))) return false;
      return training.idle({ timeoutMs: Math.max(0, deadline - Date.now()), flush });
    },
    trainStatus: () => training.status(),
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

/** ms that written replies get to leave the machine */
const FLUSH_MS = 2000;

/** No new connections; requests in flight end; then what is idle is closed, and after a while what is left. */
async function stopListening(listening: Listening, server: Server): Promise<void> {
  const closed = listening.close();
  await server.close();
  const sweep = setInterval(() => listening.server.closeIdleConnections(), 20);
  await within(closed, FLUSH_MS);
  clearInterval(sweep);
  listening.server.closeAllConnections();
  await closed;
}

/** False when turns were still being judged after so long. */
async function judgedWithin(judging: Judging, timeoutMs: number): Promise<boolean> {
  try {
    await judging.idle({ timeoutMs });
    return true;
  } catch (error) {
    if (error instanceof OpenClawError && error.code === 'E_DEADLINE') return false;
    throw error;
  }
}

/** True when it settled in time. */
async function within(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([work.then(() => true), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
