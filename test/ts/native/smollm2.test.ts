/**
 * The whole native path against a real model's numbers: reading the GGUF, forward, sampling, scoring, adapters, losses, gradients,
 * AdamW. The tolerances are those the fixtures' authors measured for float32 engines, with room.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NativeSequenceLoss } from '../../../lib/index.js';
import { type NativePolicy, openPolicy } from '../../../ts/policy/index.js';
import { smollmFile } from '../policy/helpers.js';
import {
  type AdamFile,
  farthest,
  fixtureAdapter,
  type GreedyFile,
  type LogitsFile,
  type LoraFile,
  oracle,
  type TeacherFile,
  type Turn,
} from './oracle.js';

const LOGPROB = 2e-4;
const LOSS = 5e-5;
const GRADIENT_NORM = 5e-4;
const GRADIENT_ENTRY = 5e-3;

const greedySampling = { temperature: 0, topP: 1, topK: 0, maxTokens: 32, seed: 0, stop: [] };

describe.skipIf(smollmFile === null)(
  'SmolLM2-135M (skipped where the model file is not at hand: OPENCLAW_RL_TEST_MODEL)',
  () => {
    let policy: NativePolicy;
    beforeAll(async () => {
      policy = await openPolicy(smollmFile!, { kvBytes: 512 << 20 });
    }, 120_000);
    afterAll(() => policy?.close());

    it('gives the log-probs of every prompt', async () => {
      for (const prompt of oracle<LogitsFile>('logits').prompts) {
        // one id more, so that the distribution after the last id is scored too
        const ids = Int32Array.from([...prompt.ids, 0]);
        const scored = await policy.score(ids, { topK: 20 });
        expect(farthest(scored.logprobs.subarray(0, -1), prompt.nextLogprob), prompt.name).toBeLessThan(LOGPROB);
        for (const [row, position] of prompt.lastPositions.entries()) {
          const top = scored.topLogprobs.subarray(position * 20, position * 20 + 20);
          expect(farthest(top, prompt.topLogprobs[row]!), prompt.name).toBeLessThan(LOGPROB);
        }
      }
    }, 120_000);

    it('says the greedy replies, all at once', async () => {
      const { replies, eosId } = oracle<GreedyFile>('greedy');
      const stopIds = Int32Array.of(eosId);
      const said = await Promise.all(
        replies.map(
          (reply) => policy.generate(Int32Array.from(reply.promptIds), { ...greedySampling, stopIds }).result,
        ),
      );
      for (const [i, reply] of replies.entries()) {
        expect([...said[i]!.ids]).toEqual(reply.ids);
        expect(farthest(said[i]!.logprobs, reply.logprobs)).toBeLessThan(LOGPROB);
      }
    }, 120_000);

    it('scores student and teachers alike on both lanes', async () => {
      const file = oracle<TeacherFile>('teacher');
      const reply = file.replyIds;
      const gather = Int32Array.from(file.student.topIds.flat());
      const { promptIds: studentPrompt, student } = file;
      const readers = [{ ...student, promptIds: studentPrompt, onStudentTop: student.topLogprobs }, ...file.teachers];
      for (const [i, teacher] of readers.entries()) {
        const { promptIds } = teacher;
        const ids = Int32Array.from([...promptIds, ...reply]);
        const lane = i % 2 === 0 ? 'serve' : 'train';
        const scored = await policy.score(ids, { from: promptIds.length, topK: 20, gather, version: 'base', lane });
        expect(farthest(scored.logprobs, teacher.replyLogprobs)).toBeLessThan(LOGPROB);
        expect(farthest(scored.topLogprobs, teacher.topLogprobs.flat())).toBeLessThan(LOGPROB);
        const onStudent = 'onStudentTop' in teacher ? teacher.onStudentTop : file.student.topLogprobs;
        expect(farthest(scored.gathered!, onStudent.flat())).toBeLessThan(LOGPROB);
        for (const [position, expected] of teacher.topIds.entries()) {
          const got = scored.topIds.subarray(position * 20, position * 20 + 20);
          expect(new Set(got)).toEqual(new Set(expected));
        }
      }
    }, 120_000);

    describe('training', () => {
      const file = oracle<LoraFile>('lora');
      const { rank, alpha, targets } = file.lora;

      function shape(target: string): [number, number] {
        const { hidden, heads, kvHeads, headDim, ffn } = policy.config;
        const q = heads * headDim;
        const kv = kvHeads * headDim;
        const shapes: Record<string, [number, number]> = {
          q_proj: [q, hidden],
          k_proj: [kv, hidden],
          v_proj: [kv, hidden],
          o_proj: [hidden, q],
          gate_proj: [ffn, hidden],
          up_proj: [ffn, hidden],
          down_proj: [hidden, ffn],
        };
        return shapes[target]!;
      }

      async function fixtureTrainer() {
        const tensors = fixtureAdapter(file.lora, { layers: policy.layers, shape });
        expect(farthest(tensors['layers.0.q_proj.A']!.subarray(0, 8), file.lora.firstA)).toBeLessThan(1e-12);
        expect(farthest(tensors['layers.0.q_proj.B']!.subarray(0, 8), file.lora.firstB)).toBeLessThan(1e-12);
        const trainer = policy.trainer({ rank, alpha, targets });
        await trainer.importState({ step: 0, tensors });
        return { trainer, tensors };
      }

      const sequence = (turn: Pick<Turn, 'promptIds' | 'replyIds'>) =>
        Int32Array.from([...turn.promptIds, ...turn.replyIds]);
      const base = (turn: Pick<Turn, 'promptIds' | 'mask'>): NativeSequenceLoss => ({
        from: turn.promptIds.length,
        mask: Float32Array.from(turn.mask),
        epsLow: 0.2,
        epsHigh: 0.28,
      });
      const rl = (turn: Turn, advantage: number, wRl: number): NativeSequenceLoss => ({
        advantage: new Float32Array(turn.replyIds.length).fill(advantage),
        oldLogprob: Float32Array.from(turn.oldLogprobs),
        wRl,
        from: turn.promptIds.length,
      });
      const opd = (turn: Turn, k: number, deltaClip: number, wOpd: number): NativeSequenceLoss => ({
        k,
        deltaClip,
        wOpd,
        topIds: Int32Array.from(turn.topIds!.flatMap((row) => row.slice(0, k))),
        topOld: Float32Array.from(turn.topOldLogprobs!.flatMap((row) => row.slice(0, k))),
        topTeacher: Float32Array.from(turn.topTeacherLogprobs!.flatMap((row) => row.slice(0, k))),
        from: turn.promptIds.length,
      });
      const hybrid = (k: number, wRl: number): NativeSequenceLoss[] => {
        const rewarded = file.turns.filter((turn) => turn.reward !== null).length;
        const hinted = file.turns.filter((turn) => turn.topIds !== undefined).length;
        return file.turns.map((turn) => ({
          ...base(turn),
          ...(turn.reward === null ? {} : rl(turn, turn.reward, wRl / rewarded)),
          ...(turn.topIds === undefined ? {} : opd(turn, k, 1, 1 / hinted)),
        }));
      };
      const first = file.turns[0]!;
      const losses: Record<string, NativeSequenceLoss[]> = {
        ce: [{ ...base(first), ce: 1 }],
        'ppo+1': [{ ...base(first), ...rl(first, 1, 1) }],
        'ppo-1': [{ ...base(first), ...rl(first, -1, 1) }],
        'opd-k20': [{ ...base(first), ...opd(first, 20, 1, 1) }],
        'opd-k4-C2': [{ ...base(first), ...opd(first, 4, 2, 1) }],
        hybrid: hybrid(20, 1),
        'hybrid-0.3': hybrid(4, 0.3),
      };

      it('gives the losses and the gradient of every matrix', async () => {
        const { trainer } = await fixtureTrainer();
        const batch = await trainer.prepare(file.turns.map(sequence));
        for (const expected of file.cases) {
          const of = [...losses[expected.name]!, null, null].slice(0, 3);
          await trainer.zeroGrad();
          const report = await trainer.forwardBackward(batch, of, { curLogprobs: true });
          expect(Math.abs(report.loss - expected.loss), `${expected.name}: loss`).toBeLessThan(LOSS);
          if (expected.curLogprobs)
            expect(farthest(report.curLogprobs![0]!, expected.curLogprobs), expected.name).toBeLessThan(LOGPROB);
          checkGradients(expected.name, await trainer.exportGradients(), expected.grads);
        }
        batch.dispose();
        trainer.dispose();
      }, 300_000);

      function checkGradients(
        name: string,
        gradients: Record<string, Float32Array>,
        expected: Record<string, number[]>,
      ) {
        expect(Object.keys(gradients).length).toBe(Object.keys(expected).length);
        let worstNorm = 0;
        let worstEntry = 0;
        for (const [matrix, [norm, ...entries]] of Object.entries(expected)) {
          const gradient = gradients[`layers.${matrix}`]!;
          const ours = Math.sqrt(gradient.reduce((sum, g) => sum + g * g, 0));
          worstNorm = Math.max(worstNorm, Math.abs(ours - norm!) / norm!);
          const rms = norm! / Math.sqrt(gradient.length);
          const picked = entries.map((_, j) => gradient[(j * 7919 + 31) % gradient.length]!);
          worstEntry = Math.max(worstEntry, farthest(picked, entries) / rms);
        }
        expect(worstNorm, `${name}: gradient norm`).toBeLessThan(GRADIENT_NORM);
        expect(worstEntry, `${name}: gradient entry`).toBeLessThan(GRADIENT_ENTRY);
      }

      it('takes the AdamW steps, and what it publishes is what it trained', async () => {
        const adam = oracle<AdamFile>('adamw');
        const { trainer } = await fixtureTrainer();
        const batch = await trainer.prepare([sequence(adam.turn)]);
        const loss: NativeSequenceLoss = { ...base(adam.turn), ce: 1 };
        const { gradClip, ...hyper } = adam.hyper;
        for (const step of adam.steps) {
          const before = await trainer.forwardBackward(batch, [loss]);
          expect(Math.abs(before.loss - step.lossBefore)).toBeLessThan(1e-3);
          const { gradNorm, skipped } = await trainer.optimStep({ ...hyper, maxGradNorm: gradClip });
          expect(skipped).toBe(false);
          expect(Math.abs(gradNorm / step.gradNormBeforeClip - 1)).toBeLessThan(5e-3);
          await trainer.zeroGrad();
        }
        const report = await trainer.forwardBackward(batch, [loss], { curLogprobs: true });
        expect(Math.abs(report.loss - adam.steps.at(-1)!.lossAfter)).toBeLessThan(1e-3);

        await trainer.publish('smollm2@trained');
        const scored = await policy.score(sequence(adam.turn), { from: adam.turn.promptIds.length });
        expect(scored.version).toBe('smollm2@trained');
        expect(farthest(scored.logprobs, report.curLogprobs![0]!)).toBeLessThan(LOGPROB);

        const { tensors } = await trainer.exportState(false);
        await policy.setAdapter({ rank, alpha, tensors }, 'smollm2@loaded');
        const loaded = await policy.score(sequence(adam.turn), { from: adam.turn.promptIds.length });
        expect(farthest(loaded.logprobs, scored.logprobs)).toBeLessThan(1e-5);
        trainer.dispose();
      }, 300_000);
    });
  },
);
