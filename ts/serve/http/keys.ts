/**
 * Who is calling. Keys are kept as SHA-256 only and compared in constant time; the name behind a key isolates its users from
 * those of other keys. Without keys (loopback) everybody is the one user "local" unless the body's `user` says otherwise.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { ApiKey } from '../ports.js';
import { HttpError } from './errors.js';

export const LOCAL_USER = 'local';

export interface Caller {
  /** the key's name; null: no keys are configured */ key: string | null;
}

export const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();

/** @throws 401 without a key or with a wrong one */
export function identify(authorization: string | null, keys: readonly ApiKey[]): Caller {
  if (keys.length === 0) return { key: null };
  const given = /^Bearer\s+(\S+)$/i.exec(authorization ?? '')?.[1];
  if (given === undefined) throw unauthorised('no API key: send authorization: Bearer KEY');
  const digest = sha256(given);
  let found: string | null = null;
  // every key is compared, so that the time says nothing about which one came close
  for (const key of keys) if (timingSafeEqual(digest, Buffer.from(key.sha256, 'hex'))) found = key.name;
  if (found === null) throw unauthorised('incorrect API key');
  return { key: found };
}

const unauthorised = (message: string): HttpError =>
  new HttpError(401, message, 'invalid_api_key', null, { 'www-authenticate': 'Bearer' });

/** The user a request speaks for: the body's `user`, within its key. */
export function userOf(caller: Caller, user: string | undefined): string {
  if (caller.key === null) return user || LOCAL_USER;
  return user ? `${caller.key}:${user}` : caller.key;
}

/** A user named in a path; `me` is the caller's own. Another key's user cannot be named. */
export function namedUser(caller: Caller, id: string): string {
  if (id === 'me') return userOf(caller, undefined);
  if (caller.key !== null && (id === caller.key || id.startsWith(`${caller.key}:`))) return id;
  return userOf(caller, id);
}

export function mayRead(caller: Caller, userId: string): boolean {
  return caller.key === null || userId === caller.key || userId.startsWith(`${caller.key}:`);
}
