/** Records to rows and back: typed arrays as little-endian BLOBs, the rest as JSON. Null stays null. */
import { createHash } from 'node:crypto';
import { endianness } from 'node:os';

const SWAP = endianness() === 'BE';

/** The bytes of a 4-byte typed array, little-endian on every machine. */
export function toBlob(values: Int32Array | Float32Array): Uint8Array {
  const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  return SWAP ? Buffer.from(bytes).swap32() : bytes;
}

/** A fresh, aligned copy: a driver may hand out a view at any offset of its own buffer. */
function aligned(blob: Uint8Array): ArrayBuffer {
  const copy = new Uint8Array(blob.byteLength);
  copy.set(blob);
  if (SWAP) Buffer.from(copy.buffer).swap32();
  return copy.buffer;
}

export const toInt32 = (blob: Uint8Array): Int32Array => new Int32Array(aligned(blob));
export const toFloat32 = (blob: Uint8Array | null): Float32Array | null =>
  blob === null ? null : new Float32Array(aligned(blob));

/** JSON has no NaN and no infinity and writes null for them; a metric that is not finite must stay visible as such. */
export function numbersToJson(numbers: Record<string, number>): string {
  return JSON.stringify(numbers, (_key, value) =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value,
  );
}

export function numbersFromJson(text: string): Record<string, number> {
  const parsed = JSON.parse(text) as Record<string, number | string>;
  return Object.fromEntries(Object.entries(parsed).map(([key, value]) => [key, Number(value)]));
}

export const textHash = (body: string): string => createHash('sha256').update(body).digest('hex').slice(0, 32);
