/** The page at /: the built files, read once. Nothing outside that list can be asked for. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
};

/** The page talks to this server only and runs no text as code. */
const POLICY =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'";

const NOT_BUILT =
  '<!doctype html><title>openclaw-rl</title><p>The page is not built. Run <code>npm run build</code>.</p>';

export class PageFiles {
  private readonly files = new Map<string, { type: string; bytes: Uint8Array<ArrayBuffer> }>();

  constructor(folder: string | null) {
    if (folder === null || !existsSync(folder)) return;
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const file = join(entry.parentPath ?? entry.path, entry.name);
      const path = `/${relative(folder, file).split(sep).join('/')}`;
      this.files.set(path, {
        type: TYPES[extname(file)] ?? 'application/octet-stream',
        bytes: new Uint8Array(readFileSync(file)),
      });
    }
  }

  respond(path: string): Response | null {
    const file = this.files.get(path === '/' ? '/index.html' : path);
    if (!file) return path === '/' ? new Response(NOT_BUILT, { headers: { 'content-type': TYPES['.html']! } }) : null;
    // names of assets carry a digest of their content; the document itself does not
    const cache = path.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache';
    const headers = {
      'content-type': file.type,
      'cache-control': cache,
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
    };
    return new Response(file.bytes, { headers });
  }
}
