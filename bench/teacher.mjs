// What is there to learn? Asks the everyday scene's held-out questions without and with the hint, and prints what share of the
// replies obeys, is right, and does both. With an adapter: what a trained policy does without the hint.
//   node bench/teacher.mjs --model FILE [--adapter FOLDER] [--replies 8] [--seed 1]
import { parseArgs } from 'node:util';
import { openPolicy } from '../dist/index.js';
import { everydayScene } from '../dist/world/demo/scene.js';
import { HELD_OUT_QUESTIONS } from '../dist/world/everyday.js';

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    adapter: { type: 'string' },
    replies: { type: 'string', default: '8' },
    seed: { type: 'string', default: '1' },
  },
});
if (!values.model) throw new Error('--model FOLDER|FILE.gguf is needed');
const [replies, seed] = [Number(values.replies), Number(values.seed)];
const { temperature, maxTokens, heldOut } = everydayScene(seed);
const tasks = heldOut(HELD_OUT_QUESTIONS.length);
const policy = await openPolicy(values.model, values.adapter ? { adapter: values.adapter } : {});

/** [obeys, right, both] of each reply to one question */
async function ask(task, question, hint) {
  const ids = policy.renderChat([{ role: 'user', content: hint ? `${task.question}\n\n${hint}` : task.question }]);
  const sampled = Array.from({ length: replies }, (_, i) => {
    const own = ((seed * 1000 + question) * 1000 + i) * 2 + (hint ? 1 : 0);
    return policy.generate(ids, { temperature, maxTokens, seed: own }).result;
  });
  return (await Promise.all(sampled)).map((r) => {
    const shown = { text: r.text, ended: r.finish === 'stop', tokens: r.ids.length };
    const [obeys, right] = [task.obeys(shown), task.correct(shown)];
    return [obeys, right, obeys && right].map(Number);
  });
}

console.log('| hint | obeys / right / both | replies |\n|---|---|---|');
for (const hint of ['', 'Answer in one short sentence.']) {
  const all = [];
  for (const [n, task] of tasks.entries()) all.push(...(await ask(task, n, hint)));
  const shares = [0, 1, 2].map((c) => (all.reduce((sum, row) => sum + row[c], 0) / all.length).toFixed(2));
  console.log(`| ${hint || 'none'} | ${shares.join(' / ')} | ${all.length} |`);
}
await policy.close();
