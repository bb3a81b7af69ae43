/** Whether the client is still there, until the last byte of its reply has left. */
import type { ServerResponse } from 'node:http';

export class ClientGone extends Error {
  override readonly name = 'ClientGone';
  constructor() {
    super('the client closed the connection');
  }
}

/**
 * On Node's own server the request's signal fires whenever the connection closes before the response was written out, so it
 * is trusted to the end. Elsewhere (an embedded `fetch`) a caller may abort its signal long after it has read everything:
 * there it counts only until the reply was handed over, and after that only a cancelled stream does.
 */
export class Delivery {
  private readonly controller = new AbortController();
  /** aborts when the client is gone before the last byte */ readonly gone: AbortSignal = this.controller.signal;
  private handedOver = false;

  constructor(
    request: Request,
    private readonly outgoing: ServerResponse | null,
  ) {
    if (request.signal.aborted) this.lost();
    request.signal.addEventListener('abort', () => this.requestAborted(), { once: true });
  }

  /** The whole reply is in the hands of whoever sends it. */
  handOver(): void {
    this.handedOver = true;
  }

  lost(): void {
    this.controller.abort(new ClientGone());
  }

  private requestAborted(): void {
    const over = this.outgoing ? this.outgoing.writableFinished : this.handedOver;
    if (!over) this.lost();
  }
}
