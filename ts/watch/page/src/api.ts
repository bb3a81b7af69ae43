/** The server's doors as the page uses them: the same ones everybody else has. */

export interface Counts {
  states: Record<string, number>;
  refusals: Record<string, number>;
  sessions: number;
  updates: number;
}

export interface Status {
  model: string;
  context: number;
  live: string;
  load: { running: number; waiting: number };
  counts: Counts;
  train: {
    method: string;
    state: 'off' | 'waiting' | 'training' | 'failed';
    queued: number;
    batchTurns: number;
    failure: string | null;
  };
}

export interface Version {
  version: string;
  parent: string | null;
  method: string;
  state: string;
  turns: number;
  metrics: Record<string, number>;
  created_at: number;
}

/** An event as the bus sends it; only the fields that the page reads are named. */
export interface ServerEvent {
  id: number;
  at: number;
  type: string;
  turnId?: string;
  reward?: number | null;
  hints?: number;
  reason?: string;
  version?: string | null;
  index?: number;
  firstReplyObeys?: boolean;
  correct?: boolean;
  stage?: string;
  done?: number;
  total?: number;
  turns?: number;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const KEY = 'openclaw-rl.key';

/** The key stays in this tab. */
export const storedKey = (): string => sessionStorage.getItem(KEY) ?? '';
export const storeKey = (key: string): void => sessionStorage.setItem(KEY, key);

async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = storedKey();
  if (key) headers.set('authorization', `Bearer ${key}`);
  const response = await fetch(path, { ...init, headers });
  if (response.ok) return response;
  const body = (await response.json().catch(() => null)) as { error?: { message?: string } } | null;
  throw new ApiError(response.status, body?.error?.message ?? `HTTP ${response.status}`);
}

export const getStatus = async (): Promise<Status> => (await call('/v1/status')).json();
export const getVersions = async (): Promise<Version[]> =>
  ((await (await call('/v1/versions')).json()) as { data: Version[] }).data;
export const getTurn = async (
  id: string,
): Promise<{ state: string; trained_version: string | null; refusal: string | null }> =>
  (await call(`/v1/turns/${encodeURIComponent(id)}`)).json();

/** The data of server-sent events, in order; comments are passed over. */
async function* eventData(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const blocks = rest.split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const data = block.split('\n').find((line) => line.startsWith('data: '));
      if (data) yield data.slice('data: '.length);
    }
  }
}

/** Runs until the connection ends. `fetch` instead of EventSource, because EventSource cannot send a key. */
export async function followEvents(
  after: number,
  each: (event: ServerEvent) => void,
  opened: () => void,
): Promise<void> {
  const response = await call(`/v1/events?after=${after}`);
  opened();
  for await (const data of eventData(response)) each(JSON.parse(data) as ServerEvent);
}

export interface Said {
  role: 'user' | 'assistant';
  content: string;
}

export interface ReplyHead {
  turnId: string;
  recorded: string;
  version: string | null;
}

interface Chunk {
  system_fingerprint?: string;
  choices: Array<{ delta: { content?: string } }>;
  error?: { message: string };
}

/** One streamed reply. Resolves with the version that gave it. */
export async function chat(
  session: string,
  messages: Said[],
  signal: AbortSignal,
  on: { head(head: ReplyHead): void; text(text: string): void },
): Promise<string | null> {
  const response = await call('/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': session },
    body: JSON.stringify({ model: 'default', stream: true, temperature: 0.6, messages }),
    signal,
  });
  const header = (name: string) => response.headers.get(`x-openclaw-rl-${name}`);
  on.head({ turnId: header('turn') ?? '', recorded: header('recorded') ?? '', version: header('version') });
  let version = header('version');
  for await (const data of eventData(response)) {
    if (data === '[DONE]') break;
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) throw new ApiError(500, chunk.error.message);
    version = chunk.system_fingerprint ?? version;
    on.text(chunk.choices[0]?.delta.content ?? '');
  }
  return version;
}
