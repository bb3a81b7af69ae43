/** Learning is real: the native trainer moves the weights, publishing changes replies, and who was served before keeps what they had. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NativePolicy } from '../../../ts/policy/index.js';
import { memorise, randomModel } from './tiny-model.js';

const SAID = [
  { role: 'user' as const, content: 'Where does the river rise?' },
  { role: 'assistant' as const, content: 'In the hills, ninety miles from the sea.' },
];
const greedy = { temperature: 0, topP: 1, topK: 0, maxTokens: 64, seed: 1, stop: [] };
const long = { temperature: 1, topP: 1, topK: 0, maxTokens: 3000, seed: 5, stop: [], stopIds: new Int32Array() };

let policy: NativePolicy;
beforeAll(async () => {
  policy = await randomModel(11);
});
afterAll(() => policy.close());

describe('a tiny model of random weights', () => {
  it('learns a reply by heart, says it after publishing, and requests under way keep their version', async () => {
    const base = policy.live();
    const prompt = policy.renderChat(SAID.slice(0, 1));
    const whole = policy.renderChat(SAID, { addGenerationPrompt: false });
    const before = await policy.generate(prompt, greedy).result;
    expect(before.text).not.toContain('ninety');
    const alone = await policy.generate(prompt, long).result;

    const learned = await memorise(policy, [whole], 60);
    expect(policy.live()).toBe(base);
    const underWay = policy.generate(prompt, long);
    await underWay[Symbol.asyncIterator]().next();
    await learned.publish('tiny@1-00000001');
    expect(policy.stats().inFlight).toBe(1);
    const after = await policy.generate(prompt, greedy).result;
    const old = await underWay.result;
    const { losses } = learned;
    learned.dispose();

    // log(V) at the start, near nothing at the end
    expect(losses[0]!).toBeGreaterThan(0.8 * Math.log(policy.vocab));
    expect(losses.at(-1)!).toBeLessThan(0.1);
    expect(policy.live()).toBe('tiny@1-00000001');
    expect(after.version).toBe('tiny@1-00000001');
    expect(after.text).toBe(SAID[1]!.content);
    expect(after.finish).toBe('stop');
    expect(old.version).toBe(base);
    // The same weights to the last token: it says what it says when nothing is published meanwhile.
    expect(commonPrefix(old.ids, alone.ids)).toBe(alone.ids.length);
    expect(largestGap(old.logprobs, alone.logprobs)).toBeLessThan(1e-3);
  });

  it('still has its first weights under the name base', async () => {
    const whole = policy.renderChat(SAID, { addGenerationPrompt: false });
    const mean = async (version: string) => {
      const { logprobs } = await policy.score(whole, { version });
      return logprobs.reduce((a, b) => a + b, 0) / logprobs.length;
    };
    expect(await mean('base')).toBeLessThan(-0.8 * Math.log(policy.vocab));
    expect(await mean('live')).toBeGreaterThan(-0.1);
  });
});

function commonPrefix(a: Int32Array, b: Int32Array): number {
  const at = a.findIndex((id, i) => id !== b[i]);
  return at < 0 ? a.length : at;
}

function largestGap(a: Float32Array, b: Float32Array): number {
  return a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i]!)), 0);
}
