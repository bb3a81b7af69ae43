/** The page: a talk with the policy on one side, what it learns on the other. */
import { render } from 'preact';
import { useState } from 'preact/hooks';
import { storeKey } from './api.js';
import { QueueCard, VersionsCard } from './cards.js';
import { ChatCard } from './chat.js';
import { CurveCard } from './curve.js';
import { usePageState } from './feed.js';
import { type PageState, shortVersion } from './state.js';
import './style.css';

function Page() {
  const [state, dispatch] = usePageState();
  return (
    <>
      <Top state={state} />
      {state.connection === 'no-key' ? (
        <AskKey />
      ) : (
        <main>
          <ChatCard state={state} dispatch={dispatch} />
          <div class="side">
            <CurveCard sessions={state.sessions} rewards={state.rewards} />
            <QueueCard status={state.status} learning={state.learning} />
            <VersionsCard versions={state.versions} live={state.status?.live} />
          </div>
        </main>
      )}
    </>
  );
}

function Top({ state }: { state: PageState }) {
  const { status } = state;
  return (
    <div class="top">
      <h1>openclaw-rl</h1>
      {status && (
        <>
          <span>{status.model}</span>
          <code title="the version that answers now">{shortVersion(status.live)}</code>
        </>
      )}
      <span class="gap" />
      <LearningChip state={state} />
      <span class={`dot ${state.connection}`} title={`events: ${state.connection}`} />
    </div>
  );
}

function LearningChip({ state }: { state: PageState }) {
  const train = state.status?.train;
  if (!train) return null;
  const { step } = state.learning;
  if (train.state === 'off') return <span class="chip off">not learning (method none)</span>;
  if (train.state === 'failed') return <span class="chip bad">training failed</span>;
  if (!step && train.state !== 'training') return <span class="chip off">{train.method} · idle</span>;
  const share = step?.share == null ? '' : ` ${Math.round(step.share * 100)} %`;
  return (
    <span class="chip busy">
      {train.method} · {step?.label ?? 'learning'}
      {share}
    </span>
  );
}

function AskKey() {
  const [key, setKey] = useState('');
  return (
    <form
      class="card ask"
      onSubmit={(event) => {
        event.preventDefault();
        storeKey(key);
        location.reload();
      }}
    >
      <label>
        This server asks for an API key.
        <input type="password" autocomplete="off" value={key} onInput={(event) => setKey(event.currentTarget.value)} />
      </label>
      <button type="submit">Use it</button>
    </form>
  );
}

render(<Page />, document.getElementById('page')!);
