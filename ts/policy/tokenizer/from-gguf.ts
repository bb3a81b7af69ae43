/** GGUF's tokenizer metadata → a tokenizer.json object, so that one tokenizer reads both. */
import type { GgufValue } from '../files/gguf.js';
import { fileError, show, unsupported } from '../files/reading.js';

/** token types of GGUF (llama.h: llama_token_type) */
const CONTROL = 3;
const USER_DEFINED = 4;

const byteLevel = (useRegex: boolean) => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: false,
  use_regex: useRegex,
});
const pattern = (regex: string) => ({
  type: 'Sequence',
  pretokenizers: [{ type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false }, byteLevel(false)],
});

/** Llama 3 and Qwen 2 cut words alike, up to how many digits stay together. */
const llama3Pattern = (digits: string) =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

interface Recipe {
  pre_tokenizer: unknown;
  normalizer: unknown;
  ignore_merges: boolean;
}

const GPT2: Recipe = { pre_tokenizer: byteLevel(true), normalizer: null, ignore_merges: false };
/** each digit by itself, then GPT-2's pattern (StarCoder, SmolLM) */
const DIGITS: Recipe = {
  pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Digits', individual_digits: true }, byteLevel(true)] },
  normalizer: null,
  ignore_merges: false,
};
const LLAMA3: Recipe = { pre_tokenizer: pattern(llama3Pattern('\\p{N}{1,3}')), normalizer: null, ignore_merges: true };
const QWEN2: Recipe = {
  pre_tokenizer: pattern(llama3Pattern('\\p{N}')),
  normalizer: { type: 'NFC' },
  ignore_merges: false,
};

/** What `tokenizer.ggml.pre` stands for, as the models' own tokenizer.json say. */
const RECIPES: Readonly<Record<string, Recipe>> = {
  default: GPT2,
  'gpt-2': GPT2,
  smollm: DIGITS,
  starcoder: DIGITS,
  refact: DIGITS,
  'llama-bpe': LLAMA3,
  llama3: LLAMA3,
  'llama-v3': LLAMA3,
  qwen2: QWEN2,
  'deepseek-r1-qwen': QWEN2,
};

export function tokenizerFromGguf(file: string, metadata: ReadonlyMap<string, GgufValue>): Record<string, unknown> {
  const model = metadata.get('tokenizer.ggml.model');
  if (model !== 'gpt2') throw unsupported(file, `tokenizer model ${show(model)}; supported is "gpt2" (byte-level BPE)`);
  const recipe = recipeOf(file, metadata.get('tokenizer.ggml.pre') ?? 'default');
  const tokens = texts(file, metadata, 'tokenizer.ggml.tokens');
  const merges = texts(file, metadata, 'tokenizer.ggml.merges');
  const types = tokenTypes(file, metadata, tokens.length);
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens(tokens, types),
    normalizer: recipe.normalizer,
    pre_tokenizer: recipe.pre_tokenizer,
    post_processor: null,
    decoder: byteLevel(true),
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      ignore_merges: recipe.ignore_merges,
      vocab: vocabulary(file, tokens),
      merges,
    },
  };
}

function recipeOf(file: string, pre: GgufValue): Recipe {
  const recipe = typeof pre === 'string' && Object.hasOwn(RECIPES, pre) ? RECIPES[pre] : undefined;
  if (recipe === undefined)
    throw unsupported(file, `pre-tokenizer ${show(pre)}; supported are ${Object.keys(RECIPES).join(', ')}`);
  return recipe;
}

function texts(file: string, metadata: ReadonlyMap<string, GgufValue>, key: string): string[] {
  const value = metadata.get(key);
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
  throw fileError(file, `"${key}" must be a list of texts`);
}

function tokenTypes(file: string, metadata: ReadonlyMap<string, GgufValue>, count: number): GgufValue[] {
  const types = metadata.get('tokenizer.ggml.token_type');
  if (Array.isArray(types) && types.length === count) return types;
  throw fileError(file, `"tokenizer.ggml.token_type" must have one number for each of the ${count} tokens`);
}

function vocabulary(file: string, tokens: readonly string[]): Record<string, number> {
  const vocab = new Map(tokens.map((token, id) => [token, id]));
  if (vocab.size !== tokens.length) {
    const twice = tokens.find((token, id) => vocab.get(token) !== id);
    throw fileError(file, `token ${show(twice)} stands in the vocabulary twice`);
  }
  return Object.fromEntries(vocab);
}

function addedTokens(tokens: readonly string[], types: readonly GgufValue[]): unknown[] {
  return tokens.flatMap((content, id) => {
    if (types[id] !== CONTROL && types[id] !== USER_DEFINED) return [];
    return [
      {
        id,
        content,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: types[id] === CONTROL,
      },
    ];
  });
}
