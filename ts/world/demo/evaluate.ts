/** Held-out measure: first replies to tasks nobody talked about, over the same endpoint, as side turns (never trained). */
import { OpenClawError } from '../../record/index.js';
import { hashText } from '../random.js';
import type { ChatClient } from './client.js';
import type { Scene } from './scene.js';

export interface Measure {
  /** shares of the replies, 0..1 */ obeys: number;
  correct: number;
  /** obeys and is correct, in one reply */ both: number;
  replies: number;
}

/** people asking at the same time */
const ASKING = 16;

export async function evaluate(
  client: ChatClient,
  scene: Scene,
  seed: number,
  count: number,
  progress: (done: number) => void,
): Promise<Measure> {
  const tasks = scene.heldOut(count);
  const sum = { obeys: 0, correct: 0, both: 0, replies: 0 };
  let next = 0;
  async function ask(): Promise<void> {
    for (;;) {
      const i = next++;
      const task = tasks[i];
      if (!task) return;
      const reply = await client.ask([{ role: 'user', content: task.question }], {
        temperature: scene.temperature,
        maxTokens: scene.maxTokens,
        seed: hashText(`evaluate:${seed}:${i}`) & 0x7fffffff,
        side: true,
      });
      if (!reply) continue;
      const [obeys, correct] = [task.obeys(reply), task.correct(reply)];
      sum.replies++;
      sum.obeys += Number(obeys);
      sum.correct += Number(correct);
      sum.both += Number(obeys && correct);
      progress(sum.replies);
    }
  }
  await Promise.all(Array.from({ length: ASKING }, ask));
  // Nothing heard is not "obeys 0 %": there is no measure.
  if (sum.replies === 0)
    throw new OpenClawError('E_REMOTE', `no held-out reply came back; the last refusal: ${client.lastRefusal}`);
  const share = (n: number) => n / sum.replies;
  return { obeys: share(sum.obeys), correct: share(sum.correct), both: share(sum.both), replies: sum.replies };
}
