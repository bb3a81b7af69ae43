import { z } from 'zod';

/** Why a turn is not (or not yet) training data. Every one is counted and shown; none is silent. */
export const REFUSALS = [
  /** the session ended and nothing followed the reply */ 'no-next-state',
  /** no judge vote could be read */ 'abstained',
  /** sampled by a version too far behind the live one */ 'stale',
  /** cut at the length limit */ 'truncated',
  /** the client was gone before the reply's last byte */ 'aborted',
  /** repeats itself or is empty */ 'degenerate',
  /** its session or user already fills its share of the batch */ 'over-share',
  /** the same request id or body was recorded before */ 'duplicate',
  /** the user opted out */ 'opted-out',
  /** no log-probs for exactly these ids */ 'no-logprobs',
  /** prompt and reply exceed what the trainer takes */ 'too-long',
  /** the update that used it did not pass the gate */ 'gate-failed',
  /** side request (title, summary …), not part of the talk */ 'side-turn',
  /** judged, but neither a reward that moves anything nor a hint */ 'no-signal',
  /** the method in force cannot use what the verdict holds */ 'method-mismatch',
] as const;

export const refusalSchema = z.enum(REFUSALS);
export type Refusal = z.infer<typeof refusalSchema>;
