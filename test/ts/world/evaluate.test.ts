/** The held-out measure with a made-up client: what is counted, and what is no measure at all. */
import { describe, expect, it } from 'vitest';
import { ChatClient, type Heard } from '../../../ts/world/demo/client.js';
import { evaluate } from '../../../ts/world/demo/evaluate.js';
import { everydayScene } from '../../../ts/world/demo/scene.js';

class Client extends ChatClient {
  constructor(private readonly answer: (n: number) => Heard | null) {
    super('http://127.0.0.1:1');
  }
  override async ask(): Promise<Heard | null> {
    const heard = this.answer(this.requests++);
    if (!heard) this.lastRefusal = 'HTTP 503: busy';
    return heard;
  }
}

const measure = (client: ChatClient, count: number) => evaluate(client, everydayScene(1), 1, count, () => {});
const said = (text: string, ended = true): Heard => ({ text, ended, tokens: 5, version: 'v' });

describe('evaluate', () => {
  it('gives shares of the replies that came, and how many came', async () => {
    const client = new Client((n) => (n % 4 === 3 ? null : said(n % 4 === 0 ? 'I do not know.' : 'cut', n % 4 === 0)));
    expect(await measure(client, 40)).toEqual({ obeys: 1 / 3, correct: 0, both: 0, replies: 30 });
  });

  it('is an error where nothing came back, not a share of 0', async () => {
    await expect(measure(new Client(() => null), 5)).rejects.toThrow(
      expect.objectContaining({ code: 'E_REMOTE', message: expect.stringContaining('HTTP 503') }),
    );
  });
});
