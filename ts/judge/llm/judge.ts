/**
 * A judge model behind any OpenAI-compatible endpoint: m votes at once, the majority counts. A vote that failed (timeout,
 * transport, unreadable) is left out, never counted as 0; no readable vote is an abstention. Facts overrule votes (vetoes).
 */
import OpenAI, { APIConnectionTimeoutError, APIUserAbortError } from 'openai';
import { OpenClawError, type Verdict, type Vote } from '../../record/index.js';
import type { Judge, JudgeItem } from '../ports.js';
import { keepHints } from '../rules/hints.js';
import { vetoesOf } from '../vetoes.js';
import { parseOpinion } from './parse.js';
import { judgeMessages } from './prompt.js';
import { Slots } from './slots.js';

export interface LlmJudgeOptions {
  /** of an OpenAI-compatible API, with its /v1 */ baseUrl: string;
  model: string;
  apiKey?: string;
  /** m, default 3 */ votes?: number;
  /** default 0.6 */ temperature?: number;
  /** one vote from asking to reading, retries included, default 60 s */ deadlineMs?: number;
  /** M, default 3 */ maxHints?: number;
  /** requests at once over all turns, default 8 */ maxInFlight?: number;
  /** tokens of one opinion at most, default 1024 */ maxTokens?: number;
  /** further tries after a transport error, default 2 */ maxRetries?: number;
}

type Settings = Required<Omit<LlmJudgeOptions, 'apiKey'>>;

const DEFAULTS = {
  votes: 3,
  temperature: 0.6,
  deadlineMs: 60_000,
  maxHints: 3,
  maxInFlight: 8,
  maxTokens: 1024,
  maxRetries: 2,
};

export function createLlmJudge({ apiKey, ...o }: LlmJudgeOptions): Judge {
  const settings: Settings = { ...DEFAULTS, ...o };
  if (!Number.isInteger(settings.votes) || settings.votes < 1) {
    throw new OpenClawError('E_CONFIG', `judge votes: a whole number from 1, got ${settings.votes}`, 'judge.votes');
  }
  const panel = new Panel(settings, newClient(settings, apiKey));
  return { judge: (item, signal) => panel.judge(item, signal) };
}

/** Everything is named, so that the client reads nothing from the environment. */
function newClient(settings: Settings, apiKey: string | undefined): OpenAI {
  return new OpenAI({
    baseURL: settings.baseUrl,
    apiKey: apiKey ?? 'none',
    organization: null,
    project: null,
    webhookSecret: null,
    logLevel: 'off',
    timeout: settings.deadlineMs,
    maxRetries: settings.maxRetries,
  });
}

class Panel {
  readonly #slots: Slots;

  constructor(
    private readonly settings: Settings,
    private readonly client: OpenAI,
  ) {
    this.#slots = new Slots(settings.maxInFlight);
  }

  async judge(item: JudgeItem, signal: AbortSignal): Promise<Verdict> {
    const messages = judgeMessages(item);
    const asked = Array.from({ length: this.settings.votes }, () =>
      this.#slots.run(() => this.#vote(messages, signal), signal),
    );
    const votes = await Promise.all(asked);
    signal.throwIfAborted();
    return toVerdict(votes, vetoesOf(item.turn, item.next), this.settings.maxHints);
  }

  async #vote(messages: ReturnType<typeof judgeMessages>, signal: AbortSignal): Promise<Vote> {
    const { model, temperature, maxTokens, deadlineMs } = this.settings;
    const started = performance.now();
    const done = (rest: Omit<Vote, 'judge' | 'ms'>): Vote => ({
      judge: model,
      ms: performance.now() - started,
      ...rest,
    });
    const deadline = AbortSignal.timeout(deadlineMs);
    try {
      const request = { model, temperature, max_tokens: maxTokens, messages };
      const completion = await this.client.chat.completions.create(request, {
        signal: AbortSignal.any([signal, deadline]),
      });
      const opinion = parseOpinion(completion.choices?.[0]?.message?.content ?? '');
      const tokens = completion.usage?.total_tokens ?? null;
      if (opinion === null) return done({ score: null, hint: null, failure: 'unreadable', tokens });
      return done({ ...opinion, failure: null, tokens });
    } catch (error) {
      return done({ score: null, hint: null, failure: failureOf(error, deadline), tokens: null });
    }
  }
}

function failureOf(error: unknown, deadline: AbortSignal): NonNullable<Vote['failure']> {
  if (error instanceof APIConnectionTimeoutError) return 'timeout';
  if (error instanceof APIUserAbortError || deadline.aborted) return 'timeout';
  // A body that is no JSON reached us: the service answered, but not in a way that can be read.
  return error instanceof SyntaxError ? 'unreadable' : 'transport';
}

/** Majority of the readable votes, a tie is 0. */
export function majority(scores: ReadonlyArray<-1 | 0 | 1>): -1 | 0 | 1 {
  const counts = ([1, 0, -1] as const).map((score) => ({ score, n: scores.filter((s) => s === score).length }));
  const most = Math.max(...counts.map(({ n }) => n));
  const winners = counts.filter(({ n }) => n === most);
  return winners.length === 1 ? winners[0]!.score : 0;
}

export function toVerdict(votes: Vote[], vetoes: string[], maxHints: number): Verdict {
  const scores = votes.map((vote) => vote.score).filter((score) => score !== null);
  const hints = shortestHints(votes, maxHints);
  if (vetoes.length > 0) return { reward: -1, status: 'scored', votes, hints, vetoes };
  if (scores.length === 0) return { reward: null, status: 'abstained', votes, hints: [], vetoes };
  return { reward: majority(scores), status: 'scored', votes, hints, vetoes };
}

/** Shortest first, then at most M (method.md §1). */
function shortestHints(votes: readonly Vote[], max: number): string[] {
  const hints = votes.map((vote) => vote.hint).filter((hint) => hint !== null);
  return keepHints(
    hints.sort((a, b) => a.length - b.length),
    max,
  );
}
