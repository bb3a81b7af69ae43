/** What the request itself says about its place: reference headers and their twins in the body; the header wins. */
import { createHash } from 'node:crypto';

export type Headers = Readonly<Record<string, string | undefined>>;

/** Body twins as the door hands them over; other types than these are ignored, not guessed at. */
export interface BodyTwins {
  session_id?: unknown;
  turn_type?: unknown;
  session_done?: unknown;
  user?: unknown;
}

export interface Identity {
  name: string | null;
  how: 'header' | 'body';
  /** null: the request does not say */ kind: 'main' | 'side' | null;
  done: boolean;
}

/** Longer names are replaced by their digest: they end up in every row. */
const MAX_NAME = 128;
const TRUE = new Set(['1', 'true', 'yes', 'on']);

const text = (value: unknown): string | null =>
  typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
const isTrue = (value: unknown): boolean =>
  value === true || value === 1 || TRUE.has(String(value).trim().toLowerCase());

export const digest = (...parts: string[]): string =>
  createHash('sha256').update(parts.join('\u0000')).digest('hex').slice(0, 24);

function nameFrom(raw: string | null): string | null {
  if (raw === null) return null;
  return raw.length <= MAX_NAME && /^[\x21-\x7e]+$/.test(raw) ? raw : `named_${digest(raw)}`;
}

function kindFrom(raw: string | null): Identity['kind'] {
  const kind = raw?.toLowerCase();
  return kind === 'main' || kind === 'side' ? kind : null;
}

export function identityOf(headers: Headers, body: BodyTwins): Identity {
  const header = nameFrom(text(headers['x-session-id']));
  const done = text(headers['x-session-done']);
  return {
    name: header ?? nameFrom(text(body.session_id)),
    how: header === null ? 'body' : 'header',
    kind: kindFrom(text(headers['x-turn-type']) ?? text(body.turn_type)),
    done: isTrue(done ?? body.session_done),
  };
}
