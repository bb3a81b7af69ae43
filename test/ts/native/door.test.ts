/** lib/index.js: which binary it takes, what it says about it, and what it says when there is none. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { arch, platform, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { binary, report } from '../../../lib/index.js';

const door = new URL('../../../lib/index.js', import.meta.url).href;
const types = readFileSync(new URL('../../../lib/index.d.ts', import.meta.url), 'utf8');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'door-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** What a fresh process with the binary's folder set elsewhere prints. */
function elsewhere(script: string): string {
  const env = { ...process.env, OPENCLAW_RL_PREBUILD: folder };
  const code = `import * as door from ${JSON.stringify(door)}; ${script}`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    env,
    encoding: 'utf8',
  });
  return (stdout + stderr).trim();
}

function put(path: string, content: 'binary' | 'rubbish'): void {
  const file = join(folder, path);
  mkdirSync(join(file, '..'), { recursive: true });
  if (content === 'binary') copyFileSync(report().path, file);
  else writeFileSync(file, 'rubbish');
}

const say = 'const { path, source, passedOver } = door.report(); console.log(source, passedOver.length);';
const tuple = `${platform()}-${arch()}`;

it('exports what its types promise, and nothing else', () => {
  const body = types.slice(types.indexOf('export interface NativeBinary'));
  const declared = [...body.slice(0, body.indexOf('\n}')).matchAll(/^ {2}(\w+)[(:]/gm)].map((match) => match[1]);
  expect(Object.keys(binary).sort()).toEqual(declared.sort());
  expect('openPolicy' in binary).toBe(true);
  expect((binary as unknown as Record<string, unknown>).nothing).toBeUndefined();
});

it('says what it loaded', () => {
  const said = report();
  expect(said.path).toMatch(/\.node$/);
  expect(['v2', 'v3', 'v4', 'neon']).toContain(said.isa);
  expect(said).toMatchObject({ node: process.version, napi: Number(process.versions.napi) });
});

it('prefers build/Release, then build/Debug, then a prebuilt binary that fits', () => {
  put(`prebuilds/${tuple}/openclaw-rl.node`, 'binary');
  put('prebuilds/plan9-mips/openclaw-rl.node', 'rubbish');
  expect(elsewhere(say)).toBe(`prebuilds/${tuple} in OPENCLAW_RL_PREBUILD 0`);
  put('build/Debug/openclaw_rl.node', 'binary');
  expect(elsewhere(say)).toBe('build/Debug in OPENCLAW_RL_PREBUILD 0');
  put('build/Release/openclaw_rl.node', 'binary');
  expect(elsewhere(say)).toBe('build/Release in OPENCLAW_RL_PREBUILD 0');
});

it('passes over a file that cannot be loaded, with the reason', () => {
  put('build/Release/openclaw_rl.node', 'rubbish');
  put(`prebuilds/${tuple}/openclaw-rl.node`, 'binary');
  expect(elsewhere(say)).toBe(`prebuilds/${tuple} in OPENCLAW_RL_PREBUILD 1`);
  expect(elsewhere('console.log(door.report().passedOver[0].why);')).toMatch(/openclaw_rl\.node/);
});

it('says what to run when there is no binary, at first use and not at import', () => {
  const tried = (use: string) =>
    elsewhere(`console.log('imported'); try { ${use} } catch (e) { console.log(e.code, e.message); }`);
  for (const use of ['door.report()', 'door.binary.isa()', 'Object.keys(door.binary)']) {
    const said = tried(use);
    expect(said).toMatch(/^imported\nE_NO_BINARY no native binary for /);
    expect(said).toContain(tuple);
    expect(said).toContain('npx node-gyp rebuild');
  }
  put('build/Release/openclaw_rl.node', 'rubbish');
  expect(tried('door.report()')).toMatch(
    /E_NO_BINARY none of the native binaries could be loaded:\n.*openclaw_rl\.node/,
  );
});
