/** Kernels that read logits [T, V]: statistics of each row, the way back to the logits, cross-entropy. */
import type {
  CrossEntropy,
  CrossEntropyOptions,
  LogitGrad,
  LogitGradOptions,
  LogitStats,
  LogitStatsOptions,
} from '../../lib/kernels.js';
import { call, settle } from './call.js';

/** What LogitStats.flags says of a row, as bits. An ordinary row has 0. */
export const rowFlag = {
  /** a NaN in the row: numbers are NaN, ids -1 */ nan: 1,
  /** n entries are +Infinity: they share the probability, log-prob -log n each, all others -Infinity */ infinite: 2,
  /** every entry is -Infinity: lse -Infinity, entropy NaN, ids -1 */ empty: 4,
  /** fewer than k entries are above -Infinity: the rest of the top is id -1 with -Infinity */ short: 8,
  /** mask 0: not looked at; numbers NaN, ids -1 */ masked: 16,
} as const;

/**
 * Log-sum-exp, the k most likely ids with their log-probs, log-probs of given ids and the entropy of every row, in one pass over the
 * logits.
 *
 * With u = z / temperature: max = max_j u_j, logSum = log Σ_j exp(u_j - max), log p(j) = (u_j - max) - logSum,
 * entropy = -Σ_j p_j log p_j in nats. |logSum - exact| <= 2e-6 up to V = 2^20. The top is ordered by value, equal values by id; -0
 * equals +0. A row's result depends on that row alone. What is no distribution is answered as `rowFlag` says.
 *
 * Source: online softmax (Milakov and Gimelshein 2018, arXiv 1805.02867), with the top k in the same pass.
 *
 * @throws OpenClawError E_DTYPE (logits neither Float32Array nor Uint16Array), E_SHAPE (lengths that do not fit, empty or detached
 * arrays), E_ARGUMENT (k > V, temperature outside 1e-6..1e6), E_TOKEN_ID (gather id >= V). `argument` names the field.
 */
export function logitStats(options: LogitStatsOptions): LogitStats {
  return call('logitStats', options);
}

/**
 * {@link logitStats} off the main thread: for more than about 200,000 logits. The arrays stay referenced until the promise settles;
 * do not change or transfer them before that.
 */
export function logitStatsAsync(options: LogitStatsOptions): Promise<LogitStats> {
  return settle('logitStatsAsync', options);
}

/**
 * Gradient with respect to logits from gradients with respect to a few log-probs of each row:
 * dz_j = (Σ_c g_c [j = id_c] - p_j Σ_c g_c) / temperature, p = softmax(z / temperature). One pass, in place if `out` is `logits`.
 *
 * A row sums to 0 up to rounding. A row whose gradients are all 0 becomes 0 whatever its logits hold.
 *
 * Source: ∂ log p(v) / ∂ z_j = [j = v] - p_j.
 *
 * @throws OpenClawError as {@link logitStats}; E_NOT_FINITE for grads, lse, max or logSum that are not finite; E_ARGUMENT when both or
 * neither of lse and (max, logSum) are given, or `out` overlaps the logits without being them.
 */
export function logitGrad(options: LogitGradOptions): LogitGrad {
  return call('logitGrad', options);
}

/** {@link logitGrad} off the main thread, under the same terms as {@link logitStatsAsync}. */
export function logitGradAsync(options: LogitGradOptions): Promise<LogitGrad> {
  return settle('logitGradAsync', options);
}

/**
 * Cross-entropy of given ids: loss_t = lse(z_t) - z_t[id_t], and the gradient of its scaled mean or sum with respect to the logits,
 * dz_tj = s (p_tj - [j = id_t]). Rows with an id below 0 or a mask of 0 are ignored: not read, loss and gradient 0.
 *
 * @throws OpenClawError as {@link logitStats}; E_NOT_FINITE when a counted row holds NaN or +Infinity or gives its id no probability.
 */
export function crossEntropy(options: CrossEntropyOptions): CrossEntropy {
  return call('crossEntropy', options);
}

/** {@link crossEntropy} off the main thread, under the same terms as {@link logitStatsAsync}. */
export function crossEntropyAsync(options: CrossEntropyOptions): Promise<CrossEntropy> {
  return settle('crossEntropyAsync', options);
}

/** The bits of bf16 nearest to each number (ties to even), as the kernels read them from a Uint16Array. NaN stays NaN. */
export function toBf16(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.slice().buffer);
  return Uint16Array.from(bits, (u) => {
    const nan = (u & 0x7fffffff) > 0x7f800000;
    return nan ? (u >>> 16) | 0x40 : (u + 0x7fff + ((u >>> 16) & 1)) >>> 16;
  });
}
