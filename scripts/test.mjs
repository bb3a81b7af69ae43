// Runs every test: the native ones under AddressSanitizer and UndefinedBehaviorSanitizer, then vitest. Prints the sum alone on the last line.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';

const only = process.argv.slice(2);
let passed = 0;
let failed = 0;

function call(command, args, options = {}) {
  return spawnSync(command, args, { stdio: 'inherit', ...options });
}

function nativeTests() {
  const build = 'build-native';
  const configured = call(
    'cmake',
    [
      '-S',
      '.',
      '-B',
      build,
      '-DSANITIZE=ON',
      '-DNATIVE_TESTS=ON',
      '-DADDON=OFF',
      '-DCMAKE_BUILD_TYPE=RelWithDebInfo',
      '--log-level=WARNING',
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  const built =
    configured.status === 0 &&
    call('cmake', ['--build', build, '-j', String(availableParallelism()), '--', '--quiet', '--no-print-directory'], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  if (built === false || built.status !== 0) {
    console.log('native tests: the build failed');
    failed++;
    return;
  }
  const folder = existsSync(join(build, 'tests')) ? join(build, 'tests') : build;
  for (const name of readdirSync(folder)
    .filter((f) => f.startsWith('test_') && !f.includes('.'))
    .sort()) {
    const result = spawnSync(join(folder, name), { encoding: 'utf8', timeout: 600_000 });
    const output = `${result.stdout ?? ''}${result.stderr ?? ''}`;
    const counts = output.match(/(\d+) passed, (\d+) failed/);
    const ok = result.status === 0 && counts && counts[2] === '0';
    passed += counts ? Number(counts[1]) : 0;
    failed += ok ? 0 : Math.max(1, counts ? Number(counts[2]) : 1);
    console.log(
      `${ok ? 'ok  ' : 'FAIL'} ${basename(name)}: ${counts ? counts[0] : `exit ${result.status ?? result.signal}`}`,
    );
    if (!ok) console.log(output);
  }
}

function vitest() {
  mkdirSync('node_modules/.cache/openclaw-rl', { recursive: true });
  const report = 'node_modules/.cache/openclaw-rl/vitest.json';
  const result = call(process.execPath, [
    'node_modules/vitest/vitest.mjs',
    'run',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
    ...only,
  ]);
  const json = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : { numPassedTests: 0, numFailedTests: 1 };
  passed += json.numPassedTests;
  failed += json.numFailedTests;
  if (result.status !== 0 && json.numFailedTests === 0) failed++;
}

if (only.length === 0) nativeTests();
vitest();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
