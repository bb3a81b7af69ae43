/**
 * Reading files that others made. Nothing here trusts a file: sizes are checked before anything is allocated, and every
 * complaint names the file and what is wrong with it (E_FILE), or what it needs that is not supported (E_UNSUPPORTED).
 */
import { open, readFile, stat } from 'node:fs/promises';
import { OpenClawError } from '../../record/index.js';

/** Largest header (safetensors JSON, GGUF metadata) or JSON file that is read. The biggest known tokenizers are about 35 MB. */
export const MAX_HEADER_BYTES = 100 * 1024 * 1024;

export function fileError(file: string, what: string, cause?: unknown): OpenClawError {
  return new OpenClawError('E_FILE', `${file}: ${what}`, undefined, cause === undefined ? undefined : { cause });
}

export function unsupported(file: string, what: string): OpenClawError {
  return new OpenClawError('E_UNSUPPORTED', `${file}: ${what}`);
}

/** Size in bytes of a plain file. */
export async function sizeOfFile(file: string): Promise<number> {
  const info = await stat(file).catch((cause: unknown) => {
    throw fileError(file, `cannot be opened (${reason(cause)})`, cause);
  });
  if (!info.isFile()) throw fileError(file, 'is not a plain file');
  return info.size;
}

export async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** `length` bytes from `offset`; a file that is shorter is an error. */
export async function readRange(file: string, offset: number, length: number): Promise<Uint8Array> {
  const handle = await open(file, 'r').catch((cause: unknown) => {
    throw fileError(file, `cannot be opened (${reason(cause)})`, cause);
  });
  try {
    const { size } = await handle.stat();
    if (offset + length > size)
      throw fileError(file, `is cut short: ${offset + length} bytes expected, it has ${size}`);
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await handle.read(bytes, done, length - done, offset + done);
      if (bytesRead === 0) throw fileError(file, `ended at byte ${offset + done} while being read`);
      done += bytesRead;
    }
    return bytes;
  } finally {
    await handle.close();
  }
}

/** A text file of at most MAX_HEADER_BYTES. */
export async function readText(file: string): Promise<string> {
  const size = await sizeOfFile(file);
  if (size > MAX_HEADER_BYTES) throw fileError(file, `is ${size} bytes; at most ${MAX_HEADER_BYTES} are read`);
  return readFile(file, 'utf8');
}

export async function readJson(file: string): Promise<unknown> {
  return parseJson(file, await readText(file));
}

export function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw fileError(file, `is not valid JSON (${reason(cause)})`, cause);
  }
}

export function reason(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Checked access to the keys of a JSON object (or GGUF metadata); a missing default means the key must be there. */
export class Fields {
  constructor(
    readonly file: string,
    private readonly values: Json,
    /** put before the key in messages, e.g. "rope_scaling." */ private readonly prefix = '',
  ) {}

  static of(file: string, value: unknown, prefix = ''): Fields {
    if (!isObject(value))
      throw fileError(file, `${prefix === '' ? 'must hold' : `"${prefix.slice(0, -1)}" must be`} a JSON object`);
    return new Fields(file, value, prefix);
  }

  /** The raw value; null and absent are the same, as in Hugging Face configs. */
  get(key: string): unknown {
    return Object.hasOwn(this.values, key) ? (this.values[key] ?? undefined) : undefined;
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  number(key: string, range: { min: number; max: number }, fallback?: number): number {
    const value = this.get(key) ?? fallback;
    if (typeof value === 'number' && value >= range.min && value <= range.max) return value;
    throw this.wrong(key, `a number from ${range.min} to ${range.max}`);
  }

  integer(key: string, range: { min: number; max: number }, fallback?: number): number {
    const value = this.number(key, range, fallback);
    if (Number.isInteger(value)) return value;
    throw this.wrong(key, 'a whole number');
  }

  boolean(key: string, fallback: boolean): boolean {
    const value = this.get(key) ?? fallback;
    if (typeof value === 'boolean') return value;
    throw this.wrong(key, 'true or false');
  }

  string(key: string, fallback?: string): string {
    const value = this.get(key) ?? fallback;
    if (typeof value === 'string') return value;
    throw this.wrong(key, 'a string');
  }

  object(key: string): Fields | null {
    const value = this.get(key);
    if (value === undefined) return null;
    if (isObject(value)) return new Fields(this.file, value, `${this.prefix}${key}.`);
    throw this.wrong(key, 'an object');
  }

  wrong(key: string, expected: string): OpenClawError {
    return fileError(this.file, `"${this.prefix}${key}" must be ${expected}, it is ${show(this.get(key))}`);
  }
}

/** A value as a short text for messages. */
export function show(value: unknown): string {
  if (value === undefined) return 'missing';
  let text: string;
  try {
    text = JSON.stringify(value) ?? String(value);
  } catch {
    text = String(value);
  }
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}
