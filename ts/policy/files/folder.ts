/** A Hugging Face folder as a model. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { NativeTensor } from '../native-types.js';
import { Tokenizer } from '../tokenizer/tokenizer.js';
import { configFromHuggingFace } from './config.js';
import { matchTensors } from './layout.js';
import { type ChatTemplates, type ModelFiles, modelName, stopIdsOf } from './model.js';
import { exists, Fields, fileError, isObject, readJson, readText, show, unsupported } from './reading.js';
import { readSafetensorsHeader } from './safetensors.js';

type Json = Record<string, unknown>;

export async function readFolder(folder: string): Promise<ModelFiles> {
  const configFile = join(folder, 'config.json');
  const tokenizerFile = join(folder, 'tokenizer.json');
  const configJson = await readJson(configFile);
  const tokenizer = new Tokenizer(await readJson(tokenizerFile), tokenizerFile);
  const tokenizerConfig = await readOptional(join(folder, 'tokenizer_config.json'));
  const generationConfig = await readOptional(join(folder, 'generation_config.json'));
  const config = configFromHuggingFace(configFile, configJson, tokenizer.size);
  const tensors = await readTensorTable(folder);
  const specialTexts = specialTextsOf(tokenizerConfig);
  return {
    name: modelName(folder),
    path: folder,
    config,
    tensors: matchTensors(folder, config, tensors),
    tokenizer,
    tokenizerConfig,
    templates: await readTemplates(folder, tokenizerConfig),
    specialTexts,
    stopIds: stopIdsOf(tokenizer, declaredEnds(tokenizer, specialTexts, generationConfig, configJson)),
  };
}

async function readOptional(file: string): Promise<Json> {
  if (!(await exists(file))) return {};
  const json = await readJson(file);
  if (!isObject(json)) throw fileError(file, 'must hold a JSON object');
  return json;
}

/** model.safetensors, or the shards that model.safetensors.index.json names. */
async function readTensorTable(folder: string): Promise<Map<string, NativeTensor>> {
  const single = join(folder, 'model.safetensors');
  const index = join(folder, 'model.safetensors.index.json');
  if (await exists(index)) return readShards(folder, index);
  if (await exists(single)) return (await readSafetensorsHeader(single)).tensors;
  const others = (await readdir(folder)).filter((name) => /\.(safetensors|bin|pt|pth|h5|msgpack)$/.test(name));
  const loose = others.find((name) => name.endsWith('.safetensors'));
  if (loose !== undefined && others.filter((name) => name.endsWith('.safetensors')).length === 1)
    return (await readSafetensorsHeader(join(folder, loose))).tensors;
  if (others.length > 0)
    throw unsupported(folder, `weights as ${show(others[0])}; supported are model.safetensors and its sharded form`);
  throw fileError(folder, 'holds no model.safetensors');
}

async function readShards(folder: string, index: string): Promise<Map<string, NativeTensor>> {
  const map = Fields.of(index, await readJson(index)).get('weight_map');
  if (!isObject(map)) throw fileError(index, '"weight_map" must be an object');
  const names = [...new Set(Object.values(map))];
  const tensors = new Map<string, NativeTensor>();
  for (const name of names) {
    // a name, not a path: an index must not reach outside its folder
    if (typeof name !== 'string' || !/^[\w][\w.-]*\.safetensors$/.test(name))
      throw fileError(index, `names the shard ${show(name)}`);
    const shard = await readSafetensorsHeader(join(folder, name));
    for (const [tensor, entry] of shard.tensors) {
      if (tensors.has(tensor)) throw fileError(index, `tensor "${tensor}" stands in two shards`);
      tensors.set(tensor, entry);
    }
  }
  const absent = Object.keys(map).find((tensor) => !tensors.has(tensor));
  if (absent !== undefined) throw fileError(index, `tensor "${absent}" is not in the shard ${show(map[absent])}`);
  return tensors;
}

/** chat_template.jinja wins over tokenizer_config.json, which holds one text or a list of named ones. */
async function readTemplates(folder: string, tokenizerConfig: Json): Promise<ChatTemplates> {
  const file = join(folder, 'chat_template.jinja');
  const inConfig = templatesOf(join(folder, 'tokenizer_config.json'), tokenizerConfig.chat_template);
  return (await exists(file)) ? { ...inConfig, default: await readText(file) } : inConfig;
}

function templatesOf(file: string, value: unknown): ChatTemplates {
  if (value === undefined || value === null) return {};
  if (typeof value === 'string') return { default: value };
  if (!Array.isArray(value)) throw fileError(file, '"chat_template" must be a text or a list of named texts');
  return Object.fromEntries(
    value.map((entry, i) => {
      const f = Fields.of(file, entry, `chat_template[${i}].`);
      return [f.string('name'), f.string('template')];
    }),
  );
}

const SPECIAL_NAMES = ['bos_token', 'eos_token', 'unk_token', 'pad_token', 'sep_token', 'cls_token', 'mask_token'];

/** A special token is a text or {content: text}. */
function specialTextsOf(tokenizerConfig: Json): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const name of SPECIAL_NAMES) {
    const value = tokenizerConfig[name];
    const text = isObject(value) ? value.content : value;
    if (typeof text === 'string') texts[name] = text;
  }
  return texts;
}

function declaredEnds(
  tokenizer: Tokenizer,
  specialTexts: Record<string, string>,
  generationConfig: Json,
  config: unknown,
): number[] {
  const asIds = (value: unknown) =>
    (Array.isArray(value) ? value : [value]).filter((id): id is number => Number.isInteger(id));
  const eos = specialTexts.eos_token === undefined ? undefined : tokenizer.idOf(specialTexts.eos_token);
  return [
    ...asIds(eos),
    ...asIds(generationConfig.eos_token_id),
    ...asIds(isObject(config) ? config.eos_token_id : undefined),
  ];
}
