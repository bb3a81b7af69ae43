/** The command line as a process of its own: started, followed over its real socket, stopped or killed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import type { RuntimeEvent } from '../../../ts/record/index.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const CLI = join(ROOT, 'dist', 'cli.js');

/** The model that comes with the package; tests of the demo as people run it need it. */
export const NANO = existsSync(join(ROOT, 'models', 'claw-nano', 'model.safetensors'));

/** Settings of whoever runs the tests must not change what they test. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('OPENCLAW_RL_')));
}

const folders: string[] = [];
const programs = new Set<Program>();
afterAll(async () => {
  await Promise.all([...programs].map((program) => program.kill()));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'openclaw-rl-e2e-'));
  folders.push(folder);
  return folder;
}

export class Program {
  /** all of stdout and stderr so far */ output = '';
  /** exit code, or the signal's name */ readonly ended: Promise<number | string>;
  private readonly child: ChildProcess;

  constructor(args: readonly string[]) {
    this.child = spawn(process.execPath, [CLI, ...args], {
      cwd: ROOT,
      env: cleanEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.ended = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code, signal) => resolve(code ?? signal ?? 'unknown'));
    });
    programs.add(this);
    void this.ended.finally(() => programs.delete(this));
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.output += text;
      });
    }
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Resolves with the address once it is printed. @throws with the output when the process ends or takes too long */
  async url(timeoutMs = 60_000): Promise<string> {
    const found = () => /at (http:\/\/127\.0\.0\.1:\d+)\/v1/.exec(this.output)?.[1];
    await until(
      () => found() !== undefined || !this.running,
      timeoutMs,
      () => `no address was printed:\n${this.output}`,
    );
    const url = found();
    if (url === undefined) throw new Error(`the process ended before it served:\n${this.output}`);
    return url;
  }

  /** In good order. */
  stop(): Promise<number | string> {
    this.child.kill('SIGTERM');
    return this.ended;
  }

  /** kill -9: nothing of its own runs any more. */
  kill(): Promise<number | string> {
    this.child.kill('SIGKILL');
    return this.ended;
  }
}

export async function until(condition: () => boolean, timeoutMs: number, message: () => string): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`${message()} (waited ${timeoutMs} ms)`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Calls `each` for every event of a server until it is gone. */
export async function followEvents(url: string, each: (event: RuntimeEvent) => void): Promise<void> {
  try {
    const response = await fetch(`${url}/v1/events`);
    let rest = '';
    for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
      const blocks = (rest + text).split('\n\n');
      rest = blocks.pop()!;
      for (const block of blocks) {
        const data = block.split('\n').find((line) => line.startsWith('data: '));
        if (data !== undefined) each(JSON.parse(data.slice('data: '.length)) as RuntimeEvent);
      }
    }
  } catch {
    // the server was killed: that is how it ends here
  }
}

/** True when nothing listens there any more. */
export async function isGone(url: string): Promise<boolean> {
  return fetch(`${url}/healthz`).then(
    () => false,
    () => true,
  );
}
