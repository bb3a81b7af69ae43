/**
 * LoRA adapters on disk, in PEFT's form: adapter_config.json and adapter_model.safetensors, so that transformers, vLLM and SGLang load
 * them. Beside them, for going on with training: optimizer.safetensors (AdamW's moments by our own names) and trainer.json (step).
 * Written atomically: a crash leaves the folder of before, or the new one whole.
 */
import { join } from 'node:path';
import { OpenClawError } from '../../record/index.js';
import type { NativeAdapter, NativeTensor } from '../native-types.js';
import { writeFolder } from './atomic.js';
import { exists, Fields, fileError, readJson, show, unsupported } from './reading.js';
import { readSafetensorsHeader, readTensorValues } from './safetensors.js';
import { safetensorsFile, type TensorToWrite } from './safetensors-writer.js';

const WEIGHTS = 'adapter_model.safetensors';
const CONFIG = 'adapter_config.json';
const OPTIMIZER = 'optimizer.safetensors';
const TRAINER = 'trainer.json';

/** PEFT's order */
const TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const;
const MAX_RANK = 4096;

export interface AdapterState {
  rank: number;
  alpha: number;
  /** "layers.3.q_proj.A" [rank, in], "….B" [out, rank]; with ".m" and ".v" behind them the optimiser's moments, where there are any */
  tensors: Record<string, Float32Array>;
  /** optimiser steps taken; needed to go on with the moments */ step?: number;
}

export interface AdapterToWrite extends AdapterState {
  targets: readonly string[];
  /** name or folder of the model it belongs to */ baseModel: string;
}

export interface AdapterRead {
  adapter: NativeAdapter;
  targets: string[];
  baseModel: string;
  /** for NativeTrainer.importState: weights and moments; absent when the folder has no optimiser state */ state?: {
    step: number;
    tensors: Record<string, Float32Array>;
  };
}

export async function writeAdapter(folder: string, adapter: AdapterToWrite): Promise<void> {
  const names = Object.keys(adapter.tensors);
  const weights = names.filter((name) => parseName(name) !== null).sort(byLayer);
  const moments = names.filter((name) => parseName(name) === null).sort();
  if (weights.length === 0)
    throw new OpenClawError('E_ARGUMENT', 'tensors holds no adapter matrix ("layers.3.q_proj.A")', 'tensors');
  const strange = moments.find((name) => parseName(name.replace(/\.[mv]$/, '')) === null);
  if (strange !== undefined)
    throw new OpenClawError(
      'E_ARGUMENT',
      `tensors holds "${strange}", which is neither an adapter matrix nor its moment`,
      'tensors',
    );
  const files = new Map<string, string | Uint8Array[]>([
    [CONFIG, json(peftConfig(adapter, weights))],
    [WEIGHTS, safetensorsFile(weights.map((name) => ({ ...matrix(adapter, name), name: peftName(name) })))],
  ]);
  if (moments.length > 0) files.set(OPTIMIZER, safetensorsFile(moments.map((name) => matrix(adapter, name))));
  if (adapter.step !== undefined) files.set(TRAINER, json({ step: adapter.step, moments: moments.length }));
  await writeFolder(folder, files);
}

export async function readAdapter(folder: string): Promise<AdapterRead> {
  const configFile = join(folder, CONFIG);
  const config = Fields.of(configFile, await readJson(configFile));
  refuseOtherKinds(config);
  const rank = config.integer('r', { min: 1, max: MAX_RANK });
  const alpha = config.number('lora_alpha', { min: 0, max: 1e6 });
  const weightsFile = join(folder, WEIGHTS);
  const { tensors: table } = await readSafetensorsHeader(weightsFile);
  const tensors: Record<string, Float32Array> = {};
  for (const [name, tensor] of table)
    tensors[ourName(weightsFile, name)] = await readTensorValues(checkMatrix(tensor, rank));
  checkPairs(weightsFile, tensors);
  const targets = TARGETS.filter((target) => Object.keys(tensors).some((name) => parseName(name)?.target === target));
  const state = await readState(folder, tensors);
  return {
    adapter: { rank, alpha, tensors },
    targets,
    baseModel: config.string('base_model_name_or_path', ''),
    ...(state === null ? {} : { state }),
  };
}

async function readState(
  folder: string,
  weights: Record<string, Float32Array>,
): Promise<NonNullable<AdapterRead['state']> | null> {
  const trainerFile = join(folder, TRAINER);
  if (!(await exists(trainerFile))) return null;
  const trainer = Fields.of(trainerFile, await readJson(trainerFile));
  const step = trainer.integer('step', { min: 0, max: Number.MAX_SAFE_INTEGER });
  const moments = trainer.integer('moments', { min: 0, max: 1e7 }, 0);
  if (moments === 0) return { step, tensors: weights };
  const file = join(folder, OPTIMIZER);
  const { tensors: table } = await readSafetensorsHeader(file);
  if (table.size !== moments) throw fileError(file, `holds ${table.size} moments, ${TRAINER} says ${moments}`);
  const tensors = { ...weights };
  for (const [name, tensor] of table) {
    const size = weights[name.replace(/\.[mv]$/, '')]?.length;
    const values = await readTensorValues(tensor);
    if (values.length !== size)
      throw fileError(file, `moment "${name}" has ${values.length} values, its matrix ${size ?? 'is missing'}`);
    tensors[name] = values;
  }
  return { step, tensors };
}

/** Variants of LoRA that compute something else than y += alpha/r · B(Ax). */
function refuseOtherKinds(config: Fields): void {
  const kind = config.string('peft_type', 'LORA');
  if (kind !== 'LORA') throw unsupported(config.file, `adapter of type ${show(kind)}; supported is "LORA"`);
  for (const key of ['use_dora', 'use_rslora', 'fan_in_fan_out', 'lora_bias']) {
    if (config.boolean(key, false)) throw unsupported(config.file, `adapter with ${key}`);
  }
  if (config.string('bias', 'none') !== 'none') throw unsupported(config.file, 'adapter with trained biases');
  for (const key of ['rank_pattern', 'alpha_pattern', 'modules_to_save']) {
    const value = config.get(key);
    if (value !== undefined && Object.keys(value as object).length > 0)
      throw unsupported(config.file, `adapter with ${key}`);
  }
}

interface MatrixName {
  layer: number;
  target: string;
  side: 'A' | 'B';
}

function parseName(name: string): MatrixName | null {
  const [, layer, target, side] = /^layers\.(\d+)\.(\w+)\.([AB])$/.exec(name) ?? [];
  if (layer === undefined || !TARGETS.some((known) => known === target)) return null;
  return { layer: Number(layer), target: target!, side: side as 'A' | 'B' };
}

function block(target: string): string {
  return TARGETS.indexOf(target as (typeof TARGETS)[number]) < 4 ? 'self_attn' : 'mlp';
}

function peftName(name: string): string {
  const { layer, target, side } = parseName(name)!;
  return `base_model.model.model.layers.${layer}.${block(target)}.${target}.lora_${side}.weight`;
}

function ourName(file: string, name: string): string {
  const [, layer, where, target, side] =
    /^base_model\.model\.model\.layers\.(\d+)\.(self_attn|mlp)\.(\w+)\.lora_([AB])(?:\.default)?\.weight$/.exec(name) ??
    [];
  const ours = `layers.${layer}.${target}.${side}`;
  if (target === undefined || parseName(ours) === null || block(target) !== where)
    throw unsupported(file, `adapter tensor "${name}"`);
  return ours;
}

/** A: [rank, in], B: [out, rank]; moments have their matrix' shape. */
function matrix({ tensors, rank }: AdapterState, name: string): TensorToWrite {
  const data = tensors[name]!;
  const { side } = parseName(name.replace(/\.[mv]$/, ''))!;
  const other = data.length / rank;
  if (!Number.isInteger(other) || other === 0)
    throw new OpenClawError(
      'E_SHAPE',
      `tensor "${name}" has ${data.length} values, not a multiple of the rank ${rank}`,
      'tensors',
    );
  return { name, shape: side === 'A' ? [rank, other] : [other, rank], data };
}

function checkMatrix(tensor: NativeTensor, rank: number): NativeTensor {
  const [rows, columns] = tensor.shape;
  const inner = tensor.name.includes('.lora_A.') ? rows : columns;
  if (tensor.shape.length === 2 && inner === rank) return tensor;
  throw fileError(
    tensor.file,
    `tensor "${tensor.name}" has shape [${tensor.shape}], which does not fit the rank ${rank}`,
  );
}

function checkPairs(file: string, tensors: Record<string, Float32Array>): void {
  for (const name of Object.keys(tensors)) {
    const other = name.endsWith('.A') ? name.replace(/A$/, 'B') : name.replace(/B$/, 'A');
    if (!Object.hasOwn(tensors, other)) throw fileError(file, `holds "${name}" without "${other}"`);
  }
}

function byLayer(a: string, b: string): number {
  const [x, y] = [parseName(a)!, parseName(b)!];
  const targets: readonly string[] = TARGETS;
  return x.layer - y.layer || targets.indexOf(x.target) - targets.indexOf(y.target) || x.side.localeCompare(y.side);
}

/** `layers_to_transform` only where layers are left out: without it PEFT makes a pair for every layer. */
function peftConfig(adapter: AdapterToWrite, weights: readonly string[]): Record<string, unknown> {
  const layers = [...new Set(weights.map((name) => parseName(name)!.layer))];
  const whole = layers[0] === 0 && layers.every((layer, i) => layer === i);
  return {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: adapter.baseModel,
    r: adapter.rank,
    lora_alpha: adapter.alpha,
    lora_dropout: 0,
    bias: 'none',
    target_modules: [...adapter.targets],
    layers_to_transform: whole ? null : layers,
    layers_pattern: whole ? null : 'layers',
    fan_in_fan_out: false,
    use_dora: false,
    use_rslora: false,
    inference_mode: true,
  };
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
