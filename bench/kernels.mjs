// logitStats (log-sum-exp and top-k of [T,V] logits in one pass) against careful plain JavaScript, in turn on the same buffer. Prints the
// ratio and the bytes a second; what the machine can read a second is not measured here.
import { kernels } from '../dist/index.js';
import { quantile, record } from './row.mjs';

const flag = (name) => process.argv.includes(`--${name}`);
const T = 64;
const K = 50;
const ROUNDS = 7;

/** Deterministic logits, roughly normal. */
function logits(V) {
  let state = 1;
  const unit = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
  return Float32Array.from({ length: T * V }, () => (unit() + unit() + unit() + unit() - 2) * 3);
}

/** What a careful user would write: max, sum of exps, a sorted list with a threshold. */
function plain(x, V, k) {
  let checksum = 0;
  for (let t = 0; t < T; t++) {
    const row = x.subarray(t * V, (t + 1) * V);
    let max = Number.NEGATIVE_INFINITY;
    for (const z of row) if (z > max) max = z;
    let sum = 0;
    for (const z of row) sum += Math.exp(z - max);
    const top = [];
    for (const z of row) {
      if (top.length === k && z <= top[k - 1]) continue;
      let at = top.length === k ? k - 1 : top.length;
      while (at > 0 && top[at - 1] < z) {
        top[at] = top[at - 1];
        at--;
      }
      top[at] = z;
    }
    checksum += max + Math.log(sum) + top[k - 1];
  }
  return checksum;
}

function milliseconds(work) {
  const started = performance.now();
  work();
  return performance.now() - started;
}

for (const V of [32_000, 49_152, 151_936]) {
  const x = logits(V);
  const ours = [];
  const theirs = [];
  kernels.logitStats({ logits: x, rows: T, vocab: V, k: K });
  for (let i = 0; i < ROUNDS; i++) {
    ours.push(milliseconds(() => kernels.logitStats({ logits: x, rows: T, vocab: V, k: K })));
    theirs.push(milliseconds(() => plain(x, V, K)));
  }
  const [a, b] = [quantile(ours, 0.5), quantile(theirs, 0.5)];
  const row = record(
    {
      bench: 'kernels',
      shape: `logitStats T=${T} V=${V} k=${K}`,
      dtype: 'f32',
      medianUs: Math.round(a * 1000),
      gbps: Number(((T * V * 4) / a / 1e6).toFixed(2)),
      versus: { plainJavaScript: Number((b / a).toFixed(1)) },
    },
    { save: flag('save') },
  );
  if (flag('json')) console.log(JSON.stringify(row));
  else
    console.log(
      `kernels ${row.shape}: ${row.medianUs} us, ${row.gbps} GB/s, ${row.versus.plainJavaScript} x plain JavaScript`,
    );
}
