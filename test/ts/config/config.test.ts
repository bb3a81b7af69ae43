import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { hashedKeys, loadConfig, type PartialConfig, parseConfig } from '../../../ts/config.js';

const folder = mkdtempSync(join(tmpdir(), 'openclaw-rl-config-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (content: string): string => {
  const path = join(folder, `${Math.random()}.json`);
  writeFileSync(path, content);
  return path;
};
const problem = (input: unknown): { code?: string; argument?: string; message?: string } => {
  try {
    parseConfig(input as PartialConfig);
  } catch (error) {
    return error as { code: string; argument: string; message: string };
  }
  return {};
};

describe('parseConfig', () => {
  it('has a default for everything, on loopback', () => {
    const config = parseConfig();
    expect(config).toMatchObject({
      model: 'claw-nano',
      port: 30_000,
      host: '127.0.0.1',
      apiKeys: [],
      judge: { kind: 'rules', maxHints: 3 },
    });
    expect(config.train.method).toBe('hybrid');
    expect(config.limits.ingest.credit).toBe(256);
  });

  it.each([
    [{ port: 70_000 }, 'port'],
    [{ port: '80' }, 'port'],
    [{ train: { lr: -1 } }, 'train.lr'],
    [{ train: { method: 'magic' } }, 'train.method'],
    [{ judge: { kind: 'llm', model: 'm' } }, 'judge.baseUrl'],
    [{ judge: { kind: 'llm', model: 'm', baseUrl: 'nowhere' } }, 'judge.baseUrl'],
    [{ limits: { ingest: { credit: 0 } } }, 'limits.ingest.credit'],
    [{ apiKeys: ['short'] }, 'apiKeys.0'],
    [{ prot: 1 }, 'prot'],
    [{ train: { learningRate: 1 } }, 'train.learningRate'],
    [{ limits: { ingest: { credits: 9 } } }, 'limits.ingest.credits'],
    [{ judge: { kind: 'rules', baseUrl: 'http://127.0.0.1/v1' } }, 'judge.baseUrl'],
  ])('refuses %j by the name of the key', (input, key) => {
    expect(problem(input)).toMatchObject({ code: 'E_CONFIG', argument: key });
  });

  it.each([
    [{ host: '0.0.0.0' }, 'apiKeys'],
    [{ train: { method: 'rl', wRl: 0 } }, 'train.wRl'],
    [{ train: { method: 'opd', wOpd: 0 } }, 'train.wOpd'],
    [{ train: { method: 'hybrid', wRl: 0, wOpd: 0 } }, 'train.wOpd'],
    [
      {
        apiKeys: [
          { name: 'a', key: 'first-key' },
          { name: 'a', key: 'second-key' },
        ],
      },
      'apiKeys',
    ],
  ])('refuses pairs that do not go together: %j', (input, key) => {
    expect(problem(input)).toMatchObject({ code: 'E_CONFIG', argument: key });
  });

  it('lets another address pass with a key', () => {
    expect(parseConfig({ host: '0.0.0.0', apiKeys: ['a-long-key'] }).host).toBe('0.0.0.0');
  });
});

describe('loadConfig', () => {
  it('layers: defaults, file, environment, caller; key by key', () => {
    const path = file(JSON.stringify({ port: 1, host: 'localhost', train: { lr: 0.1, batchTurns: 3 } }));
    const env = { OPENCLAW_RL_CONFIG: path, OPENCLAW_RL_PORT: '2', OPENCLAW_RL_METHOD: 'rl', OPENCLAW_RL_THREADS: '' };
    const config = loadConfig({ train: { lr: 0.2 } }, { env });
    expect(config).toMatchObject({ port: 2, host: 'localhost', threads: null });
    expect(config.train).toMatchObject({ lr: 0.2, batchTurns: 3, method: 'rl' });
  });

  it('what a command prefers lies under everything that is said', () => {
    const under = { train: { lr: 0.5, epochs: 2 }, log: { level: 'warn' as const } };
    const config = loadConfig({}, { env: {}, file: file('{"train": {"lr": 0.1}}'), under });
    expect(config.train).toMatchObject({ lr: 0.1, epochs: 2 });
    expect(config.log.level).toBe('warn');
  });

  it('says which file, which variable, which key is wrong', () => {
    expect(() => loadConfig({}, { env: {}, file: join(folder, 'none.json') })).toThrow(/none\.json cannot be read/);
    expect(() => loadConfig({}, { env: {}, file: file('[1]') })).toThrow(/JSON object/);
    expect(() => loadConfig({}, { env: { OPENCLAW_RL_PORT: 'many' } })).toThrow(/port/);
  });

  it('keeps digests of keys, not keys', () => {
    const env = { OPENCLAW_RL_API_KEYS: 'first-key-1, second-key-2' };
    const keys = hashedKeys(loadConfig({}, { env }));
    expect(keys).toHaveLength(2);
    expect(JSON.stringify(keys)).not.toContain('first-key');
    expect(keys[0]).toMatchObject({
      name: expect.stringMatching(/^key-[0-9a-f]{8}$/),
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });
});
