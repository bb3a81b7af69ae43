/** The event bus: numbers events, keeps the newest in a ring, hands each to whoever listens. Emitting never throws and never waits. */
import type { EventBody, EventSink, RuntimeEvent } from '../record/index.js';

export type Listener = (event: RuntimeEvent) => void;

export interface EventBusOptions {
  /** events kept for readers that come later */ history?: number;
  clock?: () => number;
  /** a listener that threw; it stays subscribed */ listenerFailed?(error: unknown): void;
}

export class EventBus implements EventSink {
  private readonly ring: RuntimeEvent[] = [];
  private readonly listeners = new Set<Listener>();
  private readonly capacity: number;
  private readonly clock: () => number;
  private last = 0;

  constructor(private readonly o: EventBusOptions = {}) {
    this.capacity = o.history ?? 2048;
    this.clock = o.clock ?? Date.now;
  }

  /** Id of the newest event; 0 before the first. */
  get lastId(): number {
    return this.last;
  }

  emit = (body: EventBody): void => {
    const event: RuntimeEvent = { ...body, id: ++this.last, at: this.clock() };
    // Slot by number: the ring holds ids last - capacity + 1 … last.
    this.ring[(event.id - 1) % this.capacity] = event;
    for (const listener of this.listeners) this.call(listener, event);
  };

  private call(listener: Listener, event: RuntimeEvent): void {
    try {
      listener(event);
    } catch (error) {
      this.o.listenerFailed?.(error);
    }
  }

  /** Held events with an id above `after`, oldest first. */
  history(after = 0): RuntimeEvent[] {
    const first = Math.max(after, this.last - this.ring.length);
    return Array.from({ length: Math.max(0, this.last - first) }, (_, i) => this.ring[(first + i) % this.capacity]!);
  }

  /** The held events after `after` first, when it is given; then each one as it happens. Returns the way out. */
  subscribe(listener: Listener, o: { after?: number } = {}): () => void {
    if (o.after !== undefined) for (const event of this.history(o.after)) this.call(listener, event);
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
