/** Tables as Kysely sees them; migrations.ts says what each is for. */
import type { Generated } from 'kysely';
import type { Finish, Refusal, TurnState, Update } from '../record/index.js';

export interface TurnTable {
  seq: Generated<number>;
  id: string;
  session_id: string;
  user_id: string;
  idx: number;
  kind: 'main' | 'side';
  request_id: string;
  version: string | null;
  /** i32, little-endian */ prompt_ids: Uint8Array;
  /** i32, little-endian */ response_ids: Uint8Array;
  /** f32, little-endian */ logprobs: Uint8Array | null;
  /** JSON */ sampling: string;
  /** JSON list of hashes into `text` */ messages: string;
  /** hash into `text`; null: no tools */ tools: string | null;
  text: string;
  /** JSON */ tool_calls: string;
  finish: Finish;
  served_at: number;
  chain_prompt: string;
  chain_strict: string;
  chain_loose: string;
  chain_system: string;
  state: TurnState;
  refusal: Refusal | null;
  trained_version: string | null;
}

export interface VersionTable {
  seq: Generated<number>;
  id: string;
  version: string;
  parent: string | null;
  method: Update['method'];
  /** JSON */ turn_ids: string;
  /** JSON */ metrics: string;
  /** JSON */ probes: string;
  state: Update['state'];
  folder: string | null;
  created_at: number;
}

export interface Schema {
  user: { id: string; opt_out: number };
  session: {
    id: string;
    user_id: string;
    started_at: number;
    last_at: number;
    ended_at: number | null;
    end_reason: string | null;
  };
  text: { user_id: string; hash: string; body: string };
  turn: TurnTable;
  next_state: { turn_id: string; items: string; arrived_at: number };
  verdict: { turn_id: string; body: string; judged_at: number };
  version: VersionTable;
  event: { seq: Generated<number>; at: number; kind: EventKind; turn_id: string | null; reason: string | null };
  meta: { key: string; value: string };
  tally: { name: string; n: number };
}

export type EventKind =
  | 'refused'
  | 'trained'
  | 'session-ended'
  | 'opt-out'
  | 'opt-in'
  | 'user-deleted'
  | 'pruned'
  | 'version';
