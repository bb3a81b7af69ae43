/**
 * Which judged turns may be trained, and why not. Pure: takes the turns and the state of the world, returns two lists.
 * Nothing is dropped without a name.
 */
import type { Refusal } from '../record/index.js';
import type { TrainConfig } from './config.js';
import type { JudgedTurn } from './ports.js';

export interface Admitted extends JudgedTurn {
  /** null: the reward term says nothing about this turn */ reward: number | null;
  /** empty: no distillation term */ hints: string[];
}

export interface Admission {
  admitted: Admitted[];
  refused: Array<{ turnId: string; reason: Refusal }>;
}

/**
 * @param lagOf versions between the one that sampled a turn and the live one; null: not known (counts as stale)
 */
export function admit(
  turns: JudgedTurn[],
  config: TrainConfig,
  lagOf: (version: string | null) => number | null,
): Admission {
  const admitted: Admitted[] = [];
  const refused: Admission['refused'] = [];
  const perSession = new Map<string, number>();
  for (const judged of turns) {
    const signal = signalOf(judged, config);
    const reason = refusalOf(judged, signal, config, lagOf) ?? overShare(judged, perSession, config);
    if (reason) refused.push({ turnId: judged.turn.id, reason });
    else {
      perSession.set(judged.turn.sessionId, (perSession.get(judged.turn.sessionId) ?? 0) + 1);
      admitted.push({ ...judged, ...signal });
    }
  }
  return keepOne({ admitted, refused }, turns, config);
}

interface Signal {
  reward: number | null;
  hints: string[];
}

/** What the method in force can use of a verdict. A cut reply has no reward: it says nothing of how the reply would have ended. */
function signalOf({ turn, verdict }: JudgedTurn, config: TrainConfig): Signal {
  const cut = turn.finish === 'length';
  return {
    reward: config.method === 'opd' || cut ? null : verdict.reward,
    hints: config.method === 'rl' ? [] : verdict.hints.slice(0, config.maxHints),
  };
}

function refusalOf(
  { turn, verdict }: JudgedTurn,
  signal: Signal,
  config: TrainConfig,
  lagOf: (version: string | null) => number | null,
): Refusal | null {
  if (turn.kind === 'side') return 'side-turn';
  if (turn.finish === 'abort') return 'aborted';
  if (verdict.status === 'abstained' || verdict.status === 'failed') return 'abstained';
  if (!turn.logprobs || turn.logprobs.length !== turn.responseIds.length) return 'no-logprobs';
  if (isDegenerate(turn.responseIds)) return 'degenerate';
  if (turn.promptIds.length + turn.responseIds.length > config.admission.maxTokens) return 'too-long';
  const lag = lagOf(turn.version);
  if (lag === null || lag > config.admission.maxVersionLag) return 'stale';
  if (turn.finish === 'length' && (config.admission.truncated === 'refuse' || signal.hints.length === 0))
    return 'truncated';
  if (signal.reward === null && signal.hints.length === 0) {
    const other = verdict.reward !== null || verdict.hints.length > 0;
    return other ? 'method-mismatch' : 'no-signal';
  }
  if (signal.hints.length === 0 && signal.reward === 0) return 'no-signal';
  return null;
}

function overShare({ turn }: JudgedTurn, perSession: Map<string, number>, config: TrainConfig): Refusal | null {
  return (perSession.get(turn.sessionId) ?? 0) >= config.admission.maxPerSession ? 'over-share' : null;
}

/** "At least one": where every turn of a session fell out only because it scored 0, one stays in (default for rl only). */
function keepOne(admission: Admission, turns: JudgedTurn[], config: TrainConfig): Admission {
  if (!(config.keepOnePerSession ?? config.method === 'rl')) return admission;
  const present = new Set(admission.admitted.map((a) => a.turn.sessionId));
  for (const judged of turns) {
    const at = admission.refused.findIndex((r) => r.turnId === judged.turn.id && r.reason === 'no-signal');
    if (at < 0 || judged.verdict.reward !== 0 || present.has(judged.turn.sessionId)) continue;
    admission.refused.splice(at, 1);
    admission.admitted.push({ ...judged, reward: 0, hints: [] });
    present.add(judged.turn.sessionId);
  }
  return admission;
}

/** Empty, or so repetitive that fewer than a third of its trigrams are different: such text feeds on itself when trained. */
export function isDegenerate(ids: Int32Array): boolean {
  if (ids.length < 2) return true;
  if (ids.length < 24) return false;
  const seen = new Set<string>();
  for (let i = 0; i + 2 < ids.length; i++) seen.add(`${ids[i]},${ids[i + 1]},${ids[i + 2]}`);
  return seen.size / (ids.length - 2) < 1 / 3;
}
