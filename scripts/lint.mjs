// biome over TypeScript and JavaScript, clang-format over C++, tsc over everything: no finding is allowed.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

const sources = ['native', 'test/native', 'bench'].flatMap((folder) =>
  readdirSync(folder, { recursive: true })
    .filter((f) => /\.(h|cc|cu|cuh)$/.test(f))
    .map((f) => join(folder, f)),
);
const checks = [
  ['biome', ['node_modules/@biomejs/biome/bin/biome', 'ci', '--error-on-warnings', '.']],
  ['clang-format', ['node_modules/clang-format/index.js', '--dry-run', '--Werror', ...sources]],
  ['tsc', ['node_modules/typescript/bin/tsc', '--noEmit', '-p', '.']],
  ['tsc of the page', ['node_modules/typescript/bin/tsc', '--noEmit', '-p', 'ts/watch/page']],
];
let failed = 0;
for (const [name, args] of checks) {
  const result = spawnSync(process.execPath, args, { stdio: 'inherit' });
  console.log(`${name}: ${result.status === 0 ? 'ok' : 'FAILED'}`);
  if (result.status !== 0) failed++;
}
process.exit(failed ? 1 : 0);
