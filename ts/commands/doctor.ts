/** `openclaw-rl doctor`: what this machine has, what would run with which settings, and what stands in the way. */
import { constants, existsSync } from 'node:fs';
import { access, mkdir } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { type Config, loadConfig } from '../config.js';
import { binaryReport } from '../kernels/index.js';
import { driverFor } from '../ledger/driver.js';
import { modelPath } from '../loop.js';
import { openPolicy } from '../policy/index.js';
import { OpenClawError } from '../record/index.js';
import { configOf, fileOf, print, type RuntimeFlags } from './common.js';

type Check = [title: string, look: () => string | Promise<string>];

/** Every line is looked up on its own, so that one thing that is missing does not hide the next. Exit code 1 when one fails. */
export async function doctor(flags: RuntimeFlags): Promise<void> {
  const config = loadConfig(configOf(flags), fileOf(flags));
  const checks: Check[] = [
    [
      'node',
      () =>
        `${process.version} ${process.platform}-${process.arch}, ${availableParallelism()} cores, ${gib(totalmem())}`,
    ],
    ['binary', binary],
    ['sqlite', () => driverFor(process.versions.node)],
    ['data', () => dataFolder(config)],
    ['model', () => model(config)],
    [
      'serve',
      () =>
        `http://${config.host}:${config.port}, ${config.apiKeys.length} API keys, at most ${config.limits.maxRunning} replies at once`,
    ],
    ['judge', () => judge(config)],
    ['train', () => train(config)],
  ];
  let failed = 0;
  for (const [title, look] of checks) {
    const line = await Promise.resolve()
      .then(look)
      .catch((error: unknown) => {
        failed++;
        return `✗ ${error instanceof OpenClawError ? `${error.code}: ${error.message}` : String(error)}`;
      });
    print(`${title.padEnd(8)}${line}`);
  }
  if (failed > 0) process.exitCode = 1;
}

const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

function binary(): string {
  const { path, source, isa, napi } = binaryReport();
  return `${isa}, N-API ${napi}, from ${source} (${path})`;
}

async function dataFolder({ dataFolder: folder }: Config): Promise<string> {
  await mkdir(folder, { recursive: true });
  await access(folder, constants.R_OK | constants.W_OK);
  return `${folder}${existsSync(`${folder}/ledger.db`) ? ', with a ledger' : ', new'}`;
}

async function model(config: Config): Promise<string> {
  const path = modelPath(config.model);
  const started = performance.now();
  const policy = await openPolicy(path, {
    dtype: config.dtype,
    ...(config.threads === null ? {} : { threads: config.threads }),
  });
  const { arch, layers, hidden } = policy.config;
  const { weightBytes } = policy.stats();
  const shape = `${arch}, ${layers} layers of ${hidden}, vocabulary ${policy.vocab}, context ${policy.context}`;
  await policy.close();
  return `${policy.name}: ${shape}, ${gib(weightBytes)} in ${config.dtype}, opened in ${(performance.now() - started).toFixed(0)} ms (${path})`;
}

function judge({ judge: j }: Config): string {
  return j.kind === 'rules' ? `rules, at most ${j.maxHints} hints` : `${j.votes} votes of ${j.model} at ${j.baseUrl}`;
}

function train({ train: t }: Config): string {
  if (t.method === 'none') return 'off (method none): turns are recorded and judged only';
  const { rank, alpha, topLayers } = t.lora;
  const layers = topLayers === null ? 'all layers' : `the upper ${topLayers} layers`;
  return `${t.method}, ${t.batchTurns} turns a batch, ${t.epochs} passes, lr ${t.lr}, LoRA rank ${rank} alpha ${alpha} on ${layers}`;
}
