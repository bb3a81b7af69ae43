// Makes a clone ready for a command: packages, the native binary, dist/. Uses node built-ins only, does nothing twice, and says
// what it does and how long it took. Called by the npm scripts: `node scripts/setup.mjs <what for>`.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const purpose = process.argv[2] ?? 'build';
process.chdir(root);

/** steps in progress */
const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => stop(`set-up ended by ${signal}`));

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20) stop(`Node 20 or newer is needed, this is ${process.version}`);

/** Ends set-up, and with it the steps that run side by side: a build that goes on unseen would meet the next try's. */
function stop(message) {
  for (const child of running) end(child.pid);
  process.stderr.write(`openclaw-rl: ${message}\n`);
  process.exit(1);
}

/** Ends a step and what it started; one that is over already needs no ending. */
function end(pid) {
  try {
    process.kill(process.platform === 'win32' ? pid : -pid);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

/** Runs a command; its output is shown only when it fails. */
function run(title, command, args) {
  const started = Date.now();
  return new Promise((resolve) => {
    // a group of its own, so that what it starts ends with it
    const child = spawn(command, args, {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: process.platform !== 'win32',
    });
    if (child.pid) running.add(child);
    let output = '';
    child.stdout.on('data', (d) => {
      output += d;
    });
    child.stderr.on('data', (d) => {
      output += d;
    });
    child.on('error', (e) => stop(`${title}: ${e.message}`));
    child.on('close', (code) => {
      running.delete(child);
      if (code !== 0) {
        process.stderr.write(output);
        stop(`${title} failed (exit code ${code})`);
      }
      process.stdout.write(`  ${title}: ${((Date.now() - started) / 1000).toFixed(1)} s\n`);
      resolve(output);
    });
  });
}

/** Every file under the folders, sorted. */
function filesUnder(...paths) {
  return paths
    .filter((p) => existsSync(p))
    .flatMap((p) =>
      statSync(p).isDirectory()
        ? readdirSync(p, { recursive: true, withFileTypes: true })
            .filter((e) => e.isFile())
            .map((e) => join(e.parentPath ?? e.path, e.name))
        : [p],
    )
    .sort();
}

/** Digest of names and contents: a stamp that changes exactly when an input changes. */
function digest(files, extra = '') {
  const hash = createHash('sha256').update(extra);
  for (const file of files) hash.update(file).update('\0').update(readFileSync(file));
  return hash.digest('hex');
}

const stampFile = (name) => join('node_modules', '.cache', 'openclaw-rl', name);
const isFresh = (name, value) => existsSync(stampFile(name)) && readFileSync(stampFile(name), 'utf8') === value;
function stamp(name, value) {
  mkdirSync(dirname(stampFile(name)), { recursive: true });
  writeFileSync(stampFile(name), value);
}

async function packages() {
  const value = digest(['package.json', 'package-lock.json'], process.version);
  if (isFresh('packages', value)) return;
  // Install scripts are not needed: what must be compiled is compiled below, side by side.
  await run('npm packages', 'npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund']);
  stamp('packages', value);
}

/** The headers that came with this Node, when they did and are of its version: then nothing has to be fetched to compile. */
function ownHeaders() {
  const prefix = dirname(dirname(process.execPath));
  const header = join(prefix, 'include', 'node', 'node_version.h');
  if (process.env.npm_config_nodedir || !existsSync(header)) return [];
  const text = readFileSync(header, 'utf8');
  const version = ['MAJOR', 'MINOR', 'PATCH'].map((part) => text.match(`#define NODE_${part}_VERSION (\\d+)`)?.[1]);
  return version.join('.') === process.versions.node ? [`--nodedir=${prefix}`] : [];
}

async function sqlite() {
  const builtIn = major > 22 || (major === 22 && minor >= 13);
  if (builtIn || existsSync('node_modules/better-sqlite3/build/Release/better_sqlite3.node')) return;
  await run('SQLite driver (Node has none built in before 22.13)', 'npm', [
    'rebuild',
    'better-sqlite3',
    '--foreground-scripts',
    ...ownHeaders(),
  ]);
}

async function addon() {
  const value = digest(filesUnder('native', 'binding.gyp'), process.arch);
  if (existsSync('build/Release/openclaw_rl.node') && isFresh('addon', value)) return;
  const again = existsSync('build/Makefile') || existsSync('build/openclaw_rl.sln');
  const gyp = join('node_modules', 'node-gyp', 'bin', 'node-gyp.js');
  await run('native binary', process.execPath, [
    gyp,
    again ? 'configure' : 'rebuild',
    '-j',
    String(availableParallelism()),
    ...ownHeaders(),
  ]);
  if (again)
    await run('native binary, what changed', process.execPath, [gyp, 'build', '-j', String(availableParallelism())]);
  stamp('addon', value);
}

async function dist() {
  const sources = filesUnder('ts', 'tsconfig.json', 'lib').filter((f) => !f.startsWith(join('ts', 'watch', 'page')));
  const value = digest(sources);
  if (existsSync('dist/cli.js') && isFresh('dist', value)) return;
  await run('TypeScript', process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.']);
  stamp('dist', value);
}

async function page() {
  const value = digest(filesUnder('ts/watch/page'));
  if (existsSync('dist/page/index.html') && isFresh('page', value)) return;
  await run('page', process.execPath, [
    'node_modules/vite/bin/vite.js',
    'build',
    '--config',
    'ts/watch/page/vite.config.ts',
    '--logLevel',
    'warn',
  ]);
  stamp('page', value);
}

if (!existsSync('node_modules') || !existsSync('dist'))
  process.stdout.write(`Setting up for npm ${purpose} (the first time takes some minutes)\n`);
await packages();
if (purpose !== 'lint' && purpose !== 'docs') await Promise.all([sqlite(), addon(), dist().then(page)]);
