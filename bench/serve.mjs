// Time to first token over real HTTP, idle and while a training step runs without pause, in turn (idle, training, idle …): the
// machine's own drift then falls on both alike. Says p50 and p99 of each and the ratio of the p99s (bar: at most 1.5).
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRuntime } from '../dist/index.js';
import { quantile, record } from './row.mjs';

const flag = (name) => process.argv.includes(`--${name}`);
const ROUNDS = 6;
const REQUESTS = 50;

const dataFolder = mkdtempSync(join(tmpdir(), 'openclaw-rl-bench-'));
const model = process.env.OPENCLAW_RL_BENCH_MODEL ?? 'claw-nano';
const runtime = await createRuntime({
  model,
  dataFolder,
  port: 0,
  train: { method: 'none' },
  log: { level: 'silent' },
});
const { url } = await runtime.listen(0, '127.0.0.1');

async function timeToFirstToken(i) {
  const started = performance.now();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-turn-type': 'side' },
    body: JSON.stringify({
      model: 'default',
      stream: true,
      max_tokens: 24,
      seed: i,
      messages: [
        {
          role: 'user',
          content: `tom has ${i % 17} apples and gets ${i % 13} more. how many apples does tom have now?`,
        },
      ],
    }),
  });
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  let first = null;
  const decoder = new TextDecoder();
  for await (const bytes of response.body) {
    if (first === null && /"content":"[^"]/.test(decoder.decode(bytes, { stream: true })))
      first = performance.now() - started;
  }
  return first ?? performance.now() - started;
}

/** Training without pause until told to stop: the worst neighbour a request can have. */
function trainForever() {
  const trainer = runtime.policy.trainer({ rank: 8, alpha: 16, seed: 1 });
  let stop = false;
  let steps = 0;
  const done = (async () => {
    const text = Int32Array.from({ length: 96 }, (_, i) => 5 + ((i * 37) % 200));
    const batch = await trainer.prepare(Array.from({ length: 8 }, () => text));
    while (!stop) {
      await trainer.zeroGrad();
      await trainer.forwardBackward(
        batch,
        Array.from({ length: 8 }, () => ({ from: 1, ce: 1 / 8 })),
      );
      await trainer.optimStep({ lr: 1e-9, beta1: 0.9, beta2: 0.98, eps: 1e-8, weightDecay: 0, maxGradNorm: 1 });
      steps++;
    }
    batch.dispose();
    trainer.dispose();
  })();
  return {
    async stop() {
      stop = true;
      await done;
      return steps;
    },
  };
}

const times = { idle: [], training: [] };
let steps = 0;
for (let i = 0; i < 20; i++) await timeToFirstToken(i);
for (let round = 0; round < ROUNDS; round++) {
  for (let i = 0; i < REQUESTS; i++) times.idle.push(await timeToFirstToken(i));
  const training = trainForever();
  for (let i = 0; i < REQUESTS; i++) times.training.push(await timeToFirstToken(i));
  steps += await training.stop();
}
await runtime.close();
rmSync(dataFolder, { recursive: true, force: true });

const ms = (values, q) => Number(quantile(values, q).toFixed(3));
const row = record(
  {
    bench: 'serve',
    shape: `${model}, ${ROUNDS * REQUESTS} requests each, one at a time`,
    idleMs: { p50: ms(times.idle, 0.5), p99: ms(times.idle, 0.99) },
    trainingMs: { p50: ms(times.training, 0.5), p99: ms(times.training, 0.99) },
    p99Ratio: Number((quantile(times.training, 0.99) / quantile(times.idle, 0.99)).toFixed(3)),
    trainingSteps: steps,
  },
  { save: flag('save') },
);
if (flag('json')) console.log(JSON.stringify(row));
else
  console.log(
    `serve  ${row.shape}\n  time to first token, idle      p50 ${row.idleMs.p50} ms  p99 ${row.idleMs.p99} ms\n` +
      `  while training (${steps} steps)  p50 ${row.trainingMs.p50} ms  p99 ${row.trainingMs.p99} ms\n  ratio of the p99s ${row.p99Ratio} (bar 1.5)`,
  );
