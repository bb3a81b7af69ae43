/**
 * A process to be killed: commits turns, has them observed, judged and trained, and prints one line for each thing the
 * ledger acknowledged. Arguments: data folder, round. What it prints is what must be there afterwards.
 */
import { writeSync } from 'node:fs';
import { openLedger } from '../../../dist/ledger/index.js';

const [folder, round] = process.argv.slice(2);
const ledger = await openLedger({ folder });
const say = (...words) => writeSync(1, `${words.join(' ')}\n`);

const turn = (id) => ({
  id,
  sessionId: `session-${round}`,
  userId: 'ann',
  index: 0,
  kind: 'main',
  requestId: id,
  version: 'claw@0-00000000',
  promptIds: Int32Array.from({ length: 200 }, (_, i) => i),
  responseIds: Int32Array.of(1, 2),
  logprobs: Float32Array.of(-1, -2),
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 8, seed: 1, stop: [] },
  messages: [{ role: 'user', content: `words of ${id}` }],
  tools: [],
  text: `reply of ${id}`,
  toolCalls: [],
  finish: 'stop',
  servedAt: Date.now(),
});

async function live(id) {
  await ledger.commitTurn(turn(id));
  say('served', id);
  await ledger.observe({ turnId: id, items: [{ role: 'user', text: 'ok' }], arrivedAt: Date.now() });
  await ledger.recordVerdict(id, { reward: 1, status: 'scored', votes: [], hints: [], vetoes: [] });
  say('judged', id);
}

async function train() {
  const claimed = (await ledger.claimJudged(4)).map((item) => item.turn.id);
  const number = await ledger.nextUpdateNumber();
  const version = `claw@${number}-${String(number).padStart(8, '0')}`;
  const parent = (await ledger.liveUpdate())?.version ?? null;
  const update = { id: `update-${number}`, version, parent, method: 'rl', turnIds: claimed, metrics: {}, probes: {} };
  await ledger.commitUpdate(
    { ...update, state: 'live', folder: null, createdAt: Date.now() },
    { trained: claimed, refused: [] },
  );
  for (const id of claimed) say('trained', id, version);
}

for (let n = 0; ; n++) {
  await Promise.all([0, 1, 2, 3].map((k) => live(`turn-${round}-${n}-${k}`)));
  await train();
}
