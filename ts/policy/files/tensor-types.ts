/** Storage types of tensors: GGML's numbers, which the native code uses for safetensors too, and their block sizes. */
import { fileError, unsupported } from './reading.js';

interface StorageType {
  name: string;
  /** values of one block */ values: number;
  /** bytes of one block */ bytes: number;
}

/** What the native code reads. Block layouts: ggml-common.h of ggml. */
const SUPPORTED: ReadonlyMap<number, StorageType> = new Map([
  [0, { name: 'F32', values: 1, bytes: 4 }],
  [1, { name: 'F16', values: 1, bytes: 2 }],
  [2, { name: 'Q4_0', values: 32, bytes: 18 }],
  [3, { name: 'Q4_1', values: 32, bytes: 20 }],
  [6, { name: 'Q5_0', values: 32, bytes: 22 }],
  [7, { name: 'Q5_1', values: 32, bytes: 24 }],
  [8, { name: 'Q8_0', values: 32, bytes: 34 }],
  [12, { name: 'Q4_K', values: 256, bytes: 144 }],
  [14, { name: 'Q6_K', values: 256, bytes: 210 }],
  [30, { name: 'BF16', values: 1, bytes: 2 }],
]);

/** Known to GGML, not read here: only so that the error can say the name. */
const OTHER_NAMES: Readonly<Record<number, string>> = {
  9: 'Q8_1',
  10: 'Q2_K',
  11: 'Q3_K',
  13: 'Q5_K',
  15: 'Q8_K',
  16: 'IQ2_XXS',
  17: 'IQ2_XS',
  18: 'IQ3_XXS',
  19: 'IQ1_S',
  20: 'IQ4_NL',
  21: 'IQ3_S',
  22: 'IQ2_S',
  23: 'IQ4_XS',
  24: 'I8',
  25: 'I16',
  26: 'I32',
  27: 'I64',
  28: 'F64',
  29: 'IQ1_M',
  34: 'TQ1_0',
  35: 'TQ2_0',
  39: 'MXFP4',
};

export const F32 = 0;
export const F16 = 1;
export const BF16 = 30;

export function storageType(file: string, tensor: string, type: number): StorageType {
  const found = SUPPORTED.get(type);
  if (found) return found;
  const names = [...SUPPORTED.values()].map((t) => t.name).join(', ');
  throw unsupported(
    file,
    `tensor "${tensor}" is stored as ${OTHER_NAMES[type] ?? `type ${type}`}; supported are ${names}`,
  );
}

/** Bytes of a tensor of this type and shape (outermost first). The innermost axis must be whole blocks. */
export function tensorBytes(file: string, tensor: string, type: number, shape: readonly number[]): number {
  const { name, values, bytes } = storageType(file, tensor, type);
  const count = shape.reduce((product, n) => product * n, 1);
  const inner = shape.at(-1) ?? 1;
  if (!Number.isSafeInteger(count * bytes))
    throw fileError(file, `tensor "${tensor}" has an impossible shape [${shape}]`);
  if (inner % values !== 0)
    throw fileError(file, `tensor "${tensor}": rows of ${inner} are not whole ${name} blocks of ${values}`);
  return (count / values) * bytes;
}
