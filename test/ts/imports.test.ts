/** The import rule, read from the import lines: who may know whom, in ts/ and in native/. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix, relative, sep } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..');

function filesUnder(folder: string, ending: RegExp): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && ending.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort();
}

interface Import {
  file: string;
  /** path from the root for our own files, else the package's name */ target: string;
  typeOnly: boolean;
}

const STATEMENT = /(?:^|\n)\s*(import|export)\s+(type\s+)?(?:[\w*{}\s,$]+?\s+from\s+)?['"]([^'"]+)['"]/g;
const DYNAMIC = /\b(?:import|require)\(\s*['"]([^'"]+)['"]\s*\)/g;

function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), 'utf8');
  const targetOf = (specifier: string) =>
    specifier.startsWith('.') ? posix.normalize(posix.join(posix.dirname(file), specifier)) : specifier;
  const fixed = [...text.matchAll(STATEMENT)].map((m) => ({
    file,
    target: targetOf(m[3]!),
    typeOnly: m[2] !== undefined,
  }));
  const dynamic = [...text.matchAll(DYNAMIC)].map((m) => ({ file, target: targetOf(m[1]!), typeOnly: false }));
  return [...fixed, ...dynamic];
}

/** "ts/serve/http/keys.ts" → "serve"; files directly in ts/ and the commands join stations and are none themselves. */
const JOINERS = new Set(['commands']);
function stationOf(path: string): string | null {
  const [top, station, ...rest] = path.split('/');
  return top === 'ts' && rest.length > 0 && !JOINERS.has(station!) ? station! : null;
}

const sources = filesUnder('ts', /\.tsx?$/).filter((file) => !file.startsWith('ts/watch/page/'));
const imports = sources.flatMap(importsOf);
const ours = imports.filter((i) => /^(ts|lib)\//.test(i.target));
const words = (list: Import[]) => list.map((i) => `${i.file} → ${i.target}`);

describe('ts/', () => {
  it('is read at all', () => {
    expect(sources.length).toBeGreaterThan(50);
    expect(words(imports)).toContain('ts/serve/index.ts → ts/serve/app.js');
    expect(importsOf('ts/cli.ts').map((i) => i.target)).toContain('ts/commands/serve.js');
  });

  it('a command is known to the command line alone', () => {
    const toCommands = ours.filter((i) => i.target.startsWith('ts/commands/') && !i.file.startsWith('ts/commands/'));
    expect(new Set(toCommands.map((i) => i.file))).toEqual(new Set(['ts/cli.ts']));
  });

  it('record imports nothing of ours outside itself', () => {
    const wrong = ours.filter((i) => stationOf(i.file) === 'record' && stationOf(i.target) !== 'record');
    expect(words(wrong)).toEqual([]);
  });

  it('a station imports record and itself, never another station, nor what joins them', () => {
    const wrong = ours.filter((i) => {
      const from = stationOf(i.file);
      const to = i.target.startsWith('lib/') ? from : stationOf(i.target);
      return from !== null && to !== from && to !== 'record';
    });
    expect(words(wrong)).toEqual([]);
  });

  it('only kernels and the native policy load the binary; the rest of the policy knows its types', () => {
    const wrong = imports.filter(
      (i) =>
        i.target.startsWith('lib/') &&
        !/^ts\/(kernels\/|policy\/native)/.test(i.file) &&
        !(i.typeOnly && i.file.startsWith('ts/policy/')),
    );
    expect(words(wrong)).toEqual([]);
  });

  it.each([
    ['SQL drivers', /^(kysely|better-sqlite3|node:sqlite|pg)$/, 'ts/ledger/'],
    ['HTTP and WebSocket servers', /^(hono|@hono\/|ws$)/, 'ts/serve/'],
    ['the tokenizer and template engines', /^@huggingface\//, 'ts/policy/'],
  ])('%s are in one place', (_, name, place) => {
    const wrong = imports.filter((i) => name.test(i.target) && !i.file.startsWith(place));
    expect(words(wrong)).toEqual([]);
  });

  it('only config.ts reads the environment', () => {
    const readers = sources.filter((file) =>
      /process\.env|process\[['"]env/.test(readFileSync(join(root, file), 'utf8')),
    );
    expect(readers).toEqual(['ts/config.ts']);
  });

  it('the page imports its own folder and its two packages', () => {
    const page = filesUnder('ts/watch/page/src', /\.tsx?$/).flatMap(importsOf);
    const wrong = page.filter((i) => !i.target.startsWith('ts/watch/page/') && !/^(preact|uplot)(\/|$)/.test(i.target));
    expect(words(wrong)).toEqual([]);
  });
});

describe('native/', () => {
  const LAYERS = ['base', 'kernels', 'model', 'addon'];
  const INCLUDE = /^\s*#include\s+"([^"]+)"/gm;
  const includes = filesUnder('native', /\.(h|cc|cu|cuh)$/).flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(INCLUDE)].map((m) => ({
      file,
      target: m[1]!.startsWith('native/') ? m[1]! : posix.join(dirname(file), m[1]!),
    })),
  );
  const layer = (path: string) => LAYERS.indexOf(path.split('/')[1]!);

  it('a layer includes itself and the layers below', () => {
    expect(includes.length).toBeGreaterThan(50);
    const wrong = includes.filter(({ file, target }) => target.startsWith('native/') && layer(target) > layer(file));
    expect(wrong).toEqual([]);
  });

  it('only the addon knows N-API', () => {
    const napi = filesUnder('native', /\.(h|cc|cu|cuh)$/).filter((file) =>
      /#include\s+[<"](napi|node_api)/.test(readFileSync(join(root, file), 'utf8')),
    );
    expect(napi.filter((file) => !file.startsWith('native/addon/'))).toEqual([]);
  });
});
