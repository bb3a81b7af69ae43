/**
 * How far a run has come, in its data folder: written after every session (whole file, synced, renamed), so that a run that was
 * killed goes on where it was.
 */
import { existsSync, readFileSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { OpenClawError } from '../../record/index.js';
import type { Measure } from './evaluate.js';
import type { SessionResult } from './session.js';

/** What makes two runs the same run. */
export interface RunIdentity {
  model: string;
  persona: string;
  method: string;
  seed: number;
}

export interface Progress extends RunIdentity {
  before: Measure | null;
  sessions: SessionResult[];
  after: Measure | null;
  refusedRequests: number;
  mixedVersionReplies: number;
  /** seconds spent before this process */ secondsBefore: number;
}

const FILE = 'demo.json';

/** @throws E_CONFIG when the folder holds another run */
export function loadProgress(folder: string, run: RunIdentity): Progress {
  const file = join(folder, FILE);
  const fresh: Progress = {
    ...run,
    before: null,
    sessions: [],
    after: null,
    refusedRequests: 0,
    mixedVersionReplies: 0,
    secondsBefore: 0,
  };
  if (!existsSync(file)) return fresh;
  const stored = JSON.parse(readFileSync(file, 'utf8')) as Progress;
  for (const key of ['model', 'persona', 'method', 'seed'] as const)
    if (stored[key] !== run[key])
      throw new OpenClawError(
        'E_CONFIG',
        `--data: ${folder} holds a run with ${key} ${stored[key]}, this one has ${run[key]}; give another folder`,
        'data',
      );
  return stored;
}

/** The folder of a run nobody named: the first of `name`, `name-2`, … that is new or holds an unfinished run. */
export function pickFolder(parent: string, name: string): string {
  for (let n = 1; ; n++) {
    const folder = join(parent, n === 1 ? name : `${name}-${n}`);
    const file = join(folder, FILE);
    if (!existsSync(file)) return folder;
    if ((JSON.parse(readFileSync(file, 'utf8')) as Progress).after === null) return folder;
  }
}

export async function saveProgress(folder: string, progress: Progress): Promise<void> {
  const file = join(folder, FILE);
  const handle = await open(`${file}.tmp`, 'w');
  try {
    await handle.writeFile(JSON.stringify(progress, null, 1));
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(`${file}.tmp`, file);
}
