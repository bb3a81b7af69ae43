/** Queue, refusals, versions: what the ledger and the trainer say. */
import type { Status, Version } from './api.js';
import { type Learning, shortVersion } from './state.js';

const STATES = ['served', 'observed', 'judged', 'trained', 'refused'] as const;
const MEANING: Record<(typeof STATES)[number], string> = {
  served: 'answered, nothing has followed yet',
  observed: 'something followed, not judged yet',
  judged: 'judged, waits for a batch',
  trained: 'learned from',
  refused: 'not learned from, see the reasons',
};

export function QueueCard({ status, learning }: { status: Status | null; learning: Learning }) {
  const train = status?.train;
  const share = train ? Math.min(1, train.queued / train.batchTurns) : 0;
  return (
    <section class="card" aria-label="Turns">
      <header>
        <h2>Turns</h2>
        {status && (
          <span class="key">
            {status.counts.sessions} sessions · {status.load.running} running · {status.load.waiting} waiting
          </span>
        )}
      </header>
      <dl class="states">
        {STATES.map((state) => (
          <div key={state} title={MEANING[state]}>
            <dt>{state}</dt>
            <dd>{status?.counts.states[state] ?? '–'}</dd>
          </div>
        ))}
      </dl>
      {train && train.state !== 'off' && (
        <>
          <div
            class="bar"
            role="progressbar"
            aria-label="Batch"
            aria-valuenow={train.queued}
            aria-valuemax={train.batchTurns}
          >
            <i style={{ width: `${share * 100}%` }} />
          </div>
          <p class="quiet">
            next batch: {train.queued} of {train.batchTurns} turns
            {learning.skipped && ` · last update skipped: ${learning.skipped}`}
            {train.failure && ` · ${train.failure}`}
          </p>
        </>
      )}
      <Refusals refusals={status?.counts.refusals ?? {}} />
    </section>
  );
}

function Refusals({ refusals }: { refusals: Record<string, number> }) {
  const rows = Object.entries(refusals)
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
  if (rows.length === 0) return null;
  return (
    <ul class="refusals" aria-label="Refused turns by reason">
      {rows.map(([reason, n]) => (
        <li key={reason}>
          {reason} <b>{n}</b>
        </li>
      ))}
    </ul>
  );
}

/** Metrics worth a column, where a version has them. */
const COLUMNS: Array<[string, string]> = [
  ['loss', 'loss'],
  ['meanRatio', 'ratio'],
  ['gradNorm', 'grad norm'],
];
const SHOWN = 12;

export function VersionsCard({ versions, live }: { versions: Version[]; live: string | undefined }) {
  return (
    <section class="card" aria-label="Versions">
      <header>
        <h2>Versions</h2>
        <span class="key">{versions.length === 0 ? 'none trained yet' : `${versions.length} trained`}</span>
      </header>
      {versions.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>version</th>
                <th class="number">turns</th>
                {COLUMNS.map(([, title]) => (
                  <th key={title} class="number">
                    {title}
                  </th>
                ))}
                <th class="number">made</th>
              </tr>
            </thead>
            <tbody>
              {versions.slice(0, SHOWN).map((v) => (
                <tr key={v.version} class={v.version === live ? 'live' : ''}>
                  <td>
                    <code>{shortVersion(v.version)}</code>{' '}
                    {v.version === live ? (
                      <b class="chip">live</b>
                    ) : (
                      v.state !== 'retired' && <span class="quiet">{v.state}</span>
                    )}
                  </td>
                  <td class="number">{v.turns}</td>
                  {COLUMNS.map(([metric]) => (
                    <td key={metric} class="number">
                      {figure(v.metrics[metric])}
                    </td>
                  ))}
                  <td class="number">{clock(v.created_at)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Absent is not zero. */
const figure = (value: number | undefined): string =>
  value === undefined ? '–' : Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);

const clock = (at: number): string =>
  new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });
