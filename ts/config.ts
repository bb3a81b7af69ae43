/**
 * The whole configuration: one schema, defaults in one place, the only reader of the environment. From weakest to strongest:
 * defaults, a JSON file, OPENCLAW_RL_* variables, what the caller gives (a command's flags).
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { OpenClawError } from './record/index.js';
import { trainConfigSchema } from './train/config.js';

const positive = z.number().int().min(1);
const MINUTE = 60_000;
const MIB = 1 << 20;

/** A key, or its SHA-256 (hex) where the key itself should not lie in a file. Only the digest is kept. */
const apiKeySchema = z.union([
  z.string().min(8),
  z.strictObject({ name: z.string().min(1).max(64), key: z.string().min(8) }),
  z.strictObject({ name: z.string().min(1).max(64), sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
]);

const judgeSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('rules'),
    maxHints: positive.max(8).default(3),
    concurrency: positive.default(4),
  }),
  z.object({
    kind: z.literal('llm'),
    /** any OpenAI-compatible endpoint, up to and with /v1 */ baseUrl: z.url(),
    model: z.string().min(1),
    apiKey: z.string().optional(),
    votes: positive.max(15).default(3),
    temperature: z.number().min(0).max(2).default(0.6),
    deadlineMs: positive.default(30_000),
    maxHints: positive.max(8).default(3),
    maxInFlight: positive.default(4),
    concurrency: positive.default(4),
  }),
]);

const limitsSchema = z.object({
  maxBodyBytes: positive.default(25 * MIB),
  requestMs: positive.default(10 * MINUTE),
  maxRunning: positive.default(16),
  maxWaiting: z.number().int().min(0).default(256),
  maxReplyTokens: positive.default(8192),
  maxMessages: positive.default(4096),
  retryWindowMs: positive.default(10 * MINUTE),
  drainMs: z.number().int().min(0).default(20_000),
  keepAliveMs: positive.default(10_000),
  maxEventReaders: positive.default(32),
  ingest: z
    .object({
      maxConnections: positive.default(256),
      maxFrameBytes: positive.default(4 * MIB),
      credit: positive.max(65_536).default(256),
      maxOpenBytes: positive.default(16 * MIB),
      heartbeatMs: positive.default(15_000),
    })
    .prefault({}),
});

export const configSchema = z.object({
  /** 'claw-nano' (built in), a Hugging Face folder, or a .gguf file */
  model: z.string().min(1).default('claw-nano'),
  /** how weights are held in memory */
  dtype: z.enum(['f32', 'bf16']).default('f32'),
  /** native threads; null: all cores */
  threads: positive.max(1024).nullable().default(null),
  /** memory for keys and values; null: the policy's own choice */
  kvBytes: positive.nullable().default(null),
  /** ledger and versions; made when missing */
  dataFolder: z.string().min(1).default('data'),
  port: z.number().int().min(0).max(65_535).default(30_000),
  host: z.string().min(1).default('127.0.0.1'),
  /** empty: no key is asked for, which is allowed on loopback only */
  apiKeys: z.array(apiKeySchema).default([]),
  judge: judgeSchema.prefault({ kind: 'rules' }),
  train: trainConfigSchema.prefault({}),
  session: z
    .object({
      /** a session without a word for so long is over */ idleMs: positive.default(30 * MINUTE),
      maxSessions: positive.default(10_000),
      sweepMs: positive.default(MINUTE),
    })
    .prefault({}),
  /** trained and refused turns older than this are deleted; null: kept */
  retentionDays: z.number().gt(0).nullable().default(null),
  limits: limitsSchema.prefault({}),
  log: z.object({ level: z.enum(['silent', 'error', 'warn', 'info', 'debug']).default('info') }).prefault({}),
});

export type Config = z.infer<typeof configSchema>;
export type PartialConfig = z.input<typeof configSchema>;

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

/** @throws E_CONFIG naming the key, what was expected and what came */
export function parseConfig(input: PartialConfig = {}): Config {
  const parsed = configSchema.safeParse(input);
  if (!parsed.success) throw firstProblem(parsed.error);
  const unknown = unknownKey(input, parsed.data);
  if (unknown) throw problem(unknown, 'there is no such key');
  checkPairs(parsed.data);
  return parsed.data;
}

/**
 * File and environment under what the caller gives.
 * @param o.under what a command prefers to the defaults; everything else overrides it
 * @throws E_CONFIG
 */
export function loadConfig(
  given: PartialConfig = {},
  o: { file?: string; env?: NodeJS.ProcessEnv; under?: PartialConfig } = {},
): Config {
  const env = o.env ?? process.env;
  const file = o.file ?? env.OPENCLAW_RL_CONFIG;
  const layers = [o.under ?? {}, file ? readConfigFile(file) : {}, fromEnvironment(env), given];
  return parseConfig(layers.reduce<Tree>((below, above) => merge(below, above as Tree), {}) as PartialConfig);
}

/** Keys as digests with names, for serve. */
export function hashedKeys(config: Config): Array<{ name: string; sha256: string }> {
  return config.apiKeys.map((key) => {
    if (typeof key === 'string') return { name: `key-${digest(key).slice(0, 8)}`, sha256: digest(key) };
    return { name: key.name, sha256: 'key' in key ? digest(key.key) : key.sha256 };
  });
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex');

// --- pairs that do not go together ---

function checkPairs(config: Config): void {
  const { method, wRl, wOpd } = config.train;
  if (!LOOPBACK.has(config.host) && config.apiKeys.length === 0)
    throw problem('apiKeys', `at least one key is needed when host is not loopback (host: ${config.host})`);
  if (method === 'rl' && wRl === 0)
    throw problem('train.wRl', "method 'rl' with weight 0 learns nothing; use method 'none'");
  if (method === 'opd' && wOpd === 0)
    throw problem('train.wOpd', "method 'opd' with weight 0 learns nothing; use method 'none'");
  if (method === 'hybrid' && wRl === 0 && wOpd === 0)
    throw problem('train.wOpd', 'wRl and wOpd are both 0: nothing is learned');
  const names = hashedKeys(config).map((key) => key.name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice) throw problem('apiKeys', `two keys are named '${twice}': their users would be one`);
}

// --- layers ---

type Tree = { [key: string]: unknown };

const isTree = (value: unknown): value is Tree => typeof value === 'object' && value !== null && !Array.isArray(value);

/** `above` wins key by key; undefined is no opinion; lists are replaced whole. */
function merge(below: Tree, above: Tree): Tree {
  const result: Tree = { ...below };
  for (const [key, value] of Object.entries(above)) {
    if (value === undefined) continue;
    const under = result[key];
    result[key] = isTree(value) && isTree(under) ? merge(under, value) : value;
  }
  return result;
}

function readConfigFile(file: string): Tree {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (isTree(value)) return value;
  } catch (cause) {
    throw new OpenClawError(
      'E_CONFIG',
      `the configuration file ${file} cannot be read: ${(cause as Error).message}`,
      'config',
      { cause },
    );
  }
  throw new OpenClawError('E_CONFIG', `the configuration file ${file} must hold a JSON object`, 'config');
}

const asNumber = (text: string): number => Number(text);
const asList = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean);

/** Variable → key. Secrets come this way or by a file, never by a flag: flags are seen by everybody on the machine. */
const VARIABLES: Array<[string, string[], ((text: string) => unknown)?]> = [
  ['OPENCLAW_RL_MODEL', ['model']],
  ['OPENCLAW_RL_DTYPE', ['dtype']],
  ['OPENCLAW_RL_THREADS', ['threads'], asNumber],
  ['OPENCLAW_RL_DATA', ['dataFolder']],
  ['OPENCLAW_RL_PORT', ['port'], asNumber],
  ['OPENCLAW_RL_HOST', ['host']],
  ['OPENCLAW_RL_API_KEYS', ['apiKeys'], asList],
  ['OPENCLAW_RL_METHOD', ['train', 'method']],
  ['OPENCLAW_RL_JUDGE', ['judge', 'kind']],
  ['OPENCLAW_RL_JUDGE_URL', ['judge', 'baseUrl']],
  ['OPENCLAW_RL_JUDGE_MODEL', ['judge', 'model']],
  ['OPENCLAW_RL_JUDGE_API_KEY', ['judge', 'apiKey']],
  ['OPENCLAW_RL_LOG', ['log', 'level']],
];

function fromEnvironment(env: NodeJS.ProcessEnv): Tree {
  let tree: Tree = {};
  for (const [variable, path, read] of VARIABLES) {
    const text = env[variable];
    if (text === undefined || text === '') continue;
    const value: unknown = read ? read(text) : text;
    tree = merge(tree, path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value) as Tree);
  }
  return tree;
}

// --- errors ---

function problem(key: string, message: string): OpenClawError {
  return new OpenClawError('E_CONFIG', `${key}: ${message}`, key);
}

function firstProblem(error: z.ZodError): OpenClawError {
  const issue = error.issues[0]!;
  return problem(issue.path.join('.') || 'config', issue.message);
}

/** A key of the input that the schema does not know: a misspelt key must not pass for its default. */
function unknownKey(input: unknown, output: unknown, path: string[] = []): string | null {
  if (!isTree(input) || !isTree(output)) return null;
  for (const key of Object.keys(input)) {
    if (!(key in output) && input[key] !== undefined) return [...path, key].join('.');
    const inner = unknownKey(input[key], output[key], [...path, key]);
    if (inner) return inner;
  }
  return null;
}
