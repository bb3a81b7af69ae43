// A benchmark row: what was measured, on what, by which commit. Appended to bench/results/<bench>.jsonl.
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));

export function machine() {
  let commit = 'unknown';
  try {
    commit = execFileSync('git', ['rev-parse', '--short=10', 'HEAD'], { cwd: here, encoding: 'utf8' }).trim();
  } catch {
    // an installed package has no repository: the row says so
  }
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    node: process.version,
    commit,
    at: new Date().toISOString(),
  };
}

/** Value at quantile q of an unsorted list, nearest rank. */
export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))];
}

export function record(row, { save }) {
  const full = { ...row, ...machine() };
  if (save) {
    mkdirSync(join(here, 'results'), { recursive: true });
    appendFileSync(join(here, 'results', `${row.bench}.jsonl`), `${JSON.stringify(full)}\n`);
  }
  return full;
}
