/**
 * The door to the native binary: finds it, loads it at first use, and says which one it is and why.
 *
 * Plain JavaScript, so that it runs from the package as it lies, before and without any build of the TypeScript. The order is
 * node-gyp-build's: the folder named by OPENCLAW_RL_PREBUILD instead of the package's own, in it build/Release, build/Debug, then the
 * prebuilt binaries for this platform, architecture and C library. Unlike node-gyp-build, a file that the system cannot load (built
 * for another machine, or damaged) is passed over with its reason and the next one is tried.
 */
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const nodeGypBuild = require('node-gyp-build');
const packageFolder = dirname(dirname(fileURLToPath(import.meta.url)));

/** @type {{exports: object, report: import('./index.d.ts').BinaryReport} | undefined} */
let loaded;

/** What was loaded; loads it if need be. */
export function report() {
  return load().report;
}

/** The raw binary. Reading a property loads it; without a binary that throws E_NO_BINARY, and importing this file does not. */
export const binary = new Proxy(
  {},
  {
    get: (_, key) => load().exports[key],
    has: (_, key) => key in load().exports,
    ownKeys: () => Reflect.ownKeys(load().exports),
    getOwnPropertyDescriptor: (_, key) => {
      const descriptor = Object.getOwnPropertyDescriptor(load().exports, key);
      return descriptor && { ...descriptor, configurable: true };
    },
    set: () => false,
  },
);

function load() {
  loaded ??= loadFirst(candidates());
  return loaded;
}

/** Every file that could be the binary, in the order in which they are tried: {path, source}. */
function candidates() {
  const override = process.env.OPENCLAW_RL_PREBUILD;
  const folder = override || packageFolder;
  const found = [];
  for (const kind of ['Release', 'Debug']) {
    for (const file of filesIn(join(folder, 'build', kind))) {
      if (file.endsWith('.node')) found.push(join(folder, 'build', kind, file));
    }
  }
  found.push(...prebuilds(folder));
  return found.map((path) => ({ path, source: sourceOf(path, folder, override) }));
}

/** Prebuilt binaries that fit this machine, the most specific first; the tags in their names are node-gyp-build's. */
function prebuilds(folder) {
  const tuple = filesIn(join(folder, 'prebuilds'))
    .map(nodeGypBuild.parseTuple)
    .filter(nodeGypBuild.matchTuple(platform(), arch()))
    .sort(nodeGypBuild.compareTuples)[0];
  if (!tuple) return [];
  return filesIn(join(folder, 'prebuilds', tuple.name))
    .map(nodeGypBuild.parseTags)
    .filter(nodeGypBuild.matchTags('node', process.versions.modules))
    .sort(nodeGypBuild.compareTags('node'))
    .map((tags) => join(folder, 'prebuilds', tuple.name, tags.file));
}

function sourceOf(path, folder, override) {
  const inside = relative(folder, dirname(path)).split(sep).join('/');
  return override ? `${inside} in OPENCLAW_RL_PREBUILD` : inside;
}

function filesIn(folder) {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

function loadFirst(list) {
  const passedOver = [];
  for (const { path, source } of list) {
    let exports;
    try {
      exports = require(path);
    } catch (error) {
      passedOver.push({ path, why: error instanceof Error ? error.message : String(error) });
      continue;
    }
    return { exports, report: describe(exports, path, source, passedOver) };
  }
  throw noBinary(passedOver);
}

function describe(exports, path, source, passedOver) {
  return {
    path,
    source,
    isa: exports.isa(),
    napi: Number(process.versions.napi),
    node: process.version,
    passedOver,
  };
}

function noBinary(passedOver) {
  const looked = process.env.OPENCLAW_RL_PREBUILD || packageFolder;
  const tried = passedOver.map(({ path, why }) => `\n  ${path}: ${why}`).join('');
  const reason = tried
    ? `none of the native binaries could be loaded:${tried}`
    : `no native binary for ${platform()}-${arch()} in ${looked} (build/Release, build/Debug, prebuilds/${platform()}-${arch()})`;
  const error = new Error(
    `${reason}\nBuild it: \`npx node-gyp rebuild\` in ${packageFolder}, or \`npm rebuild openclaw-rl\` in the project that installed it. ` +
      'A C++20 compiler, make and Python 3 are needed for that.',
  );
  return Object.assign(error, { name: 'OpenClawError', code: 'E_NO_BINARY' });
}
