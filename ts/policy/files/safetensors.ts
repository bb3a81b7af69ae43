/**
 * safetensors: an u64 header length, a JSON header {name: {dtype, shape, data_offsets}}, then the data. Reading gives a checked tensor
 * table; the bytes themselves are read by the native code (weights) or by readTensors here (adapters, small).
 */
import type { NativeTensor } from '../native-types.js';
import { checkRanges } from './layout.js';
import {
  Fields,
  fileError,
  isObject,
  MAX_HEADER_BYTES,
  parseJson,
  readRange,
  show,
  sizeOfFile,
  unsupported,
} from './reading.js';
import { BF16, F16, F32, tensorBytes } from './tensor-types.js';

const DTYPES: ReadonlyMap<string, number> = new Map([
  ['F32', F32],
  ['F16', F16],
  ['BF16', BF16],
]);
/** shapes of the models we read have one or two axes; more than this is a damaged header */
const MAX_AXES = 8;

export interface SafetensorsHeader {
  tensors: Map<string, NativeTensor>;
  /** the header's own `__metadata__`, texts only */ metadata: Record<string, string>;
}

export async function readSafetensorsHeader(file: string): Promise<SafetensorsHeader> {
  const size = await sizeOfFile(file);
  if (size < 8) throw fileError(file, `is ${size} bytes, too short for a safetensors file`);
  const head = await readRange(file, 0, 8);
  const length = Number(new DataView(head.buffer).getBigUint64(0, true));
  if (length > MAX_HEADER_BYTES)
    throw fileError(file, `claims a header of ${length} bytes; not a safetensors file, or damaged`);
  if (8 + length > size)
    throw fileError(file, `is cut short: its header of ${length} bytes does not fit in ${size} bytes`);
  const text = decodeUtf8(file, await readRange(file, 8, length));
  return parseHeader(file, text, 8 + length, size);
}

function parseHeader(file: string, text: string, dataStart: number, fileSize: number): SafetensorsHeader {
  const header = parseJson(file, text);
  if (!isObject(header)) throw fileError(file, 'the safetensors header must be a JSON object');
  const tensors = new Map<string, NativeTensor>();
  let metadata: Record<string, string> = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') metadata = textsOf(entry);
    else tensors.set(name, parseEntry(file, name, entry, dataStart));
  }
  // JSON.parse keeps the last of two equal keys in silence; counting the entries in the text finds the loss.
  const written = text.match(/"data_offsets"\s*:/g)?.length ?? 0;
  if (written > tensors.size) throw fileError(file, 'holds two tensors of the same name');
  checkRanges(file, [...tensors.values()], dataStart, fileSize);
  return { tensors, metadata };
}

function parseEntry(file: string, name: string, value: unknown, dataStart: number): NativeTensor {
  const entry = Fields.of(file, value, `${name}.`);
  const dtype = entry.string('dtype');
  const type = DTYPES.get(dtype);
  if (type === undefined)
    throw unsupported(
      file,
      `tensor "${name}" is stored as ${show(dtype)}; supported are ${[...DTYPES.keys()].join(', ')}`,
    );
  const shape = naturals(entry, 'shape', MAX_AXES);
  const offsets = naturals(entry, 'data_offsets', 2);
  const [begin, end] = offsets;
  if (begin === undefined || end === undefined || end < begin)
    throw entry.wrong('data_offsets', 'two offsets in order');
  const bytes = tensorBytes(file, name, type, shape);
  if (end - begin !== bytes)
    throw fileError(file, `tensor "${name}" has ${end - begin} bytes, its shape [${shape}] of ${dtype} needs ${bytes}`);
  return { name, type, shape, file, offset: dataStart + begin, bytes, unpermuteHeads: 0 };
}

function naturals(entry: Fields, key: string, most: number): number[] {
  const value = entry.get(key);
  const fits = (n: unknown) => Number.isSafeInteger(n) && (n as number) >= 0;
  if (Array.isArray(value) && value.length <= most && value.every(fits)) return value as number[];
  throw entry.wrong(key, `at most ${most} whole numbers >= 0`);
}

function textsOf(value: unknown): Record<string, string> {
  if (!isObject(value)) return {};
  return Object.fromEntries(Object.entries(value).filter((e): e is [string, string] => typeof e[1] === 'string'));
}

function decodeUtf8(file: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw fileError(file, 'the safetensors header is not UTF-8', cause);
  }
}

/** One tensor's values as f32. */
export async function readTensorValues(tensor: NativeTensor): Promise<Float32Array> {
  const bytes = await readRange(tensor.file, tensor.offset, tensor.bytes);
  if (tensor.type === F32) return new Float32Array(bytes.buffer);
  const halves = new Uint16Array(bytes.buffer);
  return Float32Array.from(halves, tensor.type === BF16 ? bf16ToF32 : f16ToF32);
}

const bits = new DataView(new ArrayBuffer(4));

export function bf16ToF32(half: number): number {
  bits.setUint32(0, half << 16);
  return bits.getFloat32(0);
}

/** Round to nearest even; NaN stays NaN. The same as native/base/dtype.h. */
export function f32ToBf16(value: number): number {
  bits.setFloat32(0, value);
  const u = bits.getUint32(0);
  if ((u & 0x7fffffff) > 0x7f800000) return (u >>> 16) | 0x40;
  return ((u + 0x7fff + ((u >>> 16) & 1)) >>> 16) & 0xffff;
}

function f16ToF32(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 0x3ff;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
