/**
 * Version names, the folders they live in and what is kept. A name is `<model>@<n>-<hash8>`, immutable and never reused; the
 * hash is of the parameters, so two runs that share a number cannot be confused.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Update } from '../record/index.js';
import type { TrainerState } from './ports.js';

/** First 8 hex digits of the SHA-256 over parameters (not moments) in name order. */
export function stateHash(state: TrainerState): string {
  const hash = createHash('sha256');
  for (const name of Object.keys(state.tensors).sort()) {
    if (name.endsWith('.m') || name.endsWith('.v')) continue;
    const t = state.tensors[name]!;
    hash.update(name).update(Buffer.from(t.buffer, t.byteOffset, t.byteLength));
  }
  return hash.digest('hex').slice(0, 8);
}

export function versionName(model: string, number: number, state: TrainerState): string {
  return `${model}@${number}-${stateHash(state)}`;
}

export const versionFolder = (version: string): string => join('versions', version.replace(/[^\w.@-]/g, '_'));

/** The number in a version name, null when it has another form. */
export function versionNumber(version: string | null): number | null {
  const match = version?.match(/@(\d+)-[0-9a-f]{8}$/);
  return match ? Number(match[1]) : null;
}

/** Deletes folders of versions beyond the newest `keep`; the live one always stays. Returns how many went. */
export async function pruneVersions(
  dataFolder: string,
  updates: Update[],
  live: string,
  keep: number,
): Promise<number> {
  const stored = updates
    .filter((u) => u.folder && u.version !== live)
    .sort((a, b) => b.createdAt - a.createdAt)
    .slice(Math.max(0, keep - 1));
  let gone = 0;
  for (const update of stored) {
    const folder = join(dataFolder, update.folder!);
    if (!existsSync(folder)) continue;
    await rm(folder, { recursive: true, force: true });
    gone++;
  }
  return gone;
}
