/**
 * The ledger's own thread: the only one that touches SQLite. Its imports are kept few (no schemas), for the start's sake.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { OpenClawError } from '../record/errors.js';
import { Batcher, toFailure } from './batcher.js';
import type { Opened, Request, WorkerSettings } from './protocol.js';
import { Store } from './store.js';

function main(): void {
  if (parentPort === null) throw new OpenClawError('E_INTERNAL', 'the ledger worker runs as a worker thread only');
  const port = parentPort;
  const { folder } = workerData as WorkerSettings;
  const opened = (message: Opened): void => port.postMessage(message);
  try {
    const store = new Store(folder);
    const batcher = new Batcher(
      store,
      (reply) => port.postMessage(reply),
      () => port.close(),
    );
    port.on('message', (request: Request) => batcher.push(request));
    opened({ opened: true });
  } catch (error) {
    opened({ opened: false, failure: toFailure(error) });
    port.close();
  }
}

main();
