/**
 * A retry must not become a second turn. What was asked is known by the client's own id for the request (idempotency-key or
 * x-request-id) or, for SDK retries that carry no id, by the body; in both cases within one user and with the same body.
 */
import { createHash } from 'node:crypto';

/** Outcome of a request: the turn it recorded, or null when it did not come to its end. */
type Outcome = Promise<string | null>;

const MAX_REMEMBERED = 4096;

export interface RequestIdentity {
  /** names the request durably: goes into the ledger */ requestId: string;
  /** whether an earlier request with this name is looked for in the ledger */ named: boolean;
  /** keys under which an earlier attempt may be remembered */ lookup: string[];
  /** keys under which this one is */ remember: string[];
}

export function identifyRequest(
  userId: string,
  headers: Record<string, string | undefined>,
  body: string,
  fresh: () => string,
): RequestIdentity {
  const digest = createHash('sha256').update(body).digest('hex').slice(0, 24);
  const given = headers['idempotency-key'] ?? headers['x-request-id'];
  const byBody = `${userId}\u0000${digest}`;
  const byName = given ? [`${byBody}\u0000${given}`] : [];
  const isRetry = Number(headers['x-stainless-retry-count'] ?? 0) > 0;
  return {
    requestId: given ? `${given.slice(0, 128)}~${digest.slice(0, 12)}` : fresh(),
    named: given !== undefined,
    lookup: [...byName, ...(isRetry ? [byBody] : [])],
    remember: [...byName, byBody],
  };
}

export class Retries {
  private readonly outcomes = new Map<string, { outcome: Outcome; at: number }>();

  constructor(private readonly windowMs: number) {}

  /** The turn an earlier attempt recorded; waits for one that is still under way. Null: there is none. */
  async earlier(keys: readonly string[]): Promise<string | null> {
    for (const key of keys) {
      const known = this.outcomes.get(key);
      if (!known || Date.now() - known.at > this.windowMs) continue;
      const turnId = await known.outcome;
      if (turnId !== null) return turnId;
    }
    return null;
  }

  /** Remembers an attempt from its start; returns how to say what became of it. */
  begin(keys: readonly string[]): (turnId: string | null) => void {
    let settle!: (turnId: string | null) => void;
    const outcome: Outcome = new Promise((resolve) => {
      settle = resolve;
    });
    const at = Date.now();
    for (const key of keys) {
      this.outcomes.delete(key);
      this.outcomes.set(key, { outcome, at });
    }
    this.forgetOldest();
    return settle;
  }

  private forgetOldest(): void {
    for (const key of this.outcomes.keys()) {
      if (this.outcomes.size <= MAX_REMEMBERED) return;
      this.outcomes.delete(key);
    }
  }
}
