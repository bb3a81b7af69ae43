import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createPolicy, openPolicy, trainBpe } from '../../../ts/policy/index.js';
import { makeModel } from '../../../ts/world/make-model.js';

const place = mkdtempSync(join(tmpdir(), 'openclaw-rl-make-'));
afterAll(() => rmSync(place, { recursive: true, force: true }));

const make = (name: string, seed: number) =>
  makeModel({
    out: join(place, name),
    seed,
    tokens: 6000,
    threads: 1,
    skillReplies: 8,
    tools: { trainBpe, createPolicy },
  });

describe('making a model', () => {
  it('writes a folder that opens and talks; the same seed writes the same weights, another seed others', async () => {
    const weights = (name: string) => readFileSync(join(place, name, 'model.safetensors'));
    const [a] = [await make('a', 5), await make('b', 5), await make('c', 6)];
    expect(a.tokens).toBeGreaterThanOrEqual(6000);
    expect(weights('a').equals(weights('b'))).toBe(true);
    expect(weights('a').equals(weights('c'))).toBe(false);
    const policy = await openPolicy(join(place, 'a'));
    const ids = policy.renderChat([{ role: 'user', content: 'Hello' }]);
    const sampling = { temperature: 0.6, topP: 1, topK: 0, maxTokens: 4, seed: 1, stop: [] };
    const { result } = policy.generate(ids, sampling);
    expect((await result).ids.length).toBeGreaterThan(0);
    await policy.close();
  }, 120_000);
});
