/** What the commands share: flags of the runtime, and an end in good order. */
import type { PartialConfig } from '../config.js';
import type { Runtime } from '../loop.js';
import { OpenClawError } from '../record/index.js';

export interface RuntimeFlags {
  config?: string;
  model?: string;
  port?: number;
  host?: string;
  data?: string;
  dtype?: 'f32' | 'bf16';
  threads?: number;
  method?: 'hybrid' | 'rl' | 'opd' | 'none';
  log?: 'silent' | 'error' | 'warn' | 'info' | 'debug';
}

/** Only what was said: a flag left out is no opinion. */
export function configOf(flags: RuntimeFlags): PartialConfig {
  const { model, port, host, data, dtype, threads, method, log } = flags;
  const said = {
    model,
    port,
    host,
    dataFolder: data,
    dtype,
    threads,
    train: method === undefined ? undefined : { method },
    log: log === undefined ? undefined : { level: log },
  };
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined)) as PartialConfig;
}

export const fileOf = (flags: RuntimeFlags): { file?: string } => (flags.config ? { file: flags.config } : {});

/** The first signal ends in good order, a second at once. */
export function closeOnSignal(runtime: Runtime): AbortSignal {
  const stop = new AbortController();
  const end = () => {
    if (stop.signal.aborted) process.exit(130);
    stop.abort(new OpenClawError('E_ABORTED', 'stopped by a signal'));
    runtime.close().then(() => process.exit(0), fail);
  };
  process.on('SIGINT', end);
  process.on('SIGTERM', end);
  return stop.signal;
}

/** Says what went wrong, without a stack where the message is enough, and ends. */
export function fail(error: unknown): void {
  const known = error instanceof OpenClawError;
  // the signal's own handler ends the process, after the ledger is closed
  if (known && error.code === 'E_ABORTED') return;
  const text = known
    ? `${error.code}: ${error.message}`
    : error instanceof Error
      ? (error.stack ?? error.message)
      : String(error);
  process.stderr.write(`openclaw-rl: ${text}\n`);
  process.exit(1);
}

export const print = (line: string): void => void process.stdout.write(`${line}\n`);
