// npm run bench [-- kernels|policy|serve …] [--json] [--save]
// Runs the named benchmarks (all by default), each in a process of its own, and prints their rows.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const ALL = ['kernels', 'policy', 'serve'];
const names = process.argv.slice(2).filter((a) => !a.startsWith('-'));
const flags = process.argv.slice(2).filter((a) => a.startsWith('-'));
for (const name of names) {
  if (!existsSync(join(here, `${name}.mjs`))) {
    console.error(`bench: no benchmark "${name}"; there are ${ALL.join(', ')}`);
    process.exit(2);
  }
}
let failed = 0;
for (const name of names.length ? names : ALL) {
  const result = spawnSync(process.execPath, [join(here, `${name}.mjs`), ...flags], { stdio: 'inherit' });
  if (result.status !== 0) failed++;
}
process.exit(failed ? 1 : 0);
