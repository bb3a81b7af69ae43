/**
 * A model on disk, Hugging Face folder or GGUF file, as what the native code and the chat need: config, checked tensor table, tokenizer,
 * chat template, ids that end a turn. Why these readers are TypeScript: docs/decisions/model-files-in-typescript.md.
 */
import { basename } from 'node:path';
import type { NativeModelConfig, NativeTensor } from '../native-types.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';

/** Named templates of a model; "default" is what is used unless tools are given and "tool_use" exists. */
export type ChatTemplates = Readonly<Record<string, string>>;

export interface ModelFiles {
  /** folder name, or file name without .gguf */ name: string;
  /** folder or file, absolute */ path: string;
  config: NativeModelConfig;
  tensors: NativeTensor[];
  tokenizer: Tokenizer;
  /** tokenizer_config.json as read, or what GGUF says in its place */ tokenizerConfig: Record<string, unknown>;
  templates: ChatTemplates;
  /** texts of bos_token, eos_token … as templates may use them */ specialTexts: Record<string, string>;
  /** ids that end a turn, the model's own eos first */ stopIds: Int32Array;
}

export function modelName(path: string): string {
  return basename(path).replace(/\.gguf$/i, '');
}

/** Texts that end a turn or a document in the families we run (the list llama.cpp keeps, shortened). */
const END_TEXTS = new Set([
  '<|im_end|>',
  '<|eot_id|>',
  '<|eom_id|>',
  '<|end_of_text|>',
  '<|endoftext|>',
  '<|end|>',
  '<|end_of_turn|>',
]);

/** `declared` ids first, then special tokens known to end a turn: some files name only one of the two. */
export function stopIdsOf(tokenizer: Tokenizer, declared: readonly number[]): Int32Array {
  const known = tokenizer.added
    .filter((token) => token.special && END_TEXTS.has(token.content))
    .map((token) => token.id);
  const ids = [...new Set([...declared, ...known])].filter((id) => id >= 0 && id < tokenizer.size);
  return Int32Array.from(ids);
}
