// Does it learn? Runs the demo for several seeds and methods and prints one table: what stood before, how many sessions it took,
// what stood after. Each run is a process of its own with a fresh data folder.
//   node bench/learning.mjs [--model FOLDER|FILE] [--persona student] [--seeds 1,2,3,4,5] [--methods hybrid,rl,opd] [--sessions N] [--save]
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { quantile, record } from './row.mjs';

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    persona: { type: 'string', default: 'student' },
    seeds: { type: 'string', default: '1,2,3,4,5' },
    methods: { type: 'string', default: 'hybrid,rl,opd' },
    sessions: { type: 'string' },
    save: { type: 'boolean', default: false },
  },
});
const cli = fileURLToPath(new URL('../dist/cli.js', import.meta.url));

function run(method, seed) {
  const folder = mkdtempSync(join(tmpdir(), 'openclaw-rl-learning-'));
  const json = join(folder, 'out.json');
  const args = [
    'demo',
    '--once',
    '--persona',
    values.persona,
    '--method',
    method,
    '--seed',
    seed,
    '--json',
    json,
    '--data',
    folder,
  ];
  if (values.model) args.push('--model', values.model);
  if (values.sessions) args.push('--sessions', values.sessions);
  const result = spawnSync(process.execPath, [cli, ...args], { stdio: ['ignore', 'ignore', 'inherit'] });
  if (result.status !== 0) throw new Error(`demo --method ${method} --seed ${seed} ended with ${result.status}`);
  const report = JSON.parse(readFileSync(json, 'utf8'));
  rmSync(folder, { recursive: true, force: true });
  return report;
}

const share = (x) => x.toFixed(2);
console.log(
  '| method | seed | before obeys / correct / both | sessions to adapt | after obeys / correct / both | updates | refused | mixed | seconds |',
);
console.log('|---|---|---|---|---|---|---|---|---|');
for (const method of values.methods.split(',')) {
  const reports = [];
  for (const seed of values.seeds.split(',')) {
    const r = run(method, seed);
    reports.push(r);
    const three = (x) => `${share(x.obeys)} / ${share(x.correct)} / ${share(x.both)}`;
    console.log(
      `| ${method} | ${seed} | ${three(r.before)} | ${r.sessionsToAdapt ?? 'none'} | ${three(r.after)} | ${r.updates} | ${r.refusedRequests} | ${r.mixedVersionReplies} | ${r.wallSeconds.toFixed(0)} |`,
    );
  }
  const median = (of) => quantile(reports.map(of), 0.5);
  const adapt = median((r) => r.sessionsToAdapt ?? Number.POSITIVE_INFINITY);
  const row = record(
    {
      bench: 'learning',
      shape: `${values.model ? values.model.split('/').at(-1) : 'claw-nano'}, ${values.persona}, ${method}, seeds ${values.seeds}`,
      beforeObeys: median((r) => r.before.obeys),
      sessionsToAdapt: Number.isFinite(adapt) ? adapt : null,
      afterObeys: median((r) => r.after.obeys),
      afterBoth: median((r) => r.after.both),
      correctChange: median((r) => r.after.correct - r.before.correct),
    },
    { save: values.save },
  );
  console.log(
    `| ${method} | median | ${share(row.beforeObeys)} | ${row.sessionsToAdapt ?? 'none'} | ${share(row.afterObeys)}, both ${share(row.afterBoth)}, correct ${row.correctChange >= 0 ? '+' : ''}${share(row.correctChange)} | | | | |`,
  );
}
