import { defineConfig } from 'vitest/config';

// Two shared cores: one worker at a time for whole-process tests keeps timings honest and memory small.
export default defineConfig({
  test: { include: ['test/ts/**/*.test.ts'], pool: 'forks', maxWorkers: 2, testTimeout: 60_000, hookTimeout: 60_000, reporters: ['default'] },
});
