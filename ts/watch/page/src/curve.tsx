/** The learning curve: does the first reply of a session obey? Dots are sessions, the line is the mean of three. */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { type DemoSession, movingMean, type PageState } from './state.js';

const HEIGHT = 220;

interface Series {
  x: number[];
  mean: number[];
  dots: number[];
  second: number[] | null;
  /** x at which another version answers for the first time */ changes: number[];
}

export function CurveCard({ sessions, rewards }: Pick<PageState, 'sessions' | 'rewards'>) {
  const demo = sessions.length > 0;
  const series = demo ? ofSessions(sessions) : ofRewards(rewards);
  const empty = series.x.length === 0;
  return (
    <section class="card" aria-label="Learning curve">
      <header>
        <h2>{demo ? 'First reply obeys' : 'Reward of judged turns'}</h2>
        <span class="key">
          <i class="swatch main" /> mean of {demo ? 3 : 20}
          {demo && (
            <>
              <i class="swatch second" /> correct
            </>
          )}
          {series.changes.length > 0 && (
            <>
              <i class="swatch change" /> new version
            </>
          )}
        </span>
      </header>
      {empty ? (
        <p class="quiet tall">Nothing judged yet. Say something in the chat, then say what you think of the reply.</p>
      ) : (
        <Plot series={series} range={demo ? [-0.06, 1.06] : [-1.1, 1.1]} percent={demo} />
      )}
      {demo && <p class="quiet">{summary(sessions)}</p>}
    </section>
  );
}

function ofSessions(sessions: DemoSession[]): Series {
  const obeys = sessions.map((s) => Number(s.obeys));
  return {
    x: sessions.map((s) => s.index),
    mean: movingMean(obeys),
    dots: obeys,
    second: movingMean(sessions.map((s) => Number(s.correct))),
    changes: sessions.filter((s, i) => i > 0 && s.version !== sessions[i - 1]!.version).map((s) => s.index - 0.5),
  };
}

function ofRewards(rewards: number[]): Series {
  return { x: rewards.map((_, i) => i + 1), mean: movingMean(rewards, 20), dots: rewards, second: null, changes: [] };
}

function summary(sessions: DemoSession[]): string {
  const third = sessions.findIndex((_, i) => i >= 2 && sessions.slice(i - 2, i + 1).every((s) => s.obeys));
  const obeyed = sessions.filter((s) => s.obeys).length;
  const adapted = third < 0 ? 'not yet three in a row' : `three in a row by session ${sessions[third]!.index}`;
  return `${obeyed} of ${sessions.length} sessions · ${adapted}`;
}

function Plot({ series, range, percent }: { series: Series; range: [number, number]; percent: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const changes = useRef<number[]>([]);
  changes.current = series.changes;

  useEffect(() => {
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        options(host.current!, range, percent, series.second !== null, changes),
        data(series),
        host.current!,
      );
    };
    draw();
    const resize = new ResizeObserver(() =>
      plot.current?.setSize({ width: host.current!.clientWidth, height: HEIGHT }),
    );
    resize.observe(host.current!);
    // colours are drawn into the canvas, so a change of theme draws anew
    const theme = matchMedia('(prefers-color-scheme: dark)');
    theme.addEventListener('change', draw);
    return () => {
      resize.disconnect();
      theme.removeEventListener('change', draw);
      plot.current?.destroy();
    };
  }, [percent]);

  useEffect(() => plot.current?.setData(data(series)), [series]);
  return <div ref={host} class="plot" role="img" aria-label={`latest mean ${(series.mean.at(-1) ?? 0).toFixed(2)}`} />;
}

const data = (s: Series): uPlot.AlignedData => (s.second ? [s.x, s.mean, s.dots, s.second] : [s.x, s.mean, s.dots]);

function options(
  host: HTMLElement,
  range: [number, number],
  percent: boolean,
  second: boolean,
  changes: { current: number[] },
): uPlot.Options {
  const colour = (name: string) => getComputedStyle(host).getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--quiet'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui',
  };
  const label = (value: number) => (percent ? `${Math.round(value * 100)} %` : value.toFixed(1));
  return {
    width: host.clientWidth,
    height: HEIGHT,
    cursor: { y: false, points: { size: 7 } },
    legend: { show: false },
    scales: { x: { time: false, range: (_, min, max) => [min - 0.6, Math.max(max + 0.6, min + 8)] }, y: { range } },
    axes: [
      { ...axis, grid: { show: false }, size: 28, incrs: [1, 2, 4, 5, 10, 20, 50, 100] },
      { ...axis, size: 48, values: (_, ticks) => ticks.map(label), splits: percent ? [0, 0.5, 1] : [-1, 0, 1] },
    ],
    series: [
      {},
      { stroke: colour('--accent'), width: 2.5, fill: colour('--accent-wash'), points: { show: false } },
      { stroke: 'transparent', points: { show: true, size: 6, stroke: colour('--accent'), fill: colour('--card') } },
      ...(second ? [{ stroke: colour('--second'), width: 1.5, dash: [5, 4], points: { show: false } }] : []),
    ],
    hooks: { drawClear: [(u: uPlot) => drawChanges(u, changes.current, colour('--mark'))] },
  };
}

/** A thin line where another version answers for the first time. */
function drawChanges(u: uPlot, at: number[], colour: string): void {
  u.ctx.save();
  u.ctx.strokeStyle = colour;
  u.ctx.setLineDash([]);
  u.ctx.lineWidth = devicePixelRatio;
  for (const x of at) {
    const px = Math.round(u.valToPos(x, 'x', true));
    u.ctx.beginPath();
    u.ctx.moveTo(px, u.bbox.top);
    u.ctx.lineTo(px, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
  }
  u.ctx.restore();
}
