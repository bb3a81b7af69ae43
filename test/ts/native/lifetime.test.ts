/**
 * What happens when JavaScript ends before the native threads do. Each case is a process of its own: it must end by itself, in time,
 * with the exit code it asked for, and never by a signal.
 */
import { spawn } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { tinyConfig, tinyOptions } from './tiny.js';

const door = new URL('../../../lib/index.js', import.meta.url).href;

const prelude = `
  import { binary } from ${JSON.stringify(door)};
  import { Worker, isMainThread, parentPort } from 'node:worker_threads';
  import { setTimeout as sleep } from 'node:timers/promises';
  import { readdirSync } from 'node:fs';
  const config = ${JSON.stringify(tinyConfig)};
  const slow = { ...config, hidden: 256, ffn: 1024, layers: 8, heads: 8, kvHeads: 8, headDim: 32, context: 4096 };
  const options = { ...${JSON.stringify(tinyOptions)}, kvBytes: 1 << 28 };
  const open = (c = config) => binary.randomPolicy(c, { seed: 3, std: 0.1 }, options);
  const request = (change = {}) => ({ ids: Int32Array.of(1, 2, 3), maxTokens: 400, temperature: 1, topP: 1, topK: 0, seed: 1,
    stopIds: new Int32Array(0), deadlineMs: 0, ...change });
  const long = () => Array.from({ length: 2 }, () => Int32Array.from({ length: 2000 }, (_, i) => i % 90));
  const threads = () => readdirSync('/proc/self/task').length;
`;

/** Runs a script; resolves with how it ended. A process that is still there after 30 s is stopped and counts as hanging. */
function run(
  script: string,
  nodeOptions: string[] = [],
): Promise<{ code: number | null; signal: string | null; out: string }> {
  const child = spawn(process.execPath, [...nodeOptions, '--input-type=module', '-e', prelude + script]);
  let out = '';
  child.stdout.on('data', (d) => {
    out += d;
  });
  child.stderr.on('data', (d) => {
    out += d;
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), 30_000);
  return new Promise((resolve) =>
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, out: out.trim() });
    }),
  );
}

const ended = (out: string, code = 0) => ({ code, signal: null, out });

describe('the process', () => {
  it('ends by itself with an idle policy left open', async () => {
    expect(await run(`const p = await open(); console.log(p.stats().live);`)).toEqual(ended('v0'));
  });

  it('stays up while a generation is awaited, and for its listener', async () => {
    const script = `let n = 0; (await open()).generate(request(), (ids) => { n += ids.length; if (n === 400) console.log(n); });`;
    expect(await run(script)).toEqual(ended('400'));
  });

  it('may exit in the middle of a generation', async () => {
    const script = `const p = await open(slow); p.generate(request({ maxTokens: 4000 }), () => process.exit(7));`;
    expect(await run(script)).toEqual(ended('', 7));
  });

  it('may exit in the middle of opening', async () => {
    expect(await run(`open(slow); setImmediate(() => process.exit(7));`)).toEqual(ended('', 7));
  });

  it('may exit in the middle of training', async () => {
    const script = `
      const trainer = (await open(slow)).trainer({ full: true });
      trainer.prepare(long()).then((b) => trainer.forwardBackward(b, [{ from: 1, ce: 1 }, null]));
      await sleep(60); process.exit(7);`;
    expect(await run(script)).toEqual(ended('', 7));
  });

  it('ends on an uncaught exception with everything running', async () => {
    const script = `
      const p = await open(slow); p.generate(request({ maxTokens: 4000 }), () => {});
      p.trainer({}).prepare(long()); await sleep(20); throw new Error('last words');`;
    const { code, signal, out } = await run(script);
    expect({ code, signal }).toEqual({ code: 1, signal: null });
    expect(out).toContain('last words');
  });
});

describe('close', () => {
  it('does not wait for a training step to finish', async () => {
    const script = `
      const p = await open(slow); const trainer = p.trainer({ full: true });
      const batch = await trainer.prepare(long());
      const step = trainer.forwardBackward(batch, [{ from: 1, ce: 1 }, { from: 1, ce: 1 }]).catch((e) => e.code);
      await sleep(50);
      const begun = performance.now(); await p.close();
      console.log(await step, performance.now() - begun < 3000 ? 'soon' : 'late');`;
    expect(await run(script)).toEqual(ended('E_ABORTED soon'));
  });

  it.runIf(process.platform === 'linux')('leaves no thread behind, and neither does forgetting a policy', async () => {
    const script = `
      const before = threads();
      for (let i = 0; i < 5; i++) {
        const p = await open(); await p.generate(request(), () => {}).done;
        await p.trainer({}).prepare([Int32Array.of(1, 2, 3)]);
        await p.close();
      }
      const closed = threads();
      await (async () => { const p = await open(); await p.generate(request(), () => {}).done; p.trainer({}); })();
      const running = threads();
      for (let i = 0; i < 100 && threads() > before; i++) { gc(); await sleep(10); }
      console.log(closed - before, running > before, threads() - before);`;
    expect(await run(script, ['--expose-gc'])).toEqual(ended('0 true 0'));
  });
});

describe('a worker thread', () => {
  const worker = (body: string, main: string) => `
    const code = ${JSON.stringify(prelude)} + ${JSON.stringify(body)};
    const start = () => new Worker(new URL('data:text/javascript,' + encodeURIComponent(code)));
    ${main}
    console.log('alive');`;

  it('may be terminated at any moment of a generation', async () => {
    const body = `const p = await open(slow);
      for (let i = 0; i < 4; i++) p.generate(request({ seed: i, maxTokens: 4000 }), () => parentPort.postMessage(i));`;
    const main = `for (let round = 0; round < 6; round++) {
      const w = start(); await new Promise((resolve) => w.once('message', resolve)); await sleep(2 * round); await w.terminate();
    }`;
    expect(await run(worker(body, main))).toEqual(ended('alive'));
  });

  it('may be terminated while it opens, scores or trains', async () => {
    const body = `const p = await open(slow); const trainer = p.trainer({});
      const ids = long()[0];
      p.score({ ids, from: 1, topK: 5, gather: null, version: 'live', lane: 'serve' });
      p.score({ ids, from: 1, topK: 5, gather: null, version: 'live', lane: 'train' });
      trainer.prepare(long()).then((b) => trainer.forwardBackward(b, [{ from: 1, ce: 1 }, null]));`;
    const main = `for (let round = 0; round < 8; round++) { const w = start(); await sleep(40 + round * 30); await w.terminate(); }`;
    expect(await run(worker(body, main))).toEqual(ended('alive'));
  });

  it('has policies of its own, beside those of the main thread', async () => {
    const body = `const p = await open(); parentPort.postMessage([...(await p.generate(request(), () => {}).done).ids].join());`;
    const main = `const p = await open(); const mine = p.generate(request(), () => {}).done;
      const theirs = await Promise.all([1, 2, 3].map(() => new Promise((resolve) => start().once('message', resolve))));
      const ids = [...(await mine).ids].join(); if (theirs.some((t) => t !== ids)) throw new Error('differ');`;
    expect(await run(worker(body, main))).toEqual(ended('alive'));
  });
});
