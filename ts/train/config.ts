/**
 * The trainer's hyper-parameters: one schema, defaults beside their reasons. Symbols are those of the method: w_RL, w_OPD,
 * eps_lo, eps_hi, C (deltaClip), k, M (maxHints), beta.
 */
import { z } from 'zod';

export const METHODS = ['hybrid', 'rl', 'opd', 'none'] as const;
export type Method = (typeof METHODS)[number];

export const trainConfigSchema = z.object({
  /** hybrid: reward and hint; rl: reward only; opd: hint only; none: record and judge, never train */
  method: z.enum(METHODS).default('hybrid'),
  /** judged turns that make a batch */
  batchTurns: z.number().int().min(1).max(4096).default(16),
  /** a smaller batch is trained when its oldest turn has waited this long, ms */
  flushMs: z.number().int().min(0).default(60_000),
  /** passes over one batch; the PPO clip is the trust region (one large step was far worse: docs/decisions) */
  epochs: z.number().int().min(1).max(64).default(4),
  lr: z.number().gt(0).max(1).default(2.5e-4),
  beta1: z.number().min(0).lt(1).default(0.9),
  beta2: z.number().min(0).lt(1).default(0.98),
  eps: z.number().gt(0).default(1e-8),
  weightDecay: z.number().min(0).default(0),
  /** global gradient norm is clipped to this */
  maxGradNorm: z.number().gt(0).default(1),
  /** above this norm the step is not taken at all and is counted; 0: no stop */
  stopGradNorm: z.number().min(0).default(100),
  lora: z
    .object({
      rank: z.number().int().min(1).max(256).default(8),
      alpha: z.number().gt(0).default(16),
      targets: z
        .array(z.enum(['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']))
        .min(1)
        .default(['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']),
      /** layers that learn, counted from the top; null: all. The frozen ones below run once per batch, not once per epoch */
      topLayers: z.number().int().min(1).nullable().default(null),
    })
    .prefault({}),
  seed: z.number().int().min(0).default(0),
  /** k: width of the top-k distillation */
  topK: z.number().int().min(1).max(100).default(20),
  /** M: hints tried per turn */
  maxHints: z.number().int().min(1).max(8).default(3),
  /** one hint per reply (sequence) or per token */
  hintChoice: z.enum(['sequence', 'token']).default('sequence'),
  wRl: z.number().min(0).default(0.3),
  wOpd: z.number().min(0).default(1),
  /** C: clip of l_T - l_old */
  deltaClip: z.number().gt(0).default(2),
  epsLow: z.number().gt(0).lt(1).default(0.2),
  epsHigh: z.number().gt(0).default(0.28),
  /** weight of the k3 KL to the base on the sampled tokens */
  beta: z.number().min(0).default(0),
  /** advantage of a lone reply: its reward as it is, or minus a running mean of rewards */
  baseline: z.enum(['none', 'running']).default('running'),
  /** share of the old mean kept at each batch of the running baseline */
  baselineDecay: z.number().min(0).lt(1).default(0.8),
  /** for rl: a session whose turns all scored 0 keeps one of them (method, "at least one") */
  keepOnePerSession: z.boolean().nullable().default(null),
  /** KL(base || current) over whole distributions on replayed conversations: keeps general skill */
  anchor: z
    .object({
      weight: z.number().min(0).default(0.1),
      /** conversations replayed in each update */
      perUpdate: z.number().int().min(0).default(4),
    })
    .prefault({}),
  admission: z
    .object({
      /** prompt and reply together, tokens */
      maxTokens: z.number().int().min(8).default(8192),
      /** versions a turn may be behind the live one */
      maxVersionLag: z.number().int().min(0).default(8),
      /** turns of one session in a batch */
      maxPerSession: z.number().int().min(1).default(8),
      /** a reply cut at the length limit: refused, or used for its hint only (never for its reward) */
      truncated: z.enum(['refuse', 'hint-only']).default('refuse'),
    })
    .prefault({}),
  /** hybrid: a batch without any hint makes no step (praise alone walks on in the last direction) */
  stepNeedsHint: z.boolean().default(false),
  /** versions whose adapter stays on disk (the live one always does) */
  keepVersions: z.number().int().min(1).default(50),
});

export type TrainConfig = z.infer<typeof trainConfigSchema>;
export type TrainConfigInput = z.input<typeof trainConfigSchema>;
