/** What the page knows, as one value; events move it from one to the next. */
import type { ServerEvent, Status, Version } from './api.js';

export interface DemoSession {
  index: number;
  obeys: boolean;
  correct: boolean;
  version: string | null;
}

/** What became of a turn, as far as events told. */
export interface TurnFate {
  state: 'served' | 'observed' | 'judged' | 'trained' | 'refused';
  reward?: number | null;
  hints?: number;
  detail?: string | null;
}

export interface Learning {
  /** what an update is doing; null: none runs */ step: { label: string; share: number | null } | null;
  skipped: string | null;
}

export interface PageState {
  connection: 'connecting' | 'open' | 'lost' | 'no-key';
  status: Status | null;
  versions: Version[];
  sessions: DemoSession[];
  rewards: number[];
  fates: Record<string, TurnFate>;
  learning: Learning;
  lastEvent: number;
}

export const START: PageState = {
  connection: 'connecting',
  status: null,
  versions: [],
  sessions: [],
  rewards: [],
  fates: {},
  learning: { step: null, skipped: null },
  lastEvent: 0,
};

export type Action =
  | { do: 'connection'; is: PageState['connection'] }
  | { do: 'status'; status: Status }
  | { do: 'versions'; versions: Version[] }
  | { do: 'events'; events: ServerEvent[] }
  | { do: 'fate'; turnId: string; fate: TurnFate };

const MAX_REWARDS = 400;

export function reduce(state: PageState, action: Action): PageState {
  switch (action.do) {
    case 'connection':
      return { ...state, connection: action.is };
    case 'status':
      return { ...state, status: action.status };
    case 'versions':
      return { ...state, versions: action.versions };
    case 'fate':
      return { ...state, fates: { ...state.fates, [action.turnId]: action.fate } };
    case 'events':
      return action.events.reduce(happened, state);
  }
}

function happened(state: PageState, event: ServerEvent): PageState {
  // A server that started again counts from 1 again.
  const next = { ...state, lastEvent: event.id };
  switch (event.type) {
    case 'demo.session':
      return { ...next, sessions: withSession(state.sessions, event) };
    case 'turn.served':
      return fate(next, event, { state: 'served' });
    case 'turn.observed':
      return fate(next, event, { state: 'observed' });
    case 'turn.judged':
      return {
        ...fate(next, event, { state: 'judged', reward: event.reward ?? null, hints: event.hints ?? 0 }),
        rewards: withReward(state.rewards, event),
      };
    case 'turn.refused':
      return fate(next, event, { state: 'refused', detail: event.reason ?? null });
    default:
      return { ...next, learning: learned(state.learning, event) };
  }
}

function fate(state: PageState, event: ServerEvent, is: TurnFate): PageState {
  return event.turnId ? { ...state, fates: { ...state.fates, [event.turnId]: is } } : state;
}

function withSession(sessions: DemoSession[], event: ServerEvent): DemoSession[] {
  const session = {
    index: event.index ?? 0,
    obeys: event.firstReplyObeys ?? false,
    correct: event.correct ?? false,
    version: event.version ?? null,
  };
  const others = sessions.filter((s) => s.index !== session.index);
  return [...others, session].sort((a, b) => a.index - b.index);
}

function withReward(rewards: number[], event: ServerEvent): number[] {
  return typeof event.reward === 'number' ? [...rewards, event.reward].slice(-MAX_REWARDS) : rewards;
}

function learned(learning: Learning, event: ServerEvent): Learning {
  switch (event.type) {
    case 'update.started':
      return { step: { label: `${event.turns ?? 0} turns`, share: null }, skipped: null };
    case 'update.progress':
      return {
        ...learning,
        step: {
          label: event.stage === 'scoring' ? 'asking the teacher' : 'training',
          share: event.total ? (event.done ?? 0) / event.total : null,
        },
      };
    case 'update.done':
      return { step: null, skipped: null };
    case 'update.skipped':
    case 'update.failed':
      return { step: null, skipped: event.reason ?? event.type };
    default:
      return learning;
  }
}

/** Mean of each value and the two before it. */
export function movingMean(values: readonly number[], width = 3): number[] {
  return values.map((_, i) => {
    const window = values.slice(Math.max(0, i - width + 1), i + 1);
    return window.reduce((sum, value) => sum + value, 0) / window.length;
  });
}

/** "claw-nano@12-1a2b3c4d" → "12-1a2b3c4d": the model is named elsewhere. */
export const shortVersion = (version: string): string => version.slice(version.lastIndexOf('@') + 1) || version;
