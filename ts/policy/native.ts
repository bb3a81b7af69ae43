/**
 * The native policy: ids in, sampled ids with their log-probs out, from the model in this process. The only place (with ts/kernels) that
 * touches the binary. Everything here is checking, converting and naming; the arithmetic and the threads are in native/.
 */
import { randomInt } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { binary } from '../../lib/index.js';
import { type Message, OpenClawError } from '../record/index.js';
import { checkIdRange, checkIds, checkSampling, requireNumber } from './arguments.js';
import { ChatRenderer, type RenderOptions } from './chat/render.js';
import { ChatTemplate } from './chat/template.js';
import { fingerprint } from './files/fingerprint.js';
import type { ModelFiles } from './files/model.js';
import { writeModelFolder } from './files/model-folder.js';
import { type Generation, runGeneration } from './generation.js';
import { nativeCall, nativeCallSync } from './native-error.js';
import type {
  NativeAdapter,
  NativeDtype,
  NativeHandle,
  NativeModelConfig,
  NativePolicyOptions,
  NativePolicyStats,
  NativeScored,
  NativeTrainer,
  NativeTrainOptions,
} from './native-types.js';
import { hiddenIds } from './tokenizer/text-stream.js';
import type { Tokenizer } from './tokenizer/tokenizer.js';

export interface NativeSettings {
  /** how weights are held; default 'f32' */ dtype?: NativeDtype;
  /** default: all cores */ threads?: number;
  /** memory for keys and values; default: two full contexts, at least 256 MiB and at most 1 GiB */ kvBytes?: number;
  /** sequences computed together; default 16 */ maxInFlight?: number;
  /** requests accepted beyond those, then E_BUSY; default 256 */ maxWaiting?: number;
  /** name of the version that is live first; default `<model>@0-<hash8>`, the hash of the weights */ version?: string;
}

/** How a reply is sampled; what is absent is plain sampling from the policy's own distribution. */
export interface GenerateSampling {
  /** 0 = greedy, at most 2; default 1 */ temperature?: number;
  /** 0 < p <= 1; default 1 */ topP?: number;
  /** 0 = off (default) */ topK?: number;
  /** tokens of the reply at most, end token included; default: what the context leaves */ maxTokens?: number;
  /** null (default): a fresh one is drawn and returned */ seed?: number | null;
  /** ids that end the reply; default: the model's own */ stopIds?: Int32Array;
}

export interface GenerateOptions {
  signal?: AbortSignal;
  /** ms from now; absent: none */ deadlineMs?: number;
}

export interface ScoreOptions {
  /** first scored position: log p(ids[i]) for i >= from; default 1 */ from?: number;
  /** best tokens of each position to return; default 0 */ topK?: number;
  /** [R*g] ids whose log-probs are wanted at each of the R = ids.length - from positions */ gather?: Int32Array;
  /** 'live' (default), 'base', or a version still held */ version?: string;
  /** default 'serve' */ lane?: 'serve' | 'train';
}

/** What a policy is besides its weights. */
export type PolicyIdentity = Pick<
  ModelFiles,
  'name' | 'config' | 'tokenizer' | 'tokenizerConfig' | 'templates' | 'specialTexts' | 'stopIds'
>;

export class NativePolicy {
  readonly name: string;
  /** tokens of prompt and reply together */ readonly context: number;
  /** rows of the head; ids of prompts are below this */ readonly vocab: number;
  readonly layers: number;
  readonly config: NativeModelConfig;
  /** ids that end a turn, the model's own eos first */ readonly stopIds: Int32Array;
  readonly tokenizer: Tokenizer;
  private readonly renderer: ChatRenderer;
  private readonly hidden: ReadonlySet<number>;

  constructor(
    private readonly handle: NativeHandle,
    private readonly identity: PolicyIdentity,
  ) {
    const { config, tokenizer } = identity;
    this.name = identity.name;
    this.config = config;
    this.context = config.context;
    this.vocab = config.vocab;
    this.layers = config.layers;
    this.stopIds = identity.stopIds;
    this.tokenizer = tokenizer;
    const template = new ChatTemplate(
      identity.templates,
      identity.specialTexts,
      (text) => tokenizer.idOf(text) !== undefined,
    );
    this.renderer = new ChatRenderer(tokenizer, template, identity.stopIds);
    this.hidden = hiddenIds(tokenizer);
  }

  /** Name of the live version. */
  live(): string {
    return this.stats().live;
  }

  /** @param o.special read special tokens written in the text as such; default true. Nothing is added in front or at the end. */
  tokenize(text: string, o: { special?: boolean } = {}): Int32Array {
    return this.tokenizer.encode(text, (o.special ?? true) ? {} : { plain: this.tokenizer.specialIds });
  }

  /** Text of ids; bytes that are no whole character become U+FFFD. */
  decode(ids: ArrayLike<number>, o: { skipSpecial?: boolean } = {}): string {
    return this.tokenizer.decode(ids, o);
  }

  /** Ids of a conversation under the model's template. Special-token text in any message stays plain text; see chat/render.ts. */
  renderChat(messages: readonly Message[], o: RenderOptions = {}): Int32Array {
    return this.renderer.render(messages, o);
  }

  /**
   * Samples one reply under the live version, which the request keeps to its last token. Texts that end a reply are the caller's
   * business: they need the text. maxTokens is cut to what the context leaves.
   * @param ids [P] prompt; copied before the call returns
   * @throws at once E_ARGUMENT, E_TOKEN_ID, E_CONTEXT (no room for a token), E_DISPOSED; the result rejects with E_BUSY, E_DEADLINE …
   */
  generate(ids: Int32Array, sampling: GenerateSampling = {}, o: GenerateOptions = {}): Generation {
    checkIds(ids, 'ids', { vocab: this.vocab, context: this.context - 1 });
    const room = this.context - ids.length;
    const { temperature = 1, topP = 1, topK = 0, maxTokens = room, stopIds = this.stopIds } = sampling;
    const wanted = sampling.seed ?? null;
    checkSampling({ temperature, topP, topK, maxTokens, seed: wanted });
    checkIdRange(stopIds, 'stopIds', this.vocab);
    const deadlineMs = o.deadlineMs ?? 0;
    requireNumber('deadlineMs', deadlineMs, deadlineMs >= 0, 'a number of ms >= 0');
    // 48 bits: what randomInt can draw at once, and exact as a JavaScript number
    const seed = wanted ?? randomInt(2 ** 48 - 1);
    const request = { ids, maxTokens: Math.min(maxTokens, room), temperature, topP, topK, seed, stopIds, deadlineMs };
    return runGeneration(
      (onTokens) => nativeCallSync(() => this.handle.generate(request, onTokens)),
      (done) => ({ ...done, seed, text: this.replyText(done.ids, stopIds) }),
      o.signal,
    );
  }

  /** Log-probs of tokens that are there: R = ids.length - from positions. Rejects with E_ARGUMENT, E_TOKEN_ID, E_CONTEXT, E_NOT_FOUND … */
  async score(ids: Int32Array, o: ScoreOptions = {}): Promise<NativeScored> {
    checkIds(ids, 'ids', this);
    const from = o.from ?? 1;
    const topK = o.topK ?? 0;
    requireNumber(
      'from',
      from,
      Number.isInteger(from) && from >= 1 && from < ids.length,
      `a whole number from 1 to ${ids.length - 1}`,
    );
    requireNumber(
      'topK',
      topK,
      Number.isInteger(topK) && topK >= 0 && topK <= this.vocab,
      `a whole number from 0 to ${this.vocab}`,
    );
    const gather = o.gather ?? null;
    if (gather !== null) this.checkGather(gather, ids.length - from);
    return nativeCall(() =>
      this.handle.score({ ids, from, topK, gather, version: o.version ?? 'live', lane: o.lane ?? 'serve' }),
    );
  }

  /** A trainer over this policy's weights; all its work runs on the train lane, which serving interrupts. */
  trainer(options: NativeTrainOptions): NativeTrainer {
    return wrapTrainer(nativeCallSync(() => this.handle.trainer(options)));
  }

  /** Makes an adapter the live version (null: the base weights). */
  setAdapter(adapter: NativeAdapter | null, version: string): Promise<void> {
    return nativeCall(() => this.handle.setAdapter(adapter, version));
  }

  exportWeights(
    version: string,
    dtype: NativeDtype,
  ): Promise<Array<{ name: string; shape: number[]; data: Float32Array | Uint16Array }>> {
    return nativeCall(() => this.handle.exportWeights(version, dtype));
  }

  /** Writes weights, config, tokenizer and template as a Hugging Face folder that openPolicy and transformers read. */
  async writeModel(folder: string, o: { version?: string; dtype?: NativeDtype } = {}): Promise<void> {
    const dtype = o.dtype ?? 'bf16';
    const { config, tokenizer, tokenizerConfig, templates, stopIds } = this.identity;
    await writeModelFolder(folder, {
      config,
      tensors: await this.exportWeights(o.version ?? 'live', dtype),
      tokenizerJson: tokenizer.json,
      tokenizerConfig,
      chatTemplate: templates.default ?? null,
      dtype,
      stopIds,
    });
  }

  stats(): NativePolicyStats {
    return nativeCallSync(() => this.handle.stats());
  }

  /** Aborts what is in flight and waits for the threads. May be called again. */
  close(): Promise<void> {
    return nativeCall(() => this.handle.close());
  }

  private checkGather(gather: Int32Array, rows: number): void {
    requireNumber(
      'gather.length',
      gather.length,
      gather.length > 0 && gather.length % rows === 0,
      `a multiple of the ${rows} scored positions`,
    );
    checkIdRange(gather, 'gather', this.vocab);
  }

  private replyText(ids: Int32Array, stopIds: Int32Array): string {
    const ended = ids.length > 0 && stopIds.includes(ids[ids.length - 1]!);
    const words = (ended ? ids.subarray(0, -1) : ids).filter((id) => !this.hidden.has(id));
    return this.tokenizer.decode(words);
  }
}

/** @throws E_NO_BINARY, E_FILE, E_UNSUPPORTED, E_MEMORY */
export async function openNative(
  model: ModelFiles,
  settings: NativeSettings,
  adapter?: NativeAdapter,
): Promise<NativePolicy> {
  const version = settings.version ?? `${model.name}@0-${await fingerprint(model.config, model.tensors, adapter)}`;
  const options = nativeOptions(model.config, { ...settings, version }, adapter);
  return new NativePolicy(await nativeCall(() => binary.openPolicy(model.config, model.tensors, options)), model);
}

/** A policy with random weights, for making models. */
export async function randomNative(
  identity: PolicyIdentity,
  init: { seed: number; std: number },
  settings: NativeSettings,
): Promise<NativePolicy> {
  // Random weights have no file to tell them apart by; the seed is what makes them.
  const version = settings.version ?? `${identity.name}@0-${init.seed.toString(16).padStart(8, '0').slice(-8)}`;
  const options = nativeOptions(identity.config, { ...settings, version });
  return new NativePolicy(await nativeCall(() => binary.randomPolicy(identity.config, init, options)), identity);
}

function nativeOptions(
  config: NativeModelConfig,
  s: NativeSettings & { version: string },
  adapter?: NativeAdapter,
): NativePolicyOptions {
  const options = {
    dtype: s.dtype ?? 'f32',
    threads: s.threads ?? availableParallelism(),
    kvBytes: s.kvBytes ?? defaultKvBytes(config),
    maxInFlight: s.maxInFlight ?? 16,
    maxWaiting: s.maxWaiting ?? 256,
    version: s.version,
  };
  if (options.dtype !== 'f32' && options.dtype !== 'bf16')
    throw new OpenClawError('E_ARGUMENT', `dtype must be "f32" or "bf16", it is ${options.dtype}`, 'dtype');
  for (const key of ['threads', 'kvBytes', 'maxInFlight', 'maxWaiting'] as const) {
    requireNumber(
      key,
      options[key],
      Number.isSafeInteger(options[key]) && options[key] >= (key === 'maxWaiting' ? 0 : 1),
      'a positive whole number',
    );
  }
  return adapter === undefined ? options : { ...options, adapter };
}

const MIB = 1024 * 1024;

/** Keys and values are f32: 2 · layers · kvHeads · headDim · 4 bytes a token. */
function defaultKvBytes(c: NativeModelConfig): number {
  const context = c.context * 2 * c.layers * c.kvHeads * c.headDim * 4;
  return Math.min(Math.max(2 * context, 256 * MIB), 1024 * MIB);
}

function wrapTrainer(trainer: NativeTrainer): NativeTrainer {
  return {
    prepare: (sequences) => nativeCall(() => trainer.prepare(sequences)),
    forwardBackward: (batch, losses, options) => nativeCall(() => trainer.forwardBackward(batch, losses, options)),
    optimStep: (h) => nativeCall(() => trainer.optimStep(h)),
    zeroGrad: () => nativeCall(() => trainer.zeroGrad()),
    publish: (version) => nativeCall(() => trainer.publish(version)),
    exportState: (moments) => nativeCall(() => trainer.exportState(moments)),
    importState: (state) => nativeCall(() => trainer.importState(state)),
    exportGradients: () => nativeCall(() => trainer.exportGradients()),
    dispose: () => nativeCallSync(() => trainer.dispose()),
  };
}
