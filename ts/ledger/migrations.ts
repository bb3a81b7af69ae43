/**
 * The schema, as numbered steps; `PRAGMA user_version` says how far a file has come. A step that has been released is
 * never changed: the next change is the next step. Each runs in a transaction of its own.
 */
import { OpenClawError } from '../record/errors.js';
import type { SqlDatabase } from './driver.js';

/*
 * turn        the life of a turn is the one column `state`; a trigger holds the arrows, so that no statement, whoever wrote
 *             it, can train a turn twice or bring a refused one back.
 * text        each message and each tool list once per user (a host sends 40,000 characters of system prompt with every
 *             request); per user, so that deleting a user deletes all of it.
 * version     one row per update; at most one is live.
 * event       append-only: what happened to turns, with the reason. Holds no words, so it outlives deletion.
 * tally       counts kept by triggers: reading them is free however large the ledger grows.
 */
const FIRST = `
CREATE TABLE user (
  id TEXT PRIMARY KEY,
  opt_out INTEGER NOT NULL DEFAULT 0 CHECK (opt_out IN (0, 1))
) WITHOUT ROWID;

CREATE TABLE session (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  ended_at INTEGER,
  end_reason TEXT,
  CHECK ((ended_at IS NULL) = (end_reason IS NULL))
) WITHOUT ROWID;
CREATE INDEX session_open ON session (last_at) WHERE ended_at IS NULL;
CREATE INDEX session_user ON session (user_id);

CREATE TABLE text (
  user_id TEXT NOT NULL,
  hash TEXT NOT NULL,
  body TEXT NOT NULL
);
CREATE UNIQUE INDEX text_key ON text (user_id, hash);

CREATE TABLE turn (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL REFERENCES session (id),
  user_id TEXT NOT NULL,
  idx INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('main', 'side')),
  request_id TEXT NOT NULL,
  version TEXT,
  prompt_ids BLOB NOT NULL,
  response_ids BLOB NOT NULL,
  logprobs BLOB,
  sampling TEXT NOT NULL,
  messages TEXT NOT NULL,
  tools TEXT,
  text TEXT NOT NULL,
  tool_calls TEXT NOT NULL,
  finish TEXT NOT NULL,
  served_at INTEGER NOT NULL,
  chain_prompt TEXT NOT NULL,
  chain_strict TEXT NOT NULL,
  chain_loose TEXT NOT NULL,
  chain_system TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('served', 'observed', 'judged', 'trained', 'refused')),
  refusal TEXT,
  trained_version TEXT,
  CHECK ((state = 'refused') = (refusal IS NOT NULL)),
  CHECK ((state = 'trained') = (trained_version IS NOT NULL)),
  CHECK (logprobs IS NULL OR length(logprobs) = length(response_ids)),
  UNIQUE (user_id, request_id)
);
CREATE INDEX turn_waiting ON turn (state, seq) WHERE state IN ('served', 'observed', 'judged');
CREATE INDEX turn_session ON turn (session_id, seq);
CREATE INDEX turn_strict ON turn (user_id, chain_strict);
CREATE INDEX turn_loose ON turn (user_id, chain_loose);

CREATE TRIGGER turn_arrows BEFORE UPDATE OF state ON turn
WHEN NOT ((OLD.state = 'served' AND NEW.state IN ('observed', 'refused'))
       OR (OLD.state = 'observed' AND NEW.state IN ('judged', 'refused'))
       OR (OLD.state = 'judged' AND NEW.state IN ('trained', 'refused')))
BEGIN SELECT RAISE(ABORT, 'illegal change of a turn''s state'); END;

CREATE TABLE next_state (
  turn_id TEXT PRIMARY KEY REFERENCES turn (id) ON DELETE CASCADE,
  items TEXT NOT NULL,
  arrived_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE verdict (
  turn_id TEXT PRIMARY KEY REFERENCES turn (id) ON DELETE CASCADE,
  body TEXT NOT NULL,
  judged_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE version (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  version TEXT NOT NULL UNIQUE,
  parent TEXT,
  method TEXT NOT NULL,
  turn_ids TEXT NOT NULL,
  metrics TEXT NOT NULL,
  probes TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('candidate', 'live', 'retired', 'rolled-back', 'discarded')),
  folder TEXT,
  created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX version_live ON version (state) WHERE state = 'live';

CREATE TABLE event (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  turn_id TEXT,
  reason TEXT
);
CREATE TRIGGER event_keep_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_keep_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tally (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;

CREATE TRIGGER tally_turn_in AFTER INSERT ON turn BEGIN
  INSERT INTO tally (name, n) VALUES ('state:' || NEW.state, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER tally_turn_out AFTER DELETE ON turn BEGIN
  UPDATE tally SET n = n - 1 WHERE name = 'state:' || OLD.state;
END;
CREATE TRIGGER tally_turn_move AFTER UPDATE OF state ON turn BEGIN
  UPDATE tally SET n = n - 1 WHERE name = 'state:' || OLD.state;
  INSERT INTO tally (name, n) VALUES ('state:' || NEW.state, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER tally_session_in AFTER INSERT ON session BEGIN
  INSERT INTO tally (name, n) VALUES ('sessions', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER tally_session_out AFTER DELETE ON session BEGIN
  UPDATE tally SET n = n - 1 WHERE name = 'sessions';
END;
CREATE TRIGGER tally_version_in AFTER INSERT ON version BEGIN
  INSERT INTO tally (name, n) VALUES ('updates', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER tally_refusal AFTER INSERT ON event WHEN NEW.kind = 'refused' BEGIN
  INSERT INTO tally (name, n) VALUES ('refusal:' || NEW.reason, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1;
END;
`;

export const MIGRATIONS: readonly string[] = [FIRST];

function userVersion(db: SqlDatabase): number {
  const [row] = db.prepare('PRAGMA user_version').all() as Array<{ user_version: number }>;
  return Number(row?.user_version ?? 0);
}

/** Brings the file to the newest step. A file from a newer program is left alone: E_LEDGER. */
export function migrate(db: SqlDatabase): void {
  const reached = userVersion(db);
  if (reached > MIGRATIONS.length) {
    throw new OpenClawError(
      'E_LEDGER',
      `the ledger was written by a newer openclaw-rl (schema ${reached}, this one knows ${MIGRATIONS.length})`,
      'folder',
    );
  }
  for (let step = reached; step < MIGRATIONS.length; step++) {
    db.exec(`BEGIN IMMEDIATE; ${MIGRATIONS[step]} PRAGMA user_version = ${step + 1}; COMMIT;`);
  }
}
