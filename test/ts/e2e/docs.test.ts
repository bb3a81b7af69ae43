/** The pages against the code: every route, key, default, variable, refusal, event and metric is there, and every link leads somewhere. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../../ts/config.js';
import { REFUSALS } from '../../../ts/record/index.js';
import { OPERATIONS } from '../../../ts/serve/index.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const api = read('docs/api.md');
const operations = read('docs/operations.md');

/** Of the list, what the page has no table row or code span for. */
const missing = (page: string, names: readonly string[]): string[] =>
  names.filter((name) => !page.includes(`\`${name}\``));

function* leaves(value: unknown, path: string[] = []): Generator<[key: string, value: unknown]> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) yield [path.join('.'), value];
  else for (const [key, inner] of Object.entries(value)) yield* leaves(inner, [...path, key]);
}

/** `literal` names in a source file. */
const named = (file: string, pattern: RegExp): string[] => [
  ...new Set([...read(file).matchAll(pattern)].map((match) => match[1]!)),
];

describe('docs/api.md', () => {
  it('has every route', () => {
    expect(missing(api, Object.keys(OPERATIONS))).toEqual([]);
  });

  it('has every key of the configuration with its default, and no other', () => {
    const section = api.slice(api.indexOf('## Configuration'));
    const rows = [...section.matchAll(/^\| `([\w.]+)` \| `(.+?)` \|/gm)].filter(([, key]) => !/^OPENCLAW/.test(key!));
    const keys = [...leaves(parseConfig({}))].map(([key, value]) => `${key} ${JSON.stringify(value)}`);
    expect(rows.map(([, key, value]) => `${key} ${value}`)).toEqual(keys);
  });

  it('has every variable', () => {
    expect(missing(api, named('ts/config.ts', /'(OPENCLAW_RL_\w+)'/g))).toEqual([]);
  });

  it('has every event', () => {
    expect(missing(api, named('ts/record/events.ts', /type: '([\w.]+)'/g))).toEqual([]);
  });

  it('has every frame of the ingest protocol', () => {
    expect(missing(api, named('ts/serve/ingest/frames.ts', /z\.literal\('([\w.]+)'\)/g))).toEqual([]);
  });

  it('has every code and header of a reply', () => {
    const codes = named('ts/serve/http/errors.ts', /\[\d+, '(\w+)'\]/g);
    expect(codes.length).toBeGreaterThan(4);
    expect(missing(api, codes)).toEqual([]);
    expect(missing(api, named('ts/serve/chat/door.ts', /'(x-openclaw-rl-\w+)'/g))).toEqual([]);
  });
});

describe('docs/operations.md', () => {
  it('has every refusal', () => {
    expect(missing(operations, REFUSALS)).toEqual([]);
  });

  it('has every metric', () => {
    const names = named('ts/watch/metrics.ts', /`\$\{PREFIX\}(\w+)`/g);
    expect(names.length).toBeGreaterThan(6);
    expect(names.filter((name) => !operations.includes(`openclaw_rl_${name}`))).toEqual([]);
  });
});

describe('links between pages', () => {
  const pages = [
    'README.md',
    'AGENTS.md',
    ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.md'))
      .map((file) => join('docs', file)),
  ];

  it.each(pages)('%s', (page) => {
    const targets = [...read(page).matchAll(/\]\(([^)#\s]+)(?:#[\w-]+)?\)/g)].map((link) => link[1]!);
    const local = targets.filter((target) => !/^\w+:/.test(target));
    expect(local.filter((target) => !existsSync(join(ROOT, dirname(page), target)))).toEqual([]);
  });

  it('the decisions are all in their index', () => {
    const index = read('docs/decisions/README.md');
    const files = readdirSync(join(ROOT, 'docs/decisions')).filter((file) => file !== 'README.md');
    expect(files.filter((file) => !index.includes(`(${file})`))).toEqual([]);
  });
});
