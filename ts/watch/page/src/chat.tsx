/** A talk with the policy, one session long; every reply shows what becomes of it. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { chat, getTurn, type ReplyHead } from './api.js';
import { type Action, type PageState, shortVersion, type TurnFate } from './state.js';

interface Line {
  role: 'user' | 'assistant';
  content: string;
  head?: ReplyHead;
  version?: string | null;
  error?: string;
}

const newSession = (): string => `page-${crypto.randomUUID().slice(0, 8)}`;

export function ChatCard({ state, dispatch }: { state: PageState; dispatch: (action: Action) => void }) {
  const [session, setSession] = useState(newSession);
  const [lines, setLines] = useState<Line[]>([]);
  const [draft, setDraft] = useState('');
  const [reading, setReading] = useState<AbortController | null>(null);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => end.current?.scrollIntoView({ block: 'nearest' }), [lines]);
  useFates(lines, state.versions.length, dispatch);

  const amend = (change: (line: Line) => Line) => setLines((all) => [...all.slice(0, -1), change(all.at(-1)!)]);

  async function send(): Promise<void> {
    const said = draft.trim();
    if (!said || reading) return;
    const talk: Line[] = [...lines.filter((line) => !line.error), { role: 'user', content: said }];
    const stop = new AbortController();
    setDraft('');
    setReading(stop);
    setLines([...talk, { role: 'assistant', content: '' }]);
    try {
      const messages = talk.map(({ role, content }) => ({ role, content }));
      const version = await chat(session, messages, stop.signal, {
        head: (head) => amend((line) => ({ ...line, head })),
        text: (text) => amend((line) => ({ ...line, content: line.content + text })),
      });
      amend((line) => ({ ...line, version }));
    } catch (error) {
      const why = stop.signal.aborted ? 'stopped' : (error as Error).message;
      amend((line) => ({ ...line, error: why }));
    } finally {
      setReading(null);
    }
  }

  function restart(): void {
    reading?.abort();
    setLines([]);
    setSession(newSession());
  }

  return (
    <section class="card chat" aria-label="Chat">
      <header>
        <h2>Chat</h2>
        <span class="key">session {session}</span>
        <button type="button" class="plain" onClick={restart} disabled={lines.length === 0}>
          New session
        </button>
      </header>
      <div class="lines" role="log" aria-live="polite">
        {lines.length === 0 && <Welcome />}
        {lines.map((line, i) => (
          <LineView
            key={i}
            line={line}
            fate={line.head ? state.fates[line.head.turnId] : undefined}
            typing={reading !== null && i === lines.length - 1}
          />
        ))}
        <div ref={end} />
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <textarea
          rows={2}
          placeholder="Say something. Then say what you think of the reply: that is what it learns from."
          aria-label="Message"
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            void send();
          }}
        />
        {reading ? (
          <button type="button" onClick={() => reading.abort()}>
            Stop
          </button>
        ) : (
          <button type="submit" disabled={draft.trim() === ''}>
            Send
          </button>
        )}
      </form>
    </section>
  );
}

function Welcome() {
  return (
    <div class="welcome">
      <p>Ask for something, and tell it how you would have liked the answer.</p>
      <p class="quiet">
        What you say next is the judgement of the reply before it. Corrections become hints, hints become a new version,
        and the next reply comes from that version.
      </p>
    </div>
  );
}

function LineView({ line, fate, typing }: { line: Line; fate: TurnFate | undefined; typing: boolean }) {
  return (
    <article class={`line ${line.role}`}>
      <div class="bubble">
        <Words text={line.content} />
        {typing && <span class="caret" />}
      </div>
      {line.error && <p class="fate bad">{line.error}</p>}
      {line.role === 'assistant' && !line.error && !typing && <Fate line={line} fate={fate} />}
    </article>
  );
}

function Fate({ line, fate }: { line: Line; fate: TurnFate | undefined }) {
  const parts = [line.version ? `from ${shortVersion(line.version)}` : null, fateWords(fate, line.head?.recorded)];
  return <p class={`fate ${fate?.state ?? ''}`}>{parts.filter(Boolean).join(' · ')}</p>;
}

function fateWords(fate: TurnFate | undefined, recorded: string | undefined): string {
  if (recorded?.startsWith('no:')) return `not recorded (${recorded.slice(3)})`;
  switch (fate?.state) {
    case 'observed':
      return 'you answered, being judged';
    case 'judged':
      return `judged ${signed(fate.reward ?? null)}${fate.hints ? `, ${fate.hints} ${fate.hints === 1 ? 'hint' : 'hints'}` : ''}, waits for a batch`;
    case 'trained':
      return `learned in ${shortVersion(fate.detail ?? '')}`;
    case 'refused':
      return `not learned from (${fate.detail})`;
    default:
      return 'waits for what you say next';
  }
}

const signed = (reward: number | null): string =>
  reward === null ? 'without a vote' : reward > 0 ? `+${reward}` : `${reward}`.replace('-', '−');

/** After an update the turns shown here are asked about: which of them went into it? */
function useFates(lines: Line[], versions: number, dispatch: (action: Action) => void): void {
  useEffect(() => {
    for (const { head } of lines) {
      if (!head?.turnId) continue;
      void getTurn(head.turnId)
        .then((turn) => {
          if (turn.state === 'trained')
            dispatch({ do: 'fate', turnId: head.turnId, fate: { state: 'trained', detail: turn.trained_version } });
        })
        // a turn that was never committed (stopped early) is not there
        .catch(() => {});
    }
  }, [versions]);
}

/** Plain text; only **bold** is shown as such, so that a style can be seen. */
function Words({ text }: { text: string }) {
  return <>{text.split(/\*\*(.+?)\*\*/gs).map((part, i) => (i % 2 === 1 ? <strong key={i}>{part}</strong> : part))}</>;
}
