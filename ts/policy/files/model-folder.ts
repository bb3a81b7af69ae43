/** Writing a model as a Hugging Face folder that transformers, vLLM and readFolder open. */

import { OpenClawError } from '../../record/index.js';
import type { NativeDtype, NativeModelConfig } from '../native-types.js';
import { Tokenizer } from '../tokenizer/tokenizer.js';
import { writeFolder } from './atomic.js';
import { configToHuggingFace } from './config.js';
import { expectedTensors } from './layout.js';
import { stopIdsOf } from './model.js';
import { inDtype, safetensorsFile, type TensorToWrite } from './safetensors-writer.js';

export interface ModelToWrite {
  config: NativeModelConfig;
  /** every parameter by its Hugging Face name */ tensors: readonly TensorToWrite[];
  tokenizerJson: unknown;
  tokenizerConfig: Readonly<Record<string, unknown>>;
  chatTemplate: string | null;
  dtype: NativeDtype;
  /** ids that end a turn, for generation_config.json; default: those the tokenizer marks */ stopIds?: ArrayLike<number>;
}

export async function writeModelFolder(folder: string, model: ModelToWrite): Promise<void> {
  const tokenizer = new Tokenizer(model.tokenizerJson, 'tokenizerJson');
  const { bos_token, eos_token } = model.tokenizerConfig;
  const bos = typeof bos_token === 'string' ? (tokenizer.idOf(bos_token) ?? null) : null;
  const declared = typeof eos_token === 'string' ? [tokenizer.idOf(eos_token) ?? -1] : [];
  const eos = [...Array.from(model.stopIds ?? stopIdsOf(tokenizer, declared))];
  const tokenizerConfig = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    clean_up_tokenization_spaces: false,
    model_max_length: model.config.context,
    ...model.tokenizerConfig,
  };
  const files = new Map<string, string | Uint8Array[]>([
    ['config.json', json(configToHuggingFace(model.config, model.dtype, { bos, eos }))],
    ['generation_config.json', json({ ...(bos === null ? {} : { bos_token_id: bos }), eos_token_id: eos })],
    [
      'model.safetensors',
      safetensorsFile(inOrder(model).map((tensor) => ({ ...tensor, data: inDtype(tensor.data, model.dtype) }))),
    ],
    ['tokenizer.json', JSON.stringify(model.tokenizerJson)],
    ['tokenizer_config.json', json(withoutTemplate(tokenizerConfig))],
  ]);
  if (model.chatTemplate !== null) files.set('chat_template.jinja', model.chatTemplate);
  await writeFolder(folder, files);
}

/** Exactly the tensors of the config, in its order. */
function inOrder({ config, tensors }: ModelToWrite): TensorToWrite[] {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  return [...expectedTensors(config)].map(([name, shape]) => {
    const tensor = byName.get(name);
    if (tensor === undefined) throw new OpenClawError('E_ARGUMENT', `tensor "${name}" is missing`, 'tensors');
    if (tensor.shape.join() !== shape.join())
      throw new OpenClawError(
        'E_SHAPE',
        `tensor "${name}" has shape [${tensor.shape}], the config asks for [${shape}]`,
        'tensors',
      );
    return tensor;
  });
}

/** The template lies in its own file; two copies could differ. */
function withoutTemplate(config: Record<string, unknown>): Record<string, unknown> {
  const { chat_template: _, ...rest } = config;
  return rest;
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
