/**
 * Who produces tokens: the native policy, its tokenizer, chat template and model files.
 *
 * openPolicy(path) reads a Hugging Face folder or a GGUF file and gives a NativePolicy. Everything else here is for those who make or
 * write models (createPolicy, writeModelFolder, trainBpe), keep adapters (readAdapter, writeAdapter) or turn ids into words
 * (createTextStream, createToolSplitter).
 */

import { readAdapter } from './files/adapter.js';
import { checkConfig } from './files/config.js';
import { stopIdsOf } from './files/model.js';
import { readModel } from './files/read-model.js';
import { type NativePolicy, type NativeSettings, openNative, randomNative } from './native.js';
import type { NativeModelConfig } from './native-types.js';
import { type TextStream, type TextStreamOptions, textStream } from './tokenizer/text-stream.js';
import { Tokenizer } from './tokenizer/tokenizer.js';

export { createToolSplitter, parseToolCalls, type SplitReply, type ToolSplitter } from './chat/tool-calls.js';
export { type AdapterState, readAdapter, writeAdapter } from './files/adapter.js';
export { type ModelToWrite, writeModelFolder } from './files/model-folder.js';
export type { Generation, GenerationResult, TokenPiece } from './generation.js';
export {
  type GenerateOptions,
  type GenerateSampling,
  NativePolicy,
  type NativeSettings,
  type ScoreOptions,
} from './native.js';
export type { TextStream, TextStreamOptions } from './tokenizer/text-stream.js';
export { Tokenizer } from './tokenizer/tokenizer.js';
export { type TrainBpeOptions, trainBpe } from './tokenizer/train-bpe.js';

export interface OpenPolicyOptions extends NativeSettings {
  /** folder of a PEFT adapter that is live from the start */ adapter?: string;
}

/**
 * @param path Hugging Face folder or .gguf file
 * @throws E_FILE (missing, damaged, foreign), E_UNSUPPORTED (a model we do not compute), E_NO_BINARY, E_MEMORY
 */
export async function openPolicy(path: string, options: OpenPolicyOptions = {}): Promise<NativePolicy> {
  const model = await readModel(path);
  const adapter = options.adapter === undefined ? undefined : (await readAdapter(options.adapter)).adapter;
  return openNative(model, options, adapter);
}

export interface NewModel {
  name: string;
  config: Omit<NativeModelConfig, 'sampleable'>;
  /** a tokenizer.json object, e.g. from trainBpe */ tokenizerJson: unknown;
  tokenizerConfig?: Record<string, unknown>;
  chatTemplate?: string;
  /** special texts that end a turn; default: those known, such as <|im_end|> */ endTexts?: readonly string[];
}

/** A policy with random weights: normal(0, std), for making a model from nothing. */
export async function createPolicy(
  model: NewModel,
  init: { seed: number; std: number },
  settings: NativeSettings = {},
): Promise<NativePolicy> {
  const tokenizer = new Tokenizer(model.tokenizerJson, `the tokenizer of ${model.name}`);
  const config = { ...model.config, sampleable: tokenizer.size };
  checkConfig(model.name, config);
  const declared = (model.endTexts ?? []).map((text) => tokenizer.idOf(text)).filter((id) => id !== undefined);
  const tokenizerConfig = model.tokenizerConfig ?? {};
  const specialTexts = Object.fromEntries(
    Object.entries(tokenizerConfig).filter(
      (e): e is [string, string] => e[0].endsWith('_token') && typeof e[1] === 'string',
    ),
  );
  const templates: Record<string, string> = model.chatTemplate === undefined ? {} : { default: model.chatTemplate };
  return randomNative(
    {
      name: model.name,
      config,
      tokenizer,
      tokenizerConfig,
      templates,
      specialTexts,
      stopIds: stopIdsOf(tokenizer, declared),
    },
    init,
    settings,
  );
}

/** Text of a reply as its ids come: never half a character, never the beginning of one of `stop`. Special tokens have no text. */
export function createTextStream(policy: { tokenizer: Tokenizer }, options: TextStreamOptions = {}): TextStream {
  return textStream(policy.tokenizer, options);
}
