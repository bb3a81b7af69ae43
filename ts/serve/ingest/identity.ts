/** What outlives a connection: whose frames these are, how far they are durable, which names stand for which records. */
import { createHash } from 'node:crypto';
import { type Caller, userOf } from '../http/keys.js';
import type { IngestConnection } from './connection.js';

/** turns whose verdicts a subscriber may still be told */
const MAX_NAMED_TURNS = 2048;

export class IngestIdentity {
  /** everything up to here is durable; null: nothing is known, the first frame may have any number */ acked:
    | number
    | null = null;
  connection: IngestConnection | null = null;
  private readonly names = new Map<string, string>();

  constructor(
    readonly caller: Caller,
    readonly client: string,
  ) {}

  /** One name, one id, for ever: a frame sent twice meets its own record. */
  turnId(turn: string): string {
    const id = `turn_${this.digest(turn)}`;
    this.names.delete(id);
    this.names.set(id, turn);
    const oldest = this.names.keys().next();
    if (this.names.size > MAX_NAMED_TURNS && !oldest.done) this.names.delete(oldest.value);
    return id;
  }

  /** The client's own name of a turn; undefined: not one of its recent turns. */
  turnName(turnId: string): string | undefined {
    return this.names.get(turnId);
  }

  sessionId(session: string): string {
    return [this.caller.key, this.client, session].filter((part) => part !== null).join(':');
  }

  userId(user: string | undefined): string {
    return userOf(this.caller, user);
  }

  private digest(text: string): string {
    return createHash('sha256')
      .update([this.caller.key ?? '', this.client, text].join('\u0000'))
      .digest('hex')
      .slice(0, 32);
  }
}
