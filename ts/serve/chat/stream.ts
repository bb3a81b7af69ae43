/** Server-sent events as a byte stream that never waits for its reader and says something now and then. */
import { sseComment } from '../openai/reply.js';

/**
 * Everything is handed on as it comes: the reply, whose length is bounded, waits in memory for a slow reader rather than
 * holding a place among the requests that generate.
 */
export function eventStream(
  events: AsyncIterable<string>,
  o: { keepAliveMs: number; cancelled(): void; ended(): void },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let open = true;
  let timer: NodeJS.Timeout;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const send = (text: string) => {
        if (open) controller.enqueue(encoder.encode(text));
        timer.refresh();
      };
      timer = setInterval(() => send(sseComment('still here')), o.keepAliveMs);
      void pump(events, send).finally(() => {
        clearInterval(timer);
        if (open) controller.close();
        open = false;
        o.ended();
      });
    },
    cancel() {
      open = false;
      clearInterval(timer);
      o.cancelled();
    },
  });
}

/** `events` turns its failures into events itself. */
async function pump(events: AsyncIterable<string>, send: (text: string) => void): Promise<void> {
  for await (const event of events) send(event);
}
