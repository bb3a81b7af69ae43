/** One judge's opinion. `score` null: the vote failed and says nothing; `failure` says how. */
export interface Vote {
  judge: string;
  score: -1 | 0 | 1 | null;
  /** one to three sentences a better reply would follow, when the next state holds a usable correction */ hint:
    | string
    | null;
  failure: 'timeout' | 'transport' | 'unreadable' | null;
  ms: number;
  /** tokens the vote cost, null when not known */ tokens: number | null;
}

export interface Verdict {
  /** majority of the readable votes, a tie is 0; null: no vote could be read, or only implied */ reward: number | null;
  status: 'scored' | 'abstained' | 'failed' | 'implied';
  votes: Vote[];
  /** at most M, duplicates dropped, shortest first */ hints: string[];
  /** deterministic reasons that overruled the votes, e.g. "tool-error" */ vetoes: string[];
}
