/** Reads a JSON body: at most so many bytes, UTF-8 only, and only when the caller says that it is JSON. */
import { badRequest, HttpError } from './errors.js';

/**
 * The content type is asked for on purpose: a page of another site can post text/plain to a server on this machine without
 * being asked, and what it posted would become training data; JSON makes the browser ask first, and we do not allow it.
 */
export async function readJson(request: Request, maxBytes: number): Promise<unknown> {
  const type = request.headers.get('content-type') ?? '';
  if (!/^application\/([\w.-]+\+)?json\b/i.test(type)) {
    throw new HttpError(
      415,
      `the body must be JSON: send content-type: application/json (came: ${type || 'none'})`,
      'unsupported_media_type',
    );
  }
  return parseJson(await readBytes(request, maxBytes));
}

async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  const announced = Number(request.headers.get('content-length') ?? 0);
  if (announced > maxBytes) throw tooLarge(maxBytes);
  if (!request.body) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

const tooLarge = (maxBytes: number): HttpError =>
  new HttpError(413, `the body is larger than ${maxBytes} bytes`, 'request_too_large');

function parseJson(bytes: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw badRequest('the body is not valid UTF-8', null, 'invalid_json');
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw badRequest(`the body is not valid JSON: ${(error as Error).message}`, null, 'invalid_json');
  }
}
