/** What the terminal shows: a line per session, a small chart, a table at the end. */
import type { Measure } from './evaluate.js';
import type { SessionResult } from './session.js';

const BARS = '▁▂▃▄▅▆▇█';

/** The share of first replies that obey, over the last three sessions, as one character a session. */
export function curve(sessions: readonly SessionResult[]): string {
  return sessions
    .map((_, i) => {
      const last = sessions.slice(Math.max(0, i - 2), i + 1);
      const share = last.filter((s) => s.firstReplyObeys).length / last.length;
      return BARS[Math.round(share * (BARS.length - 1))];
    })
    .join('');
}

export function sessionLine(s: SessionResult, total: number): string {
  const number = `${s.index}`.padStart(`${total}`.length);
  const obeys = s.firstReplyObeys ? '✓ obeys ' : '✗ breaks';
  const right = s.correct ? 'right' : 'wrong';
  const needed =
    s.repliesNeeded === null ? 'gave up' : s.repliesNeeded === 1 ? 'first try' : `after ${s.repliesNeeded}`;
  return `session ${number}/${total}  ${obeys}  ${right}  ${needed.padEnd(9)}  ${s.version ?? 'refused'}  ${oneLine(s.firstReply, 60)}`;
}

function oneLine(text: string, width: number): string {
  const flat = text.replace(/\s+/g, ' ').trim();
  return flat.length > width ? `${flat.slice(0, width - 1)}…` : flat;
}

export function measureLine(name: string, m: Measure): string {
  const percent = (x: number) => `${(100 * x).toFixed(0)} %`.padStart(5);
  return `${name.padEnd(7)} obeys ${percent(m.obeys)}  correct ${percent(m.correct)}  both ${percent(m.both)}   (${m.replies} held-out replies)`;
}
