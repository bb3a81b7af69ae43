/** What training needs from the stations around it; loop.ts hands the objects over. */
import type { Message, NextState, Refusal, Tool, Turn, Update, Verdict } from '../record/index.js';

export interface JudgedTurn {
  turn: Turn;
  next: NextState;
  verdict: Verdict;
}

export interface TrainLedger {
  claimJudged(limit: number): Promise<JudgedTurn[]>;
  releaseClaims(turnIds: string[]): Promise<void>;
  refuse(turnId: string, reason: Refusal): Promise<void>;
  commitUpdate(update: Update, o: { trained: string[]; refused: Array<[string, Refusal]> }): Promise<void>;
  updates(o?: { limit?: number }): Promise<Update[]>;
  liveUpdate(): Promise<Update | null>;
  /** reserves a number: never given twice, also after a crash */ nextUpdateNumber(): Promise<number>;
  counts(): Promise<{ updates: number }>;
  getMeta(key: string): Promise<string | null>;
  setMeta(key: string, value: string): Promise<void>;
}

/** log-probs of a reply's tokens under one version; R tokens, k wide */
export interface Scored {
  /** [R] */ logprobs: Float32Array;
  /** [R*k] */ topIds: Int32Array;
  /** [R*k] */ topLogprobs: Float32Array;
  /** [R*g] or null */ gathered: Float32Array | null;
}

export interface SequenceLoss {
  from: number;
  mask?: Float32Array;
  advantage?: Float32Array;
  oldLogprob?: Float32Array;
  wRl?: number;
  k?: number;
  topIds?: Int32Array;
  topOld?: Float32Array;
  topTeacher?: Float32Array;
  wOpd?: number;
  refLogprob?: Float32Array;
  beta?: number;
  wAnchor?: number;
  epsLow?: number;
  epsHigh?: number;
  deltaClip?: number;
}

export interface LossReport {
  loss: number;
  rl: number;
  opd: number;
  k3: number;
  anchor: number;
  tokens: number;
  ratioClippedLow: number;
  ratioClippedHigh: number;
  deltaClipped: number;
  topEntries: number;
  exponentClamped: number;
  meanRatio: number;
  entropy: number;
}

export interface LearnerBatch {
  dispose(): void;
}

export interface TrainerState {
  step: number;
  rank: number;
  alpha: number;
  tensors: Record<string, Float32Array>;
}

export interface Learner {
  prepare(sequences: Int32Array[]): Promise<LearnerBatch>;
  forwardBackward(batch: LearnerBatch, losses: Array<SequenceLoss | null>): Promise<LossReport>;
  optimStep(h: {
    lr: number;
    beta1: number;
    beta2: number;
    eps: number;
    weightDecay: number;
    maxGradNorm: number;
    stopNorm?: number;
  }): Promise<{ gradNorm: number; skipped: boolean }>;
  zeroGrad(): Promise<void>;
  publish(version: string): Promise<void>;
  exportState(moments: boolean): Promise<TrainerState>;
  importState(state: { step: number; tensors: Record<string, Float32Array> }): Promise<void>;
  dispose(): void;
}

export interface TrainPolicy {
  readonly name: string;
  readonly layers: number;
  live(): string;
  renderChat(messages: Message[], o?: { tools?: Tool[]; addGenerationPrompt?: boolean }): Int32Array;
  score(
    ids: Int32Array,
    o: { from: number; topK: number; gather?: Int32Array; version?: string; lane: 'train' },
  ): Promise<Scored>;
  trainer(options: { rank: number; alpha: number; targets: string[]; firstLayer: number; seed: number }): Learner;
}

/** Adapter and optimiser state on disk, in PEFT's form; written atomically. */
export interface AdapterStore {
  write(folder: string, state: TrainerState, about: { targets: string[]; baseModel: string }): Promise<void>;
  read(folder: string): Promise<TrainerState>;
}

export interface OverlapKernel {
  /** student [T,k], teachers [M,T,k], mask [T] → chosen hint of the sequence, per token, and O summed per hint */
  hintOverlap(
    student: Int32Array,
    teachers: Int32Array,
    shape: { M: number; T: number; k: number },
    mask: Float32Array | null,
  ): { sequenceChoice: number; tokenChoice: Int32Array; sums: number[] };
}

export type TrainEvent =
  | { type: 'update.started'; turns: number }
  | { type: 'update.progress'; stage: 'scoring' | 'epoch'; done: number; total: number }
  | { type: 'update.done'; version: string; parent: string; turns: number; metrics: Record<string, number>; ms: number }
  | { type: 'update.skipped'; reason: string; turns: number }
  | { type: 'update.failed'; reason: string; turns: number }
  | { type: 'turn.refused'; turnId: string; reason: Refusal };
export type EmitTrainEvent = (event: TrainEvent) => void;
