/** The one way in: a Hugging Face folder or a GGUF file becomes ModelFiles. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { readFolder } from './folder.js';
import { readGgufFile } from './gguf-file.js';
import type { ModelFiles } from './model.js';
import { fileError, reason } from './reading.js';

/** @throws E_FILE (missing, damaged, foreign), E_UNSUPPORTED (a model we do not compute) */
export async function readModel(path: string): Promise<ModelFiles> {
  const full = resolve(path);
  const info = await stat(full).catch((cause: unknown) => {
    throw fileError(full, `cannot be opened (${reason(cause)})`, cause);
  });
  if (info.isDirectory()) return readFolder(full);
  if (full.toLowerCase().endsWith('.gguf')) return readGgufFile(full);
  throw fileError(full, 'is neither a Hugging Face folder nor a .gguf file');
}
