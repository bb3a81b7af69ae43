/**
 * One update: score, choose hints, several epochs over one batch. Changes the learner's parameters; publishing and the
 * ledger are the caller's.
 */

import type { Admitted } from './admission.js';
import { type Advantages, type Baseline, singleReplyAdvantages } from './advantage.js';
import type { TrainConfig } from './config.js';
import { type BatchLosses, logprobGap, silence, turnLosses } from './losses.js';
import type { EmitTrainEvent, Learner, LossReport, OverlapKernel, SequenceLoss, TrainPolicy } from './ports.js';
import { type ScoredTurn, scoreTurn } from './teacher.js';

export interface AnchorSequence {
  ids: Int32Array;
  /** first predicted position */ from: number;
}

export interface StepResult {
  /** null: parameters changed; else why no step was made */ skipped: string | null;
  metrics: Record<string, number>;
  baseline: Baseline;
}

export interface StepContext {
  policy: TrainPolicy;
  learner: Learner;
  kernels: OverlapKernel;
  config: TrainConfig;
  baseline: Baseline;
  /** conversations replayed in this update */ anchors: AnchorSequence[];
  emit: EmitTrainEvent;
  /** true: stop between pieces; the update is then discarded */ stopping: () => boolean;
}

export async function trainStep(admitted: Admitted[], context: StepContext): Promise<StepResult> {
  const { config, policy, emit } = context;
  const turns: ScoredTurn[] = [];
  for (const one of admitted) {
    if (context.stopping()) return { skipped: 'stopping', metrics: {}, baseline: context.baseline };
    turns.push(await scoreTurn(one, policy, context.kernels, config));
    emit({ type: 'update.progress', stage: 'scoring', done: turns.length, total: admitted.length });
  }
  const { advantages, baseline } = singleReplyAdvantages(
    admitted.map((t) => t.reward),
    context.baseline,
    { kind: config.baseline, decay: config.baselineDecay },
  );
  const batch = turnLosses(turns, advantages, config);
  const before = batchMetrics(turns, advantages, batch, policy.live());
  const quiet = silence(batch, config);
  if (quiet) return { skipped: quiet, metrics: before, baseline };
  const trained = await epochs(turns, batch, context);
  return { skipped: trained.skipped, metrics: { ...before, ...trained.metrics }, baseline };
}

async function epochs(turns: ScoredTurn[], batch: BatchLosses, context: StepContext) {
  const { config, learner, emit } = context;
  const speaking = turns.flatMap((t, n) => (batch.losses[n] ? [{ ids: t.ids, loss: batch.losses[n] }] : []));
  const anchors = config.anchor.weight > 0 ? context.anchors : [];
  const sequences = [...speaking.map((s) => s.ids), ...anchors.map((a) => a.ids)];
  const losses: SequenceLoss[] = [
    ...speaking.map((s) => s.loss),
    ...anchors.map((a) => ({ from: a.from, wAnchor: config.anchor.weight / anchors.length })),
  ];
  const prepared = await learner.prepare(sequences);
  const metrics: Record<string, number> = {};
  let skippedSteps = 0;
  try {
    for (let epoch = 0; epoch < config.epochs; epoch++) {
      if (context.stopping()) return { skipped: 'stopping', metrics };
      await learner.zeroGrad();
      const report = await learner.forwardBackward(prepared, losses);
      const step = await learner.optimStep({
        lr: config.lr,
        beta1: config.beta1,
        beta2: config.beta2,
        eps: config.eps,
        weightDecay: config.weightDecay,
        maxGradNorm: config.maxGradNorm,
        stopNorm: config.stopGradNorm,
      });
      if (step.skipped) skippedSteps++;
      Object.assign(metrics, epochMetrics(report, step.gradNorm, epoch));
      emit({ type: 'update.progress', stage: 'epoch', done: epoch + 1, total: config.epochs });
    }
  } finally {
    prepared.dispose();
  }
  metrics.skippedSteps = skippedSteps;
  return { skipped: skippedSteps === config.epochs ? 'grad-norm' : null, metrics };
}

function epochMetrics(report: LossReport, gradNorm: number, epoch: number): Record<string, number> {
  const perToken = (n: number) => (report.tokens ? n / report.tokens : 0);
  const metrics: Record<string, number> = {
    loss: report.loss,
    lossRl: report.rl,
    lossOpd: report.opd,
    lossAnchor: report.anchor,
    entropy: report.entropy,
    meanRatio: report.meanRatio,
    ratioClippedLow: perToken(report.ratioClippedLow),
    ratioClippedHigh: perToken(report.ratioClippedHigh),
    deltaClipped: report.topEntries ? report.deltaClipped / report.topEntries : 0,
    exponentClamped: report.exponentClamped,
    gradNorm,
  };
  return epoch === 0 ? { ...metrics, firstLoss: report.loss, firstGradNorm: gradNorm } : metrics;
}

function batchMetrics(
  turns: ScoredTurn[],
  advantages: Advantages['advantages'],
  batch: BatchLosses,
  live: string,
): Record<string, number> {
  const rewards = turns.flatMap((t) => (t.admitted.reward === null ? [] : [t.admitted.reward]));
  const known = advantages.filter((a): a is number => a !== null);
  const distilled = turns.flatMap((t) => (t.distill ? [t.distill] : []));
  const mean = (xs: number[]) => xs.reduce((a, b) => a + b, 0) / xs.length;
  const gap = logprobGap(turns, live);
  return {
    turns: turns.length,
    withReward: batch.withReward,
    withHint: batch.withHint,
    replyTokens: mean(turns.map((t) => t.ids.length - t.promptLength)),
    ...(rewards.length && { reward: mean(rewards) }),
    ...(known.length && { advantage: mean(known) }),
    ...(distilled.length && {
      hintChosen: mean(distilled.map((d) => d.hint)),
      hintGain: mean(distilled.map((d) => d.gain)),
    }),
    ...(gap !== null && { logprobGap: gap }),
  };
}
