/**
 * Making claw-nano: a tokenizer from the corpus, random weights, and one pass over freshly generated talks with the
 * project's own trainer. Seeded: the same seed and the same number of threads give the same folder.
 *
 * Two things make a million parameters enough in a few minutes: the corpus is endless (no talk is seen twice, so nothing can
 * be learned by heart but the sums), and training starts with short talks, in which the copying of numbers is learned first.
 */
import type { Encoder, TrainingTokens } from './chatml.js';
import { CHAT_TEMPLATE, renderDialogue, SPECIAL_TOKENS } from './chatml.js';
import { corpus, type Dialogue } from './corpus.js';
import { measureSkills, type SkillPolicy, type Skills } from './skills.js';

export interface ModelShape {
  arch: 'qwen3';
  vocab: number;
  hidden: number;
  layers: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  ffn: number;
  normEps: number;
  ropeTheta: number;
  ropeScaling: null;
  tiedHead: true;
  qkvBias: false;
  qkNorm: true;
  context: number;
}

interface Loss {
  from: number;
  mask: Float32Array;
  ce: number;
}

interface Batch {
  dispose(): void;
}

/** The part of the native trainer that making a model needs. */
export interface ModelTrainer {
  prepare(sequences: Int32Array[]): Promise<Batch>;
  forwardBackward(batch: Batch, losses: Loss[]): Promise<{ ce: number }>;
  optimStep(h: {
    lr: number;
    beta1: number;
    beta2: number;
    eps: number;
    weightDecay: number;
    maxGradNorm: number;
  }): Promise<{ gradNorm: number }>;
  zeroGrad(): Promise<void>;
  publish(version: string): Promise<void>;
  dispose(): void;
}

export interface MadePolicy extends SkillPolicy {
  readonly tokenizer: {
    encode(text: string, options?: { plain?: ReadonlySet<number> }): Int32Array;
    specialIds: ReadonlySet<number>;
  };
  trainer(options: { full: true; seed: number; activationBytes: number }): ModelTrainer;
  writeModel(folder: string, o: { version: string; dtype: 'bf16' }): Promise<void>;
  close(): Promise<void>;
}

/** What the policy station offers; loop and cli hand it over. */
export interface ModelTools {
  trainBpe(texts: Iterable<string>, o: { vocabSize: number; specialTokens: readonly string[] }): unknown;
  createPolicy(
    model: {
      name: string;
      config: ModelShape;
      tokenizerJson: unknown;
      tokenizerConfig: Record<string, unknown>;
      chatTemplate: string;
    },
    init: { seed: number; std: number },
    settings: { threads?: number; version: string },
  ): Promise<MadePolicy>;
}

export interface MakeModelOptions {
  /** folder to write; replaced as a whole */ out: string;
  seed?: number;
  /** tokens to train on; a few hundred thousand are enough to see that everything runs */ tokens?: number;
  threads?: number;
  /** replies of the measure at the end; default 200 */ skillReplies?: number;
  tools: ModelTools;
  say?: (line: string) => void;
}

export interface MadeModel {
  parameters: number;
  tokens: number;
  steps: number;
  seconds: number;
  skills: Skills;
}

export const NANO_SHAPE: ModelShape = {
  arch: 'qwen3',
  vocab: 640,
  hidden: 128,
  layers: 4,
  heads: 4,
  kvHeads: 4,
  headDim: 32,
  ffn: 352,
  normEps: 1e-6,
  ropeTheta: 10_000,
  ropeScaling: null,
  tiedHead: true,
  qkvBias: false,
  qkNorm: true,
  context: 2048,
};

/** How it is trained; docs/decisions/nano-model.md says what else was tried. */
const RECIPE = {
  tokens: 4_000_000,
  /** padded tokens in a step */ batchTokens: 1536,
  lr: 3e-3,
  /** lr falls along a cosine to this share of it */ lrEnd: 0.02,
  warmupSteps: 100,
  beta1: 0.9,
  beta2: 0.98,
  eps: 1e-8,
  weightDecay: 0.05,
  maxGradNorm: 1,
  initStd: 0.05,
  /** the first share of training sees only talks up to so many tokens */ shortShare: 0.4,
  shortTokens: 75,
  /** no talk has more letters a token than this */ lettersPerToken: 5,
  /** talks from which the tokenizer is made */ tokenizerTalks: 15_000,
  /** talks sorted by length together, so that a batch holds equals */ pool: 512,
  activationBytes: 256 * 1024 * 1024,
} as const;

const REPORT_EVERY = 100;

/** Trains and writes the model; resolves with what it can do. */
export async function makeModel(o: MakeModelOptions): Promise<MadeModel> {
  const say = o.say ?? (() => {});
  const seed = o.seed ?? 1;
  const started = performance.now();
  const tokenizerJson = o.tools.trainBpe(tokenizerTexts(seed), {
    vocabSize: NANO_SHAPE.vocab,
    specialTokens: SPECIAL_TOKENS,
  });
  const policy = await o.tools.createPolicy(
    {
      name: 'claw-nano',
      config: NANO_SHAPE,
      tokenizerJson,
      tokenizerConfig: { eos_token: '<|im_end|>', pad_token: '<|endoftext|>' },
      chatTemplate: CHAT_TEMPLATE,
    },
    { seed, std: RECIPE.initStd },
    { version: 'claw-nano@0', ...(o.threads === undefined ? {} : { threads: o.threads }) },
  );
  try {
    say(`tokenizer of ${NANO_SHAPE.vocab} ids made; training ${parameterCount(NANO_SHAPE)} parameters`);
    const trained = await train(policy, { seed, tokens: o.tokens ?? RECIPE.tokens, say });
    await policy.writeModel(o.out, { version: 'live', dtype: 'bf16' });
    const skills = await measureSkills(policy, { seed, replies: o.skillReplies ?? 200 });
    const seconds = (performance.now() - started) / 1000;
    return { parameters: parameterCount(NANO_SHAPE), ...trained, seconds, skills };
  } finally {
    await policy.close();
  }
}

export function parameterCount(s: ModelShape): number {
  const attention = s.hidden * s.headDim * (2 * s.heads + 2 * s.kvHeads) + 2 * s.headDim;
  return s.vocab * s.hidden + s.layers * (attention + 3 * s.hidden * s.ffn + 2 * s.hidden) + s.hidden;
}

function* tokenizerTexts(seed: number): Generator<string> {
  const talks = corpus(`tokenizer:${seed}`);
  for (let i = 0; i < RECIPE.tokenizerTalks; i++)
    for (const message of talks.next().value.messages) yield message.content ?? '';
}

interface TrainOptions {
  seed: number;
  tokens: number;
  say(line: string): void;
}

async function train(policy: MadePolicy, o: TrainOptions): Promise<{ tokens: number; steps: number }> {
  const trainer = policy.trainer({ full: true, seed: o.seed, activationBytes: RECIPE.activationBytes });
  const { tokenizer } = policy;
  const encoder: Encoder = {
    encode: (text, special) => tokenizer.encode(text, special ? {} : { plain: tokenizer.specialIds }),
  };
  let seen = 0;
  let steps = 0;
  const losses: number[] = [];
  const progress = () => seen / o.tokens;
  for (const batch of batches(corpus(o.seed), encoder, progress)) {
    losses.push(await step(trainer, batch, learningRate(progress(), steps)));
    seen += batch.reduce((sum, talk) => sum + talk.ids.length, 0);
    steps++;
    if (steps % REPORT_EVERY === 0) {
      const mean = losses.splice(0).reduce((a, b) => a + b, 0) / REPORT_EVERY;
      o.say(`step ${steps}  ${Math.round(100 * progress())} %  loss ${mean.toFixed(3)}`);
    }
    if (seen >= o.tokens) break;
  }
  await trainer.publish('claw-nano@1');
  trainer.dispose();
  return { tokens: seen, steps };
}

/** Warm-up, then a cosine down to lrEnd. `progress` in [0, 1]. */
function learningRate(progress: number, steps: number): number {
  const warm = Math.min(1, (steps + 1) / RECIPE.warmupSteps);
  const fall = (1 + Math.cos(Math.PI * Math.min(1, progress))) / 2;
  return RECIPE.lr * warm * (RECIPE.lrEnd + (1 - RECIPE.lrEnd) * fall);
}

async function step(trainer: ModelTrainer, talks: TrainingTokens[], lr: number): Promise<number> {
  const learned = talks.map((talk) => talk.learned.reduce((a, b) => a + b, 0));
  const all = learned.reduce((a, b) => a + b, 0);
  const batch = await trainer.prepare(talks.map((talk) => talk.ids));
  try {
    // Every learned token weighs the same: a sequence's mean counts by its share of them.
    const losses = talks.map((talk, i) => ({
      from: 1,
      mask: Float32Array.from(talk.learned.subarray(1)),
      ce: learned[i]! / all,
    }));
    await trainer.zeroGrad();
    const { ce } = await trainer.forwardBackward(batch, losses);
    const { beta1, beta2, eps, weightDecay, maxGradNorm } = RECIPE;
    await trainer.optimStep({ lr, beta1, beta2, eps, weightDecay, maxGradNorm });
    return ce;
  } finally {
    batch.dispose();
  }
}

const letters = (talk: Dialogue): number => talk.messages.reduce((sum, m) => sum + (m.content?.length ?? 0), 0);

/** Talks in batches of about equal lengths, in an order that does not go by length. */
function* batches(
  talks: Generator<Dialogue, never>,
  encoder: Encoder,
  progress: () => number,
): Generator<TrainingTokens[]> {
  for (let round = 0; ; round++) {
    const pool: TrainingTokens[] = [];
    while (pool.length < RECIPE.pool) {
      const talk = talks.next().value;
      const short = progress() < RECIPE.shortShare;
      // Most long talks are known by their letters: turning them into ids only to drop them would take half of the time.
      if (short && letters(talk) > RECIPE.shortTokens * RECIPE.lettersPerToken) continue;
      const tokens = renderDialogue(talk, encoder);
      if (!short || tokens.ids.length <= RECIPE.shortTokens) pool.push(tokens);
    }
    pool.sort((a, b) => a.ids.length - b.ids.length);
    const cut = cutInBatches(pool);
    // A step through the list with a stride coprime to its length: far-apart lengths follow each other.
    const stride = coprimeStride(cut.length);
    for (let i = 0; i < cut.length; i++) yield cut[(i * stride + round) % cut.length]!;
  }
}

function cutInBatches(sorted: TrainingTokens[]): TrainingTokens[][] {
  const result: TrainingTokens[][] = [];
  let current: TrainingTokens[] = [];
  for (const talk of sorted) {
    if (current.length > 0 && (current.length + 1) * talk.ids.length > RECIPE.batchTokens) {
      result.push(current);
      current = [];
    }
    current.push(talk);
  }
  if (current.length > 0) result.push(current);
  return result;
}

function coprimeStride(length: number): number {
  const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));
  let stride = Math.max(1, Math.round(length * 0.618));
  while (gcd(stride, length) !== 1) stride++;
  return stride;
}
