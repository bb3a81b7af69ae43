/**
 * The two scenes of the demo behind one shape: word problems for the built-in model, everyday questions for a public one.
 * A task knows what its person knows: the question, the rule they care about, what a right answer looks like.
 */
import {
  answersQuestion,
  HELD_OUT_QUESTIONS,
  obeysShort,
  type Question,
  reactToAnswer,
  SESSION_QUESTIONS,
  type ShownReply,
} from '../everyday.js';
import { correct, frame, obeys, PERSONAS, type Persona, type PersonaChoice, react } from '../personas.js';
import { type Problem, problemSet } from '../problems.js';
import { Random } from '../random.js';

export type { ShownReply } from '../everyday.js';

export interface Task {
  persona: string;
  question: string;
  obeys(reply: ShownReply): boolean;
  correct(reply: ShownReply): boolean;
  /** what the person says after reading, and whether they are done */
  react(reply: ShownReply, rng: Random): { content: string; satisfied: boolean };
}

export interface Scene {
  name: 'stories' | 'everyday';
  temperature: number;
  /** tokens of a reply at most */ maxTokens: number;
  /** sessions a run has when nobody says */ sessions: number;
  /** the task of session `index` (0-based) */ task(index: number): Task;
  /** tasks never talked about, the same for the same seed */ heldOut(count: number): Task[];
}

function storyTask(problem: Problem, persona: Persona, rng: Random): Task {
  return {
    persona,
    question: frame(persona, rng) + problem.text,
    obeys: (reply) => obeys(reply.text, persona),
    correct: (reply) => correct(reply.text, problem),
    react: (reply, words) => react(reply.text, persona, problem, words),
  };
}

export function storyScene(persona: PersonaChoice, seed: number): Scene {
  const who = (i: number): Persona => (persona === 'joint' ? PERSONAS[i % PERSONAS.length]! : persona);
  const make = (split: 'session' | 'held-out', problems: Problem[]) => (i: number) =>
    storyTask(problems[i % problems.length]!, who(i), new Random(`frame:${split}:${seed}:${i}`));
  const session = make('session', problemSet(seed, 'session', 200));
  return {
    name: 'stories',
    temperature: 0.6,
    maxTokens: 160,
    sessions: 30,
    task: session,
    heldOut(count) {
      return Array.from({ length: count }, (_, i) => i).map(make('held-out', problemSet(seed, 'held-out', count)));
    },
  };
}

function everydayTask(question: Question): Task {
  return {
    persona: 'student',
    question: question.text,
    obeys: obeysShort,
    correct: (reply) => answersQuestion(reply.text, question),
    react: (reply, rng) => reactToAnswer(reply, question, rng),
  };
}

export function everydayScene(seed: number): Scene {
  const order = shuffled(SESSION_QUESTIONS, new Random(`everyday:${seed}`));
  return {
    name: 'everyday',
    temperature: 0.7,
    maxTokens: 80,
    sessions: 24,
    task: (i) => everydayTask(order[i % order.length]!),
    heldOut: (count) =>
      Array.from({ length: count }, (_, i) => everydayTask(HELD_OUT_QUESTIONS[i % HELD_OUT_QUESTIONS.length]!)),
  };
}

function shuffled<T>(items: readonly T[], rng: Random): T[] {
  const out = [...items];
  for (let i = out.length - 1; i > 0; i--) {
    const j = rng.int(0, i);
    [out[i], out[j]] = [out[j]!, out[i]!];
  }
  return out;
}
