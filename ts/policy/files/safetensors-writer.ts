/** Writing safetensors: header, then the tensors' bytes one after the other. Deterministic: the same tensors give the same bytes. */
import { OpenClawError } from '../../record/index.js';
import { f32ToBf16 } from './safetensors.js';

export interface TensorToWrite {
  name: string;
  shape: readonly number[];
  /** Uint16Array: bf16 bits */ data: Float32Array | Uint16Array;
}

const utf8 = new TextEncoder();

/** @param metadata texts for the header's `__metadata__`; transformers wants {format: 'pt'} */
export function safetensorsFile(
  tensors: readonly TensorToWrite[],
  metadata: Readonly<Record<string, string>> = { format: 'pt' },
): Uint8Array[] {
  const header: Record<string, unknown> = { __metadata__: metadata };
  let offset = 0;
  for (const { name, shape, data } of tensors) {
    checkTensor(name, shape, data, header);
    header[name] = {
      dtype: data instanceof Float32Array ? 'F32' : 'BF16',
      shape,
      data_offsets: [offset, offset + data.byteLength],
    };
    offset += data.byteLength;
  }
  const json = utf8.encode(JSON.stringify(header));
  // padded with spaces to 8 bytes, as the reference writer does: the tensors are then aligned for mapping
  const padded = new Uint8Array(Math.ceil(json.length / 8) * 8).fill(0x20);
  padded.set(json);
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(padded.length), true);
  return [length, padded, ...tensors.map(({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength))];
}

function checkTensor(
  name: string,
  shape: readonly number[],
  data: Float32Array | Uint16Array,
  header: Record<string, unknown>,
): void {
  if (Object.hasOwn(header, name)) throw new OpenClawError('E_ARGUMENT', `two tensors are named "${name}"`, 'tensors');
  const values = shape.reduce((product, n) => product * n, 1);
  if (values !== data.length)
    throw new OpenClawError(
      'E_SHAPE',
      `tensor "${name}" has ${data.length} values, its shape [${shape}] asks for ${values}`,
      'tensors',
    );
}

/** The values as they are to be stored. */
export function inDtype(data: Float32Array | Uint16Array, dtype: 'f32' | 'bf16'): Float32Array | Uint16Array {
  if (dtype === 'bf16') return data instanceof Uint16Array ? data : Uint16Array.from(data, f32ToBf16);
  if (data instanceof Float32Array) return data;
  const values = new Float32Array(data.length);
  const bits = new Uint32Array(values.buffer);
  data.forEach((half, i) => {
    bits[i] = half << 16;
  });
  return values;
}
