/** Rules a table of tensors must keep, whatever file it came from: inside the file, no overlap, and exactly what the config asks for. */
import type { NativeModelConfig, NativeTensor } from '../native-types.js';
import { fileError, unsupported } from './reading.js';

/** Every tensor of `tensors` (all of one file) lies within [dataStart, fileSize) and none shares a byte with another. */
export function checkRanges(file: string, tensors: readonly NativeTensor[], dataStart: number, fileSize: number): void {
  const byOffset = [...tensors].sort((a, b) => a.offset - b.offset || a.bytes - b.bytes);
  let previous: NativeTensor | undefined;
  for (const tensor of byOffset) {
    const end = tensor.offset + tensor.bytes;
    if (tensor.offset < dataStart) throw fileError(file, `tensor "${tensor.name}" begins inside the header`);
    if (!Number.isSafeInteger(end) || end > fileSize) {
      throw fileError(file, `tensor "${tensor.name}" ends at byte ${end}, the file has ${fileSize}`);
    }
    if (previous && previous.offset + previous.bytes > tensor.offset) {
      throw fileError(file, `tensors "${previous.name}" and "${tensor.name}" overlap`);
    }
    previous = tensor;
  }
}

/** Names (Hugging Face) and shapes of every tensor a model of this config has. */
export function expectedTensors(c: NativeModelConfig): Map<string, number[]> {
  const shapes = new Map<string, number[]>();
  const queries = c.heads * c.headDim;
  const keys = c.kvHeads * c.headDim;
  shapes.set('model.embed_tokens.weight', [c.vocab, c.hidden]);
  for (let layer = 0; layer < c.layers; layer++) {
    const add = (name: string, ...shape: number[]) => shapes.set(`model.layers.${layer}.${name}`, shape);
    add('input_layernorm.weight', c.hidden);
    add('self_attn.q_proj.weight', queries, c.hidden);
    add('self_attn.k_proj.weight', keys, c.hidden);
    add('self_attn.v_proj.weight', keys, c.hidden);
    if (c.qkvBias) {
      add('self_attn.q_proj.bias', queries);
      add('self_attn.k_proj.bias', keys);
      add('self_attn.v_proj.bias', keys);
    }
    if (c.qkNorm) {
      add('self_attn.q_norm.weight', c.headDim);
      add('self_attn.k_norm.weight', c.headDim);
    }
    add('self_attn.o_proj.weight', c.hidden, queries);
    add('post_attention_layernorm.weight', c.hidden);
    add('mlp.gate_proj.weight', c.ffn, c.hidden);
    add('mlp.up_proj.weight', c.ffn, c.hidden);
    add('mlp.down_proj.weight', c.hidden, c.ffn);
  }
  shapes.set('model.norm.weight', [c.hidden]);
  if (!c.tiedHead) shapes.set('lm_head.weight', [c.vocab, c.hidden]);
  return shapes;
}

/**
 * The tensors of `found` that the model uses, in the order of expectedTensors. A missing one or a wrong shape is E_FILE. One that the
 * config has no place for is E_UNSUPPORTED: leaving out weights would compute something else than the model.
 */
export function matchTensors(
  origin: string,
  config: NativeModelConfig,
  found: ReadonlyMap<string, NativeTensor>,
): NativeTensor[] {
  const expected = expectedTensors(config);
  const missing = [...expected.keys()].filter((name) => !found.has(name));
  if (missing.length > 0) {
    throw fileError(
      origin,
      `${missing.length} tensors are missing: ${missing.slice(0, 4).join(', ')}${missing.length > 4 ? ', …' : ''}`,
    );
  }
  for (const name of found.keys()) {
    if (!expected.has(name) && !isDerived(name, config))
      throw unsupported(origin, `tensor "${name}" has no place in a ${config.arch} model`);
  }
  return [...expected].map(([name, shape]) => {
    const tensor = found.get(name)!;
    if (tensor.shape.length !== shape.length || tensor.shape.some((n, i) => n !== shape[i])) {
      throw fileError(tensor.file, `tensor "${name}" has shape [${tensor.shape}], the config asks for [${shape}]`);
    }
    return tensor;
  });
}

/** Tensors that only repeat what is known otherwise: rotary tables, and the head's copy of a tied embedding. */
function isDerived(name: string, config: NativeModelConfig): boolean {
  return name.endsWith('rotary_emb.inv_freq') || (config.tiedHead && name === 'lm_head.weight');
}
