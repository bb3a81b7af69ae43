/** GET /v1/events: what happens, as server-sent events. A reader that comes back says the last id it saw and misses nothing that is still held. */
import type { RuntimeEvent } from '../record/index.js';
import { overloaded } from './http/errors.js';
import { sseComment } from './openai/reply.js';
import type { ServeEvents } from './ports.js';

/** Bytes held for a reader that does not read; beyond it is cut off and may come back. */
const MAX_BEHIND = 1 << 20;
const KEEP_ALIVE_MS = 15_000;

export class EventFeed {
  private readonly closers = new Set<() => void>();

  constructor(
    private readonly events: ServeEvents,
    private readonly maxReaders: number,
  ) {}

  open(after: number): Response {
    if (this.closers.size >= this.maxReaders) throw overloaded(`${this.maxReaders} readers of events are connected`, 5);
    const headers = {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    };
    return new Response(this.stream(after), { headers });
  }

  close(): void {
    for (const close of [...this.closers]) close();
  }

  private stream(after: number): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    let close = () => {};
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          const send = (text: string) => {
            if ((controller.desiredSize ?? 0) <= 0) return close();
            controller.enqueue(encoder.encode(text));
          };
          const timer = setInterval(() => send(sseComment('still here')), KEEP_ALIVE_MS);
          timer.unref();
          let unsubscribe = () => {};
          close = () => {
            if (!this.closers.delete(close)) return;
            clearInterval(timer);
            unsubscribe();
            controller.close();
          };
          this.closers.add(close);
          send(sseComment('events'));
          unsubscribe = this.events.subscribe((event) => send(frame(event)), { after });
        },
        cancel: () => this.cancelled(close),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: MAX_BEHIND }),
    );
  }

  private cancelled(close: () => void): void {
    // the stream is gone: only the subscription is left to end, and closing the controller would throw
    try {
      close();
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }
}

function frame(event: RuntimeEvent): string {
  return `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
