/** The demo as `npm start -- --once --json FILE` runs it: a person talks over real HTTP and the policy learns. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { DemoReport } from '../../../ts/world/demo/index.js';
import { type Book, problemsOfTraining, problemsOfVersions, readBook } from './book.js';
import { isGone, NANO, Program, temporaryFolder } from './program.js';

const MINUTES = 60_000;

interface Ran {
  report: DemoReport;
  book: Book;
  url: string;
  exit: number | string;
  output: string;
}

async function demo(...flags: string[]): Promise<Ran> {
  const folder = temporaryFolder();
  const json = join(folder, 'report.json');
  const data = join(folder, 'data');
  const program = new Program(['demo', '--once', '--port', '0', '--data', data, '--json', json, ...flags]);
  const url = await program.url();
  const exit = await program.ended;
  const report = JSON.parse(readFileSync(json, 'utf8')) as DemoReport;
  return { report, book: readBook(data), url, exit, output: program.output };
}

const share = (x: unknown): boolean => typeof x === 'number' && x >= 0 && x <= 1;

function expectShape(report: DemoReport): void {
  expect(Object.keys(report).sort()).toEqual(
    [
      ...['persona', 'method', 'seed', 'sessions', 'sessionsToAdapt', 'before', 'after', 'updates'],
      ...['refusedRequests', 'mixedVersionReplies', 'wallSeconds', 'model', 'talkSeconds'],
    ].sort(),
  );
  for (const session of report.sessions) {
    expect(session).toEqual({
      index: expect.any(Number),
      firstReplyObeys: expect.any(Boolean),
      correct: expect.any(Boolean),
      version: expect.any(String),
    });
  }
  for (const measure of [report.before, report.after]) {
    const { obeys, correct, both, replies } = measure;
    expect([obeys, correct, both].every(share), JSON.stringify(measure)).toBe(true);
    expect(both).toBeLessThanOrEqual(Math.min(obeys, correct));
    expect(replies).toBeGreaterThanOrEqual(100);
  }
}

describe.skipIf(!NANO)('the demo with claw-nano (skipped where models/claw-nano is not made yet)', () => {
  it(
    'talks, learns, reports and ends',
    async () => {
      const { report, book, url, exit, output } = await demo('--sessions', '6');
      expect(exit, output).toBe(0);
      expect(await isGone(url)).toBe(true);
      expectShape(report);
      expect(report).toMatchObject({ model: 'claw-nano', persona: 'student', method: 'hybrid', seed: 1 });
      expect(report.sessions.map((s) => s.index)).toEqual([1, 2, 3, 4, 5, 6]);
      expect(report).toMatchObject({ refusedRequests: 0, mixedVersionReplies: 0 });
      expect(report.wallSeconds).toBeGreaterThan(report.talkSeconds);

      expect(book.damage).toEqual([]);
      expect(report.updates).toBeGreaterThanOrEqual(1);
      expect(book.versions).toHaveLength(report.updates);
      const base = book.turns[0]!.version!;
      const known = [base, ...book.versions.map((v) => v.version)];
      for (const { version } of report.sessions) expect(known).toContain(version);
      expect(problemsOfVersions(book.versions, base)).toEqual([]);
      expect(problemsOfTraining(book)).toEqual([]);
      const page = readFileSync(new URL('../../../docs/operations.md', import.meta.url), 'utf8');
      const metrics = book.versions.flatMap((version) => Object.keys(version.metrics));
      expect(metrics.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
      // The last measure is of what was learned, the first of what was there.
      const measured = book.turns.filter((turn) => turn.kind === 'side');
      expect(measured.at(-1)!.version).toBe(book.live);
      expect(measured[0]!.version).toBe(base);
      expect(measured.every((turn) => turn.refusal === 'side-turn')).toBe(true);
    },
    8 * MINUTES,
  );

  it(
    'with training switched off the curve stays flat',
    async () => {
      const { report, book, exit, output } = await demo('--method', 'none', '--sessions', '6');
      expect(exit, output).toBe(0);
      expectShape(report);
      expect(report).toMatchObject({ method: 'none', updates: 0, refusedRequests: 0, mixedVersionReplies: 0 });
      expect(book.versions).toEqual([]);
      // One version said everything: the talk and both measures.
      expect(new Set(book.turns.map((turn) => turn.version)).size).toBe(1);
      expect(new Set(report.sessions.map((s) => s.version))).toEqual(new Set([book.turns[0]!.version]));
      // The same weights, questions and seeds: what differs comes from the order of sums in batches of other sizes.
      for (const of of ['obeys', 'correct', 'both'] as const)
        expect(Math.abs(report.after[of] - report.before[of]), of).toBeLessThanOrEqual(0.03);
      expect(book.turns.some((turn) => turn.state === 'trained')).toBe(false);
    },
    8 * MINUTES,
  );
});
