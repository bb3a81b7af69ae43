/** The instruction sets of this machine give the same answers: each in a process of its own, since the choice is made once. */
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { binaryReport } from '../../../ts/kernels/index.js';

/** Run in the child: prints the results of the kernels that have code per instruction set. */
const program = `
import { binary } from ${JSON.stringify(new URL('../../../lib/index.js', import.meta.url).href)};
const { kernels: k, isa } = binary;
const rows = 3, vocab = 5003;
const logits = Float32Array.from({ length: rows * vocab }, (_, i) => Math.sin(i * 1.7) * 8 + Math.cos(i * 0.013) * 4);
const stats = k.logitStats({ logits, rows, vocab, k: 25, entropy: true });
const ids = Int32Array.of(5, 6, 7), grads = Float32Array.of(1, -0.5, 2);
const { dz } = k.logitGrad({ logits, rows, vocab, lse: stats.lse, ids, grads });
const { total } = k.crossEntropy({ logits, rows, vocab, ids, gradient: false });
const overlap = k.hintOverlap({ positions: rows, hints: 1, k: 25, student: stats.topIds, teachers: stats.topIds.map((x, i) => (i % 3 ? x : -1)) });
console.log(JSON.stringify({ isa: isa(), ids: [...stats.topIds], overlap: [...overlap.overlap], numbers: [...stats.lse, ...stats.entropy, ...stats.topLogprobs, ...dz, total] }));
`;

interface Answer {
  isa: string;
  ids: number[];
  overlap: number[];
  numbers: number[];
}

function answer(isa: string): Answer {
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    env: { ...process.env, OPENCLAW_RL_CPU: isa },
  });
  if (child.status !== 0) throw new Error(child.stderr);
  return JSON.parse(child.stdout) as Answer;
}

describe('instruction sets', () => {
  const best = binaryReport().isa;
  it.skipIf(best === 'neon' || best === 'v2')('agree within 2e-6, and exactly on ids', () => {
    const plain = answer('v2');
    expect(plain.isa).toBe('v2');
    for (const isa of ['v3', 'v4'].filter((level) => level <= best)) {
      const other = answer(isa);
      expect(other.isa).toBe(isa);
      expect(other.ids).toEqual(plain.ids);
      expect(other.overlap).toEqual(plain.overlap);
      other.numbers.forEach((x, i) => {
        expect(Math.abs(x - plain.numbers[i]!)).toBeLessThanOrEqual(
          2e-6 * Math.max(1e-6, Math.abs(plain.numbers[i]!)) + 1e-12,
        );
      });
    }
  });
});
