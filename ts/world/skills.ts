/**
 * What a nano model can do, measured on held-out stories: right answers, the habit, hints followed, corrections followed,
 * grading, and how strongly the hinted teacher speaks on replies that break the hint.
 */
import { HINT_TAG, type Message } from '../record/index.js';
import { verdictQuestion } from './corpus.js';
import { brokenRules, correct, frame, obeys } from './personas.js';
import { type Problem, problemSet } from './problems.js';
import { Random } from './random.js';
import { AI_STYLE, replyText } from './reply.js';
import { complaint, hintFor, type Wish } from './wishes.js';

export interface SkillPolicy {
  renderChat(messages: readonly Message[], o?: { addGenerationPrompt?: boolean }): Int32Array;
  generate(
    ids: Int32Array,
    sampling: {
      temperature: number;
      topP: number;
      topK: number;
      maxTokens: number;
      seed: number | null;
      stop: string[];
    },
  ): { result: Promise<{ text: string; finish: string }> };
  score(ids: Int32Array, o: { from: number }): Promise<{ logprobs: Float32Array }>;
}

export interface HintSkill {
  obeys: number;
  correct: number;
}

export interface Skills {
  /** unhinted replies */ base: { student: number; assistant: number; teacher: number; correct: number };
  /** by wish: replies with a hint in the prompt */ hinted: Record<string, HintSkill>;
  /** by wish: replies after a complaint about an earlier one */ corrected: Record<string, HintSkill>;
  /** right verdicts */ grading: number;
  /** mean of log p(teacher) - log p(student) over a breaking reply's first token and over all its tokens, nats */ teacher: {
    first: number;
    all: number;
  };
}

const SAMPLING = { temperature: 0.6, topP: 1, topK: 0, maxTokens: 220, stop: [] as string[] };

/** Whether a reply grants one of the wishes that a person can have. */
function granted(text: string, wish: Wish): boolean {
  if (wish === 'long') return obeys(text, 'assistant');
  if (wish === 'warm') return obeys(text, 'teacher');
  const broken = brokenRules(text, 'student');
  return text.trim() !== '' && (wish === 'plain' ? broken.length === 0 : !broken.includes(wish));
}

const HINTED: readonly Wish[] = ['no-bold', 'no-numbers', 'no-box', 'plain', 'long', 'warm'];
const CORRECTED: readonly Wish[] = ['no-bold', 'no-numbers', 'no-box', 'long', 'warm'];

interface Asked {
  problem: Problem;
  messages: Message[];
}

const share = (flags: boolean[]): number => flags.filter(Boolean).length / flags.length;
const user = (content: string): Message => ({ role: 'user', content });

export async function measureSkills(policy: SkillPolicy, o: { seed: number; replies: number }): Promise<Skills> {
  const rng = new Random(`skills:${o.seed}`);
  const few = Math.ceil(o.replies / 4);
  const problems = (name: string, count: number): Problem[] =>
    problemSet(`skills:${name}:${o.seed}`, 'held-out', count);
  const say = (asked: Asked[]): Promise<string[]> => replies(policy, asked, rng);

  const asked = problems('base', o.replies).map((problem) => ({
    problem,
    messages: [user(frame('student', rng) + problem.text)],
  }));
  const base = await say(asked);

  const hinted: Record<string, HintSkill> = {};
  for (const wish of HINTED) {
    const cases = problems(`hint:${wish}`, few).map((problem) => ({
      problem,
      messages: [user(frame('student', rng) + problem.text + HINT_TAG + hintFor(wish, rng))],
    }));
    hinted[wish] = hintSkill(cases, await say(cases), wish);
  }
  const corrected: Record<string, HintSkill> = {};
  for (const wish of CORRECTED) {
    const cases = problems(`corrected:${wish}`, few).map((problem) => ({
      problem,
      messages: [
        user(frame('student', rng) + problem.text),
        { role: 'assistant' as const, content: replyText(problem, AI_STYLE, rng) },
        user(complaint(wish, rng)),
      ],
    }));
    corrected[wish] = hintSkill(cases, await say(cases), wish);
  }
  return {
    base: {
      student: share(base.map((text) => obeys(text, 'student'))),
      assistant: share(base.map((text) => obeys(text, 'assistant'))),
      teacher: share(base.map((text) => obeys(text, 'teacher'))),
      correct: share(base.map((text, i) => correct(text, asked[i]!.problem))),
    },
    hinted,
    corrected,
    grading: await gradingSkill(policy, problems('grading', few), rng),
    teacher: await teacherSignal(policy, problems('teacher', few), rng),
  };
}

function hintSkill(cases: Asked[], texts: string[], wish: Wish): HintSkill {
  return {
    obeys: share(texts.map((text) => granted(text, wish))),
    correct: share(texts.map((text, i) => correct(text, cases[i]!.problem))),
  };
}

/** Replies of all cases, computed together. */
function replies(policy: SkillPolicy, cases: ReadonlyArray<{ messages: Message[] }>, rng: Random): Promise<string[]> {
  return Promise.all(
    cases.map(async ({ messages }) => {
      const seed = rng.int(0, 2 ** 31 - 1);
      const { text } = await policy.generate(policy.renderChat(messages), { ...SAMPLING, seed }).result;
      return text;
    }),
  );
}

async function gradingSkill(policy: SkillPolicy, problems: Problem[], rng: Random): Promise<number> {
  const cases = problems.map((problem) => verdictQuestion(problem, rng));
  const texts = await replies(
    policy,
    cases.map((c) => ({ messages: [user(c.question)] })),
    rng,
  );
  return share(texts.map((text, i) => text.includes(`\\boxed{${cases[i]!.right ? 1 : -1}}`)));
}

/** How much less the hinted teacher thinks of a habit reply than the student does: what distillation has to go by. */
async function teacherSignal(
  policy: SkillPolicy,
  problems: Problem[],
  rng: Random,
): Promise<{ first: number; all: number }> {
  let first = 0;
  let all = 0;
  for (const problem of problems) {
    const reply: Message = { role: 'assistant', content: replyText(problem, AI_STYLE, rng) };
    const hint = HINT_TAG + hintFor('plain', rng);
    const student = await replyLogprobs(policy, [user(problem.text)], reply);
    const teacher = await replyLogprobs(policy, [user(problem.text + hint)], reply);
    first += (teacher[0]! - student[0]!) / problems.length;
    all += student.reduce((sum, l, i) => sum + (teacher[i]! - l) / student.length, 0) / problems.length;
  }
  return { first, all };
}

async function replyLogprobs(policy: SkillPolicy, prompt: Message[], reply: Message): Promise<Float32Array> {
  const from = policy.renderChat(prompt).length;
  const ids = policy.renderChat([...prompt, reply], { addGenerationPrompt: false });
  return (await policy.score(ids, { from })).logprobs;
}

/** A short table of the figures. */
export function skillLines(s: Skills): string[] {
  const pc = (x: number): string => `${Math.round(100 * x)} %`;
  const row = ([wish, k]: [string, HintSkill]): string => `${wish} ${pc(k.obeys)} (right ${pc(k.correct)})`;
  return [
    `base: right ${pc(s.base.correct)}; obeys student ${pc(s.base.student)}, assistant ${pc(s.base.assistant)}, teacher ${pc(s.base.teacher)}`,
    `hint followed: ${Object.entries(s.hinted).map(row).join(', ')}`,
    `correction followed: ${Object.entries(s.corrected).map(row).join(', ')}`,
    `grading right ${pc(s.grading)}; teacher on breaking replies: ${s.teacher.first.toFixed(2)} nats on the first token, ${s.teacher.all.toFixed(2)} on all`,
  ];
}
