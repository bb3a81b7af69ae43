/**
 * A person's chat client: plain streaming HTTP against the endpoint, as any agent server would use it. Counts what must be 0:
 * requests refused, and replies whose pieces name more than one version.
 */
import type { ShownReply } from './scene.js';

export interface Said {
  role: 'user' | 'assistant';
  content: string;
}

export interface Heard extends ShownReply {
  version: string | null;
}

export interface AskOptions {
  temperature: number;
  maxTokens: number;
  seed: number;
  /** names the session; absent: the server infers it */ session?: string;
  /** a side turn is answered and recorded, never trained */ side?: boolean;
  /** the last request of the session */ done?: boolean;
}

/** A reply is waited for this long; beyond it the request counts as refused. */
const REPLY_MS = 180_000;

interface ChunkBody {
  system_fingerprint?: string | null;
  choices: Array<{ delta: { content?: string }; finish_reason: string | null }>;
  usage?: { completion_tokens: number } | null;
  error?: { message: string };
}

export class ChatClient {
  refused = 0;
  mixed = 0;
  requests = 0;
  /** the last refusal, for the log */ lastRefusal: string | null = null;

  constructor(
    private readonly url: string,
    private readonly apiKey: string | null = null,
  ) {}

  /** @returns null when the request was refused or failed (counted) */
  async ask(messages: Said[], o: AskOptions): Promise<Heard | null> {
    this.requests++;
    try {
      const response = await fetch(`${this.url}/v1/chat/completions`, {
        method: 'POST',
        headers: this.headers(o),
        body: JSON.stringify({
          model: 'default',
          messages,
          stream: true,
          stream_options: { include_usage: true },
          temperature: o.temperature,
          max_tokens: o.maxTokens,
          seed: o.seed,
        }),
        signal: AbortSignal.timeout(REPLY_MS),
      });
      if (!response.ok || !response.body)
        throw new Error(`HTTP ${response.status}: ${(await response.text()).slice(0, 300)}`);
      return await this.read(response);
    } catch (error) {
      this.refused++;
      this.lastRefusal = error instanceof Error ? error.message : String(error);
      return null;
    }
  }

  private headers(o: AskOptions): Record<string, string> {
    return {
      'content-type': 'application/json',
      ...(this.apiKey && { authorization: `Bearer ${this.apiKey}` }),
      ...(o.session && { 'x-session-id': o.session }),
      ...(o.side && { 'x-turn-type': 'side' }),
      ...(o.done && { 'x-session-done': '1' }),
    };
  }

  private async read(response: Response): Promise<Heard> {
    const versions = new Set<string>();
    const named = response.headers.get('x-openclaw-rl-version');
    if (named) versions.add(named);
    const heard = { text: '', ended: false, tokens: 0 };
    let complete = false;
    for await (const data of sseData(response.body!)) {
      if (data === '[DONE]') {
        complete = true;
        continue;
      }
      const body = JSON.parse(data) as ChunkBody;
      if (body.error) throw new Error(body.error.message);
      if (body.system_fingerprint) versions.add(body.system_fingerprint);
      if (body.usage) heard.tokens = body.usage.completion_tokens;
      const [choice] = body.choices;
      heard.text += choice?.delta.content ?? '';
      if (choice?.finish_reason === 'stop') heard.ended = true;
    }
    if (!complete) throw new Error('the stream ended without [DONE]');
    if (versions.size > 1) this.mixed++;
    return { ...heard, version: [...versions][0] ?? null };
  }
}

/** The data of each server-sent event. */
async function* sseData(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true });
    const events = rest.split('\n\n');
    rest = events.pop()!;
    for (const event of events) if (event.startsWith('data: ')) yield event.slice(6);
  }
}
