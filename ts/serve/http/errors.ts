/** Errors as OpenAI's API words them: {error: {message, type, param, code}}, with the HTTP status a stock client expects. */
import { type Code, OpenClawError } from '../../record/index.js';

export class HttpError extends Error {
  override readonly name = 'HttpError';
  constructor(
    readonly status: number,
    message: string,
    readonly code: string | null = null,
    readonly param: string | null = null,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }

  get type(): string {
    if (this.status === 401) return 'authentication_error';
    if (this.status === 403) return 'permission_error';
    if (this.status === 429) return 'rate_limit_error';
    return this.status < 500 ? 'invalid_request_error' : 'server_error';
  }

  body(): { error: { message: string; type: string; param: string | null; code: string | null } } {
    return { error: { message: this.message, type: this.type, param: this.param, code: this.code } };
  }
}

export const badRequest = (message: string, param: string | null, code: string | null = null): HttpError =>
  new HttpError(400, message, code, param);

export const notFound = (message: string, code = 'not_found'): HttpError => new HttpError(404, message, code);

export const overloaded = (reason: string, retryAfterSeconds = 1): HttpError =>
  new HttpError(429, `${reason}; try again in ${retryAfterSeconds} s`, 'overloaded', null, {
    'retry-after': String(retryAfterSeconds),
  });

/** Status and OpenAI code of our own error codes; what is not here is a 500 whose details stay in the log. */
const STATUS: Partial<Record<Code, [number, string]>> = {
  E_ARGUMENT: [400, 'invalid_value'],
  E_TOKEN_ID: [400, 'invalid_value'],
  E_UNSUPPORTED: [400, 'unsupported_value'],
  E_CONTEXT: [400, 'context_length_exceeded'],
  E_NOT_FOUND: [404, 'not_found'],
  E_FORBIDDEN: [403, 'forbidden'],
  E_DEADLINE: [504, 'deadline_exceeded'],
  E_DISPOSED: [503, 'shutting_down'],
};

/** Any thrown thing as an HTTP error. Unknown failures say nothing about the inside. */
export function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (!isCoded(error)) return new HttpError(500, 'the server failed to answer this request', 'internal_error');
  if (error.code === 'E_BUSY') return overloaded('too many requests are waiting');
  const known = STATUS[error.code];
  if (!known) return new HttpError(500, `the server failed to answer this request (${error.code})`, error.code);
  return new HttpError(known[0], error.message, known[1], error.argument ?? null);
}

/** Native errors carry the same codes without our class. */
function isCoded(error: unknown): error is { code: Code; message: string; argument?: string } {
  if (error instanceof OpenClawError) return true;
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('E_');
}

export function errorResponse(error: HttpError): Response {
  return Response.json(error.body(), { status: error.status, headers: error.headers });
}
