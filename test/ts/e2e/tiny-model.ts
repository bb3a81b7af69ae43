/**
 * A model folder made in a second: a little Qwen3 of random weights with a real tokenizer and ChatML. It has read a few sentences
 * that do not end, so that its replies run to their limit instead of stopping at random.
 */
import { join } from 'node:path';
import type { NativePolicy } from '../../../ts/policy/index.js';
import { createPolicy, trainBpe } from '../../../ts/policy/index.js';
import { temporaryFolder } from './program.js';

export const CHATML =
  "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + (m['content'] or '') + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const SENTENCES = [
  'The river rises in the hills and runs south for ninety miles before it reaches the sea, and ',
  'Bread is made from flour, water, salt and yeast. The dough rests while the yeast works, then it is shaped. ',
  'She opened the letter, read it twice and put it back in the drawer. Outside the rain had stopped. ',
  'A good map shows roads, rivers and heights. The scale tells how far apart 2 places are: 10, 25 or 400 miles. ',
];

const SHAPE = {
  arch: 'qwen3' as const,
  hidden: 64,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  ffn: 128,
  normEps: 1e-6,
  ropeTheta: 10_000,
  ropeScaling: null,
  tiedHead: true,
  qkvBias: false,
  qkNorm: true,
  context: 4096,
};

/** Random weights, nothing read yet. */
export function randomModel(seed = 7, vocabSize = 400): Promise<NativePolicy> {
  const tokenizerJson = trainBpe([...SENTENCES, ...SENTENCES], {
    vocabSize,
    specialTokens: ['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
  }) as { model: { vocab: Record<string, number> } };
  // few texts give fewer merges than were asked for
  const vocab = Object.keys(tokenizerJson.model.vocab).length;
  return createPolicy(
    {
      name: 'tiny',
      config: { ...SHAPE, vocab },
      tokenizerJson,
      tokenizerConfig: { eos_token: '<|im_end|>' },
      chatTemplate: CHATML,
    },
    { seed, std: 0.05 },
    { threads: 2 },
  );
}

export interface Learned {
  /** [steps] mean cross-entropy before each step */ losses: number[];
  /** makes what was learned the live version */ publish(version: string): Promise<void>;
  dispose(): void;
}

/** Trains every parameter on these texts; nothing is published yet. */
export async function memorise(policy: NativePolicy, texts: readonly Int32Array[], steps: number): Promise<Learned> {
  const trainer = policy.trainer({ full: true, seed: 1 });
  const batch = await trainer.prepare([...texts]);
  const weights = texts.map(() => ({ from: 1, ce: 1 / texts.length }));
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    await trainer.zeroGrad();
    losses.push((await trainer.forwardBackward(batch, weights)).ce);
    await trainer.optimStep({ lr: 3e-3, beta1: 0.9, beta2: 0.98, eps: 1e-8, weightDecay: 0, maxGradNorm: 1 });
  }
  batch.dispose();
  return { losses, publish: (version) => trainer.publish(version), dispose: () => trainer.dispose() };
}

/** Writes the folder and says where it is. */
export async function tinyModelFolder(): Promise<string> {
  const policy = await randomModel();
  try {
    const texts = SENTENCES.map((text) => policy.tokenize(text.repeat(2)));
    const learned = await memorise(policy, texts, 60);
    await learned.publish('tiny@1-00000001');
    learned.dispose();
    const folder = join(temporaryFolder(), 'tiny');
    await policy.writeModel(folder, { dtype: 'f32' });
    return folder;
  } finally {
    await policy.close();
  }
}
