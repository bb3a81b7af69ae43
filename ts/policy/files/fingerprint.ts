/**
 * A short name for exactly these weights: the first version of a policy is `<model>@0-<hash8>`, so that turns sampled by
 * another model under the same file name are never taken for this one's.
 */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { NativeAdapter, NativeModelConfig, NativeTensor } from '../native-types.js';

const SAMPLES = 64;
const SAMPLE_BYTES = 4096;

/**
 * First 8 hex digits of a SHA-256 over the shape of the model, its tensor table and bytes sampled evenly from every file: hashing
 * gigabytes whole at each start would cost more than it tells.
 */
export async function fingerprint(
  config: NativeModelConfig,
  tensors: readonly NativeTensor[],
  adapter?: NativeAdapter,
): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(config));
  for (const { name, type, shape, offset, bytes } of tensors)
    hash.update(JSON.stringify([name, type, shape, offset, bytes]));
  for (const file of new Set(tensors.map((t) => t.file))) {
    const handle = await open(file, 'r');
    try {
      const { size } = await handle.stat();
      const buffer = Buffer.alloc(SAMPLE_BYTES);
      for (let i = 0; i < SAMPLES; i++) {
        const { bytesRead } = await handle.read(buffer, 0, SAMPLE_BYTES, Math.floor((size * i) / SAMPLES));
        hash.update(buffer.subarray(0, bytesRead));
      }
    } finally {
      await handle.close();
    }
  }
  for (const [name, values] of Object.entries(adapter?.tensors ?? {}))
    hash.update(name).update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  return hash.digest('hex').slice(0, 8);
}
