/** /openapi.json: the doors in one document. Kept by hand beside the routes; a test compares the two lists. */

interface Operation {
  summary: string;
  tag: string;
}

/** "METHOD /path" as OpenAPI writes paths. */
export const OPERATIONS: Record<string, Operation> = {
  'POST /v1/chat/completions': {
    summary: 'One reply of the policy, streamed or whole (OpenAI chat completions)',
    tag: 'chat',
  },
  'GET /v1/models': { summary: 'The policy that is served', tag: 'chat' },
  'GET /v1/models/{id}': { summary: 'The policy by name', tag: 'chat' },
  'POST /v1/feedback': { summary: 'An opinion about a reply: {turn_id, score?, text?}', tag: 'records' },
  'GET /v1/sessions/{id}': { summary: 'The turns of a session', tag: 'records' },
  'GET /v1/turns/{id}': { summary: 'A turn and what became of it', tag: 'records' },
  'GET /v1/versions': { summary: 'Every version trained, newest first', tag: 'records' },
  'DELETE /v1/users/{id}/data': {
    summary: "Deletes a user's turns, queued ones too; `me` is the caller",
    tag: 'records',
  },
  'POST /v1/users/{id}/opt-out': {
    summary: 'Whether turns of this user may be learned from: {opt_out}',
    tag: 'records',
  },
  'GET /v1/events': { summary: 'What happens, as server-sent events', tag: 'watch' },
  'GET /v1/status': { summary: 'Queue, states, refusals, training', tag: 'watch' },
  'GET /metrics': { summary: 'Prometheus metrics', tag: 'watch' },
  'GET /healthz': { summary: 'The process answers', tag: 'watch' },
  'GET /readyz': { summary: 'New requests are taken', tag: 'watch' },
  'GET /openapi.json': { summary: 'This document', tag: 'watch' },
};

export function openApiDocument(): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const [route, operation] of Object.entries(OPERATIONS)) {
    const [method, path] = route.split(' ') as [string, string];
    paths[path] ??= {};
    paths[path][method.toLowerCase()] = operationObject(path, operation);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'openclaw-rl',
      version: '1',
      description: 'An OpenAI-compatible endpoint whose policy learns from what people say next.',
    },
    components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } }, schemas: { Error: ERROR } },
    security: [{ key: [] }],
    paths,
  };
}

const ERROR = {
  type: 'object',
  properties: {
    error: {
      type: 'object',
      required: ['message', 'type', 'param', 'code'],
      properties: {
        message: { type: 'string' },
        type: { type: 'string' },
        param: { type: ['string', 'null'] },
        code: { type: ['string', 'null'] },
      },
    },
  },
};

function operationObject(path: string, { summary, tag }: Operation): Record<string, unknown> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  const error = {
    description: 'refused',
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  };
  return {
    summary,
    tags: [tag],
    ...(names.length > 0
      ? { parameters: names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } })) }
      : {}),
    responses: { 200: { description: 'done' }, default: error },
  };
}
