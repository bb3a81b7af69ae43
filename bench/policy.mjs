// The policy by itself: prompt and decode tokens a second (one and eight streams) and LoRA training tokens a second, for the built-in
// model and for OPENCLAW_RL_BENCH_MODEL (a folder or a .gguf), with 1 and 2 threads.
import { openPolicy } from '../dist/index.js';
import { quantile, record } from './row.mjs';

const flag = (name) => process.argv.includes(`--${name}`);
const models = [process.env.OPENCLAW_RL_BENCH_MODEL ?? new URL('../models/claw-nano', import.meta.url).pathname];
const PROMPT = 256;
const DECODE = 64;
const ROUNDS = 5;

async function seconds(work) {
  const started = performance.now();
  await work();
  return (performance.now() - started) / 1000;
}

/** Ids that never repeat between calls, so that no prompt is found in the prefix cache. */
function promptOf(vocab, length, salt) {
  return Int32Array.from({ length }, (_, i) => 3 + ((i * 7919 + salt * 104729 + 13) % Math.min(vocab - 3, 20000)));
}

async function measure(model, threads) {
  const policy = await openPolicy(model, { threads });
  const sampling = { temperature: 1, topP: 1, topK: 0, seed: 1, stop: [], stopIds: new Int32Array(0) };
  let salt = 0;
  const generate = (length, maxTokens) =>
    policy.generate(promptOf(policy.vocab, length, ++salt), { ...sampling, maxTokens, seed: salt }).result;
  const median = async (work) => {
    await work();
    const times = [];
    for (let i = 0; i < ROUNDS; i++) times.push(await seconds(work));
    return quantile(times, 0.5);
  };
  const prompt = await median(() => generate(PROMPT, 1));
  const one = await median(() => generate(8, DECODE));
  const eight = await median(() => Promise.all(Array.from({ length: 8 }, () => generate(8, DECODE))));
  const trainer = policy.trainer({ rank: 8, alpha: 16, seed: 1 });
  const batch = await trainer.prepare([promptOf(policy.vocab, 512, 0)]);
  const train = await median(async () => {
    await trainer.zeroGrad();
    await trainer.forwardBackward(batch, [{ from: 1, ce: 1 }]);
    await trainer.optimStep({ lr: 1e-6, beta1: 0.9, beta2: 0.98, eps: 1e-8, weightDecay: 0, maxGradNorm: 1 });
  });
  batch.dispose();
  trainer.dispose();
  await policy.close();
  const rate = (tokens, s) => Number((tokens / s).toFixed(1));
  return record(
    {
      bench: 'policy',
      shape: policy.name,
      dtype: 'f32',
      threads,
      promptTokensPerSecond: rate(PROMPT, prompt),
      decodeTokensPerSecond: rate(DECODE, one),
      decode8TokensPerSecond: rate(8 * DECODE, eight),
      trainTokensPerSecond: rate(512, train),
    },
    { save: flag('save') },
  );
}

for (const model of models)
  for (const threads of [1, 2]) {
    const row = await measure(model, threads);
    if (flag('json')) console.log(JSON.stringify(row));
    else
      console.log(
        `policy ${row.shape}, ${threads} thread(s): prompt ${row.promptTokensPerSecond} tok/s, decode ${row.decodeTokensPerSecond} (8 streams ${row.decode8TokensPerSecond}), LoRA training ${row.trainTokensPerSecond}`,
      );
  }
