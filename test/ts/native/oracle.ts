/** The numbers of a real model (test/ts/fixtures/smollm2, made in float64 by another program) and how to compare with them. */
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';

export function oracle<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../fixtures/smollm2/${name}.json`, import.meta.url), 'utf8')) as T;
}

export interface LogitsFile {
  prompts: Array<{
    name: string;
    ids: number[];
    nextLogprob: number[];
    lastPositions: number[];
    topIds: number[][];
    topLogprobs: number[][];
  }>;
}
export interface GreedyFile {
  eosId: number;
  replies: Array<{ promptIds: number[]; ids: number[]; logprobs: number[]; margins: number[]; text: string }>;
}
export interface TeacherFile {
  promptIds: number[];
  replyIds: number[];
  student: { topIds: number[][]; topLogprobs: number[][]; replyLogprobs: number[] };
  teachers: Array<{
    promptIds: number[];
    topLogprobs: number[][];
    onStudentTop: number[][];
    replyLogprobs: number[];
    topIds: number[][];
    overlap: number[];
  }>;
}
export interface Turn {
  promptIds: number[];
  replyIds: number[];
  mask: number[];
  reward: number | null;
  oldLogprobs: number[];
  /** these three are absent when the turn has no hint */ topIds?: number[][];
  topOldLogprobs?: number[][];
  topTeacherLogprobs?: number[][];
}
export interface LoraFile {
  lora: { rank: number; alpha: number; targets: string[]; firstA: number[]; firstB: number[] };
  turns: Turn[];
  cases: Array<{
    name: string;
    loss: number;
    gradNorm: number;
    curLogprobs?: number[];
    nAll?: number;
    nClippedDelta?: number;
    nBelow?: number;
    nAbove?: number;
    grads: Record<string, number[]>;
  }>;
}
export interface AdamFile {
  hyper: { lr: number; beta1: number; beta2: number; eps: number; weightDecay: number; gradClip: number };
  turn: Pick<Turn, 'promptIds' | 'replyIds' | 'mask'>;
  steps: Array<{ lossBefore: number; gradNormBeforeClip: number; lossAfter: number }>;
}

/** The largest |a - b|; NaN counts as infinite. */
export function farthest(a: ArrayLike<number>, b: ArrayLike<number>): number {
  expect(a.length).toBe(b.length);
  let worst = 0;
  for (let i = 0; i < a.length; i++) {
    const distance = Math.abs(a[i]! - b[i]!);
    worst = distance <= worst ? worst : Number.isNaN(distance) ? Number.POSITIVE_INFINITY : distance;
  }
  return worst;
}

/** The hash that fills the LoRA matrices of the fixture, exact in float32. */
function hashValue(i: number, seed: number, scale: number): number {
  let x = (Math.imul(i, 2654435761) + Math.imul(seed, 40503) + 1) >>> 0;
  x ^= x >>> 16;
  x = Math.imul(x, 0x45d9f3b) >>> 0;
  x = (x ^ (x >>> 16)) >>> 0;
  return scale * ((2 * (x >>> 8)) / 2 ** 24 - 1);
}

/** The adapter of the fixture by our names, for a model of these sizes. */
export function fixtureAdapter(
  lora: LoraFile['lora'],
  sizes: { layers: number; shape: (target: string) => [number, number] },
) {
  const tensors: Record<string, Float32Array> = {};
  for (let layer = 0; layer < sizes.layers; layer++) {
    for (const [j, target] of lora.targets.entries()) {
      const [rows, columns] = sizes.shape(target);
      const seed = 2 * (7 * layer + j);
      tensors[`layers.${layer}.${target}.A`] = Float32Array.from({ length: lora.rank * columns }, (_, i) =>
        hashValue(i, seed, 0.03125),
      );
      tensors[`layers.${layer}.${target}.B`] = Float32Array.from({ length: rows * lora.rank }, (_, i) =>
        hashValue(i, seed + 1, 0.015625),
      );
    }
  }
  return tensors;
}
