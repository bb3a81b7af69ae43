/** Folders that appear whole or not at all: written beside their place, forced to disk, then renamed. */
import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { exists, fileError, reason } from './reading.js';

export type FileContent = string | Uint8Array | Iterable<Uint8Array>;

/**
 * Writes a folder of files. A folder of that name is replaced: it is moved aside first, so that a crash leaves the old one or the new one,
 * under its own name or under the hidden one beside it.
 */
export async function writeFolder(folder: string, files: ReadonlyMap<string, FileContent>): Promise<void> {
  const target = resolve(folder);
  const parent = dirname(target);
  const temporary = join(parent, `.${basename(target)}.${randomBytes(6).toString('hex')}.tmp`);
  try {
    await mkdir(temporary, { recursive: true });
    for (const [name, content] of files) await writeDurably(join(temporary, name), content);
    await syncFolder(temporary);
    await putInPlace(temporary, target);
    await syncFolder(parent);
  } catch (cause) {
    // what went wrong first is what the caller must hear of
    await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
    throw fileError(target, `cannot be written (${reason(cause)})`, cause);
  }
}

async function putInPlace(temporary: string, target: string): Promise<void> {
  if (!(await exists(target))) return rename(temporary, target);
  const aside = `${temporary}.old`;
  await rename(target, aside);
  await rename(temporary, target).catch(async (error: unknown) => {
    await rename(aside, target);
    throw error;
  });
  await rm(aside, { recursive: true, force: true });
}

async function writeDurably(file: string, content: FileContent): Promise<void> {
  const handle = await open(file, 'wx');
  try {
    if (typeof content === 'string') await handle.writeFile(content);
    else for (const part of content instanceof Uint8Array ? [content] : content) await writeAll(handle, part);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function writeAll(handle: Awaited<ReturnType<typeof open>>, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done);
    done += bytesWritten;
  }
}

/** The names in a folder are durable only once the folder itself is. Windows cannot open folders and needs no such step. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
