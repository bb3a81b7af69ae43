/** Keeps the page's state up to date: events as they happen, counts and versions soon after something changed. */
import { useEffect, useReducer } from 'preact/hooks';
import { ApiError, followEvents, getStatus, getVersions, type ServerEvent } from './api.js';
import { type Action, type PageState, reduce, START } from './state.js';

type Dispatch = (action: Action) => void;

/** ms in which events are gathered before the page is drawn again */
const GATHER_MS = 60;
const STATUS_EVERY_MS = 5000;
const STATUS_SOON_MS = 400;
const RETRY_MS = 1500;

export function usePageState(): [PageState, Dispatch] {
  const [state, dispatch] = useReducer(reduce, START);
  useEffect(() => follow(dispatch), []);
  return [state, dispatch];
}

/** Connects, and connects again when the connection is lost, until the returned function is called. */
function follow(dispatch: Dispatch): () => void {
  let over = false;
  let last = 0;
  const refresh = new Refresh(dispatch);
  const gather = new Gather((events) => {
    dispatch({ do: 'events', events });
    refresh.soon(events.some((event) => event.type === 'update.done'));
  });
  const connect = async (): Promise<void> => {
    while (!over) {
      dispatch({ do: 'connection', is: 'connecting' });
      const problem = await followEvents(
        last,
        (event) => {
          last = event.id;
          gather.add(event);
        },
        () => dispatch({ do: 'connection', is: 'open' }),
      ).catch((error: unknown) => error);
      if (problem instanceof ApiError && problem.status === 401) return dispatch({ do: 'connection', is: 'no-key' });
      dispatch({ do: 'connection', is: 'lost' });
      // The server may be another one by now, whose events begin at 1: its whole history is asked for.
      last = 0;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  };
  void connect();
  refresh.start();
  return () => {
    over = true;
    refresh.stop();
  };
}

class Gather {
  private events: ServerEvent[] = [];

  constructor(private readonly flush: (events: ServerEvent[]) => void) {}

  add(event: ServerEvent): void {
    this.events.push(event);
    if (this.events.length > 1) return;
    setTimeout(() => {
      const events = this.events;
      this.events = [];
      this.flush(events);
    }, GATHER_MS);
  }
}

class Refresh {
  private timer: ReturnType<typeof setInterval> | undefined;
  private waiting = false;
  private versionsToo = true;

  constructor(private readonly dispatch: Dispatch) {}

  start(): void {
    this.timer = setInterval(() => this.soon(false), STATUS_EVERY_MS);
    this.soon(true);
  }

  stop(): void {
    clearInterval(this.timer);
  }

  soon(versionsToo: boolean): void {
    this.versionsToo ||= versionsToo;
    if (this.waiting) return;
    this.waiting = true;
    setTimeout(() => void this.ask(), STATUS_SOON_MS);
  }

  private async ask(): Promise<void> {
    this.waiting = false;
    const versionsToo = this.versionsToo;
    this.versionsToo = false;
    try {
      this.dispatch({ do: 'status', status: await getStatus() });
      if (versionsToo) this.dispatch({ do: 'versions', versions: await getVersions() });
    } catch {
      // the connection to the events says what is wrong; here it is only tried again
      this.versionsToo ||= versionsToo;
    }
  }
}
