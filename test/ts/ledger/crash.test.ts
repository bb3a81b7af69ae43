/**
 * kill -9 at random moments, again and again over one folder: what was acknowledged is there, in the state that was
 * acknowledged or a later one; no turn is trained twice; the file is sound; the lock of the dead does not block. Runs dist/.
 * Power loss is not tested here: for that the ledger relies on synchronous=FULL.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { TurnState } from '../../../ts/record/index.js';
import { openInline, temporaryFolder } from './make.js';

const ROUNDS = 20;
const CHILD = fileURLToPath(new URL('./crash-child.mjs', import.meta.url));
const ORDER: readonly TurnState[] = ['served', 'observed', 'judged', 'trained'];

let folder: string;
let remove: () => Promise<void>;
let child: ChildProcess | null = null;
beforeEach(async () => {
  ({ folder, remove } = await temporaryFolder());
});
afterEach(async () => {
  child?.kill('SIGKILL');
  await remove();
});

/** Lets a child work until it has said a random number of things and a moment longer, kills it, returns what it had said. */
async function lifeAndDeath(round: number): Promise<string[][]> {
  const { stdout, stderr, ended } = start(round);
  const enough = 1 + Math.floor(Math.random() * 30);
  let output = '';
  let errors = '';
  stderr.on('data', (chunk) => (errors += chunk));
  stdout.on('data', (chunk) => {
    output += chunk;
    if (output.split('\n').length > enough) setTimeout(() => child?.kill('SIGKILL'), Math.random() * 15);
  });
  const [code] = await ended;
  if (code !== null) throw new Error(`the child ended by itself: ${errors}`);
  return output
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split(' '));
}

function start(round: number) {
  const started = spawn(process.execPath, [CHILD, folder, String(round)], { stdio: ['ignore', 'pipe', 'pipe'] });
  child = started;
  return { stdout: started.stdout, stderr: started.stderr, ended: once(started, 'close') };
}

it(`${ROUNDS} kills lose nothing that was acknowledged`, { timeout: 240_000 }, async () => {
  const acknowledged = new Map<string, { state: TurnState; version: string | null }>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const [state, id, version] of await lifeAndDeath(round)) {
      if (state === 'trained') expect(acknowledged.get(id!)?.state, `${id} trained again`).not.toBe('trained');
      acknowledged.set(id!, { state: state as TurnState, version: version ?? null });
    }
    await checkRecord(acknowledged);
  }
  expect(acknowledged.size).toBeGreaterThanOrEqual(ROUNDS);
});

async function checkRecord(acknowledged: Map<string, { state: TurnState; version: string | null }>): Promise<void> {
  const ledger = openInline(folder);
  try {
    expect(await ledger.checkIntegrity()).toEqual([]);
    for (const [id, { state, version }] of acknowledged) {
      const turn = await ledger.findTurn(id);
      expect(turn, `${id} was acknowledged as ${state}`).not.toBeNull();
      expect(ORDER.indexOf(turn!.state)).toBeGreaterThanOrEqual(ORDER.indexOf(state));
      expect(turn!.text).toBe(`reply of ${id}`);
      if (version !== null) expect(turn!.trainedVersion).toBe(version);
    }
    await checkUpdates(await ledger.updates());
  } finally {
    await ledger.close();
  }
}

/** Every turn is in one update at most, and at most one version is live. */
async function checkUpdates(updates: Array<{ turnIds: string[]; state: string }>): Promise<void> {
  const trained = updates.flatMap((update) => update.turnIds);
  expect(new Set(trained).size).toBe(trained.length);
  expect(updates.filter((update) => update.state === 'live').length).toBeLessThanOrEqual(1);
}
