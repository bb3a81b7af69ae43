/** One session: a person brings a task, reads, complains or thanks, and leaves. At most three replies to the task itself. */
import { Random } from '../random.js';
import type { ChatClient, Said } from './client.js';
import type { Scene, Task } from './scene.js';

export const MAX_REPLIES = 3;
/** a reply to "thanks" needs no more; it is not judged */
const FAREWELL_TOKENS = 24;

export interface SessionResult {
  /** 1-based */ index: number;
  persona: string;
  firstReplyObeys: boolean;
  /** of the first reply */ correct: boolean;
  /** of the first reply; null when it was refused */ version: string | null;
  /** replies until the person had what they wanted; null: they gave up */ repliesNeeded: number | null;
  /** the first reply's words */ firstReply: string;
}

export async function runSession(
  client: ChatClient,
  scene: Scene,
  task: Task,
  seed: number,
  index: number,
): Promise<SessionResult> {
  const rng = new Random(`session:${seed}:${index}`);
  const talk: Said[] = [{ role: 'user', content: task.question }];
  const result: SessionResult = {
    index,
    persona: task.persona,
    firstReplyObeys: false,
    correct: false,
    version: null,
    repliesNeeded: null,
    firstReply: '',
  };
  const session = `demo-${seed}-${index}`;
  const options = { temperature: scene.temperature, session };
  for (let n = 1; n <= MAX_REPLIES; n++) {
    const reply = await client.ask(talk, { ...options, maxTokens: scene.maxTokens, seed: rng.int(0, 2 ** 31 - 1) });
    if (!reply) return result;
    if (n === 1) {
      result.firstReplyObeys = task.obeys(reply);
      result.correct = task.correct(reply);
      result.version = reply.version;
      result.firstReply = reply.text;
    }
    const said = task.react(reply, rng);
    talk.push({ role: 'assistant', content: reply.text }, { role: 'user', content: said.content });
    if (said.satisfied) {
      result.repliesNeeded = n;
      break;
    }
  }
  // The last words are the next state of the reply before them, so they are said, and then the person goes.
  await client.ask(talk, { ...options, maxTokens: FAREWELL_TOKENS, seed: rng.int(0, 2 ** 31 - 1), done: true });
  return result;
}
