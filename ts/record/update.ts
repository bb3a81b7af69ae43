/** One training step over a batch of turns and the version it made. */
export interface Update {
  id: string;
  /** `<model>@<n>-<hash8>`; immutable, never reused */ version: string;
  parent: string | null;
  method: 'hybrid' | 'rl' | 'opd';
  turnIds: string[];
  metrics: Record<string, number>;
  /** held-out probes, empty where none is configured */ probes: Record<string, number>;
  state: 'candidate' | 'live' | 'retired' | 'rolled-back' | 'discarded';
  /** folder with adapter and optimiser state, relative to the data folder; null for the base version */ folder:
    | string
    | null;
  /** ms since the epoch */ createdAt: number;
}
