/**
 * The student's and the teacher's log-probs over the reply's own tokens, and the choice of the hint.
 *
 * Teacher: the same weights, the same reply ids, a prompt with the hint appended to the last user message. S_i is the
 * student's top-k under the weights before this update; l_old and l_T are read on exactly those ids.
 */
import { withHint } from '../record/hint.js';
import type { Admitted } from './admission.js';
import type { TrainConfig } from './config.js';
import type { OverlapKernel, Scored, TrainPolicy } from './ports.js';

/** One turn with all its log-probs; T reply tokens, k wide. Absent terms are null. */
export interface ScoredTurn {
  admitted: Admitted;
  /** [P+T] prompt and reply */ ids: Int32Array;
  /** P */ promptLength: number;
  /** [T] under the weights before this update */ oldLogprobs: Float32Array;
  /** [T] under the base weights, for the k3 term; null when beta is 0 */ refLogprobs: Float32Array | null;
  distill: {
    /** [T*k] S_i */ topIds: Int32Array;
    /** [T*k] l_old */ topOld: Float32Array;
    /** [T*k] l_T of the chosen hint */ topTeacher: Float32Array;
    /** which hint won (sequence level), and O summed per hint */ hint: number;
    sums: number[];
    /** mean over tokens of l_T(y) - l_old(y): how much the chosen hint disagrees with the reply */ gain: number;
  } | null;
}

export async function scoreTurn(
  admitted: Admitted,
  policy: TrainPolicy,
  kernels: OverlapKernel,
  config: TrainConfig,
): Promise<ScoredTurn> {
  const { turn, hints } = admitted;
  const version = policy.live();
  const k = config.topK;
  const ids = concat(turn.promptIds, turn.responseIds);
  const student = await policy.score(ids, {
    from: turn.promptIds.length,
    topK: hints.length ? k : 0,
    version,
    lane: 'train',
  });
  const reference =
    config.beta > 0
      ? await policy.score(ids, { from: turn.promptIds.length, topK: 0, version: 'base', lane: 'train' })
      : null;
  const base = {
    admitted,
    ids,
    promptLength: turn.promptIds.length,
    oldLogprobs: student.logprobs,
    refLogprobs: reference === null ? null : reference.logprobs,
  };
  if (hints.length === 0) return { ...base, distill: null };
  const teachers: Scored[] = [];
  for (const hint of hints) {
    const prompt = policy.renderChat(withHint(turn.messages, hint), turn.tools.length ? { tools: turn.tools } : {});
    teachers.push(
      await policy.score(concat(prompt, turn.responseIds), {
        from: prompt.length,
        topK: k,
        gather: student.topIds,
        version,
        lane: 'train',
      }),
    );
  }
  return { ...base, distill: choose(student, teachers, turn.responseIds.length, kernels, config) };
}

function choose(student: Scored, teachers: Scored[], T: number, kernels: OverlapKernel, config: TrainConfig) {
  const k = config.topK;
  const tops = new Int32Array(teachers.length * T * k);
  teachers.forEach((teacher, m) => {
    tops.set(teacher.topIds, m * T * k);
  });
  const overlap = kernels.hintOverlap(student.topIds, tops, { M: teachers.length, T, k }, null);
  const chosenAt = (i: number) => (config.hintChoice === 'token' ? overlap.tokenChoice[i]! : overlap.sequenceChoice);
  const topTeacher = new Float32Array(T * k);
  let gain = 0;
  for (let i = 0; i < T; i++) {
    const teacher = teachers[chosenAt(i)]!;
    topTeacher.set(teacher.gathered!.subarray(i * k, (i + 1) * k), i * k);
    gain += (teacher.logprobs[i]! - student.logprobs[i]!) / T;
  }
  return {
    topIds: student.topIds,
    topOld: student.topLogprobs,
    topTeacher,
    hint: overlap.sequenceChoice,
    sums: overlap.sums,
    gain,
  };
}

export function concat(a: Int32Array, b: Int32Array): Int32Array {
  const out = new Int32Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}
