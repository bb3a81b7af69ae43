/** A GGUF file as a model. */
import { tokenizerFromGguf } from '../tokenizer/from-gguf.js';
import { Tokenizer } from '../tokenizer/tokenizer.js';
import { type GgufValue, readGgufHeader } from './gguf.js';
import { configFromGguf, tensorsFromGguf } from './gguf-model.js';
import { type ChatTemplates, type ModelFiles, modelName, stopIdsOf } from './model.js';

/** metadata key → name in tokenizer_config.json */
const SPECIAL_IDS: Readonly<Record<string, string>> = {
  'tokenizer.ggml.bos_token_id': 'bos_token',
  'tokenizer.ggml.eos_token_id': 'eos_token',
  'tokenizer.ggml.unknown_token_id': 'unk_token',
  'tokenizer.ggml.padding_token_id': 'pad_token',
};
const END_IDS = ['tokenizer.ggml.eos_token_id', 'tokenizer.ggml.eot_token_id', 'tokenizer.ggml.eom_token_id'];
const TEMPLATE = 'tokenizer.chat_template';

export async function readGgufFile(file: string): Promise<ModelFiles> {
  const header = await readGgufHeader(file);
  const tokenizer = new Tokenizer(tokenizerFromGguf(file, header.metadata), file);
  const config = await configFromGguf(file, header, tokenizer.size);
  const specialTexts = specialTextsOf(header.metadata);
  const declared = END_IDS.map((key) => header.metadata.get(key)).filter((id) => typeof id === 'number');
  return {
    name: modelName(file),
    path: file,
    config,
    tensors: tensorsFromGguf(file, header, config),
    tokenizer,
    tokenizerConfig: { ...specialTexts, model_max_length: config.context },
    templates: templatesOf(header.metadata),
    specialTexts,
    stopIds: stopIdsOf(tokenizer, declared),
  };
}

function specialTextsOf(metadata: ReadonlyMap<string, GgufValue>): Record<string, string> {
  const tokens = metadata.get('tokenizer.ggml.tokens');
  const texts: Record<string, string> = {};
  for (const [key, name] of Object.entries(SPECIAL_IDS)) {
    const id = metadata.get(key);
    const text = Array.isArray(tokens) && typeof id === 'number' ? tokens[id] : undefined;
    if (typeof text === 'string') texts[name] = text;
  }
  return texts;
}

/** The default template, and named ones under tokenizer.chat_template.NAME. */
function templatesOf(metadata: ReadonlyMap<string, GgufValue>): ChatTemplates {
  const templates: Record<string, string> = {};
  for (const [key, value] of metadata) {
    if (typeof value !== 'string') continue;
    if (key === TEMPLATE) templates.default = value;
    else if (key.startsWith(`${TEMPLATE}.`)) templates[key.slice(TEMPLATE.length + 1)] = value;
  }
  return templates;
}
