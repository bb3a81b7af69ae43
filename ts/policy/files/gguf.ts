/**
 * GGUF v2 and v3 (little-endian): metadata of every value type and the table of tensors. Format: docs/gguf.md of ggml.
 *
 * The header's length is not written anywhere, so a window from the start of the file is parsed and enlarged until the header fits.
 * Every count and length is compared with what is left of the *file* before anything is made of it: a damaged count cannot ask for memory.
 */
import type { NativeTensor } from '../native-types.js';
import { checkRanges } from './layout.js';
import { fileError, MAX_HEADER_BYTES, readRange, sizeOfFile, unsupported } from './reading.js';
import { tensorBytes } from './tensor-types.js';

export type GgufValue = number | string | boolean | GgufValue[];

export interface GgufHeader {
  version: number;
  metadata: Map<string, GgufValue>;
  /** GGUF names, shapes outermost first (GGUF writes them innermost first), offsets from the start of the file */
  tensors: Map<string, NativeTensor>;
}

const FIRST_WINDOW = 4 * 1024 * 1024;
const MAX_AXES = 4;
/** arrays of arrays are allowed by the format; nobody nests deeper */
const MAX_NESTING = 3;
const MAX_NAME_BYTES = 65_535;
/** values in all arrays together: a value costs up to 8 bytes of memory for 1 byte of file. Real files hold about half a million. */
const MAX_ARRAY_VALUES = 8 * 1024 * 1024;

export async function readGgufHeader(file: string): Promise<GgufHeader> {
  const fileSize = await sizeOfFile(file);
  for (let window = FIRST_WINDOW; ; window *= 4) {
    const length = Math.min(window, fileSize, MAX_HEADER_BYTES);
    const header = parseGguf(file, await readRange(file, 0, length), fileSize);
    if (header !== null) return header;
    if (length === MAX_HEADER_BYTES) throw fileError(file, `has a header of more than ${MAX_HEADER_BYTES} bytes`);
  }
}

/** The header, or null when it goes on past the window. `bytes`: the first bytes of a file of `fileSize` bytes. */
export function parseGguf(file: string, bytes: Uint8Array, fileSize: number): GgufHeader | null {
  try {
    return new HeaderParser(file, bytes, fileSize).parse();
  } catch (error) {
    if (error instanceof WindowTooSmall) return null;
    throw error;
  }
}

/** Thrown inside the parser only: the file goes on, the window does not. */
class WindowTooSmall extends Error {}

/** Bytes of the fixed-size metadata types by type number (8 string and 9 array are not fixed). */
const FIXED: Readonly<Record<number, number>> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const STRING = 8;
const ARRAY = 9;

class HeaderParser {
  private readonly view: DataView;
  private readonly utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
  private at = 0;
  private arrayValues = 0;

  constructor(
    private readonly file: string,
    private readonly bytes: Uint8Array,
    private readonly fileSize: number,
  ) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  parse(): GgufHeader {
    const version = this.version();
    const tensorCount = this.count(8 + 4 + 8 + 4 + 8, 'tensors');
    const valueCount = this.count(8 + 4 + 1, 'metadata values');
    const metadata = new Map<string, GgufValue>();
    for (let i = 0; i < valueCount; i++) {
      const key = this.name('metadata key');
      if (metadata.has(key)) throw this.damaged(`metadata key "${key}" stands there twice`);
      metadata.set(key, this.value(this.u32(), key, 0));
    }
    const alignment = this.alignment(metadata);
    const tensors = this.tensors(tensorCount, alignment);
    return { version, metadata, tensors };
  }

  private version(): number {
    if (this.fileSize < 24) throw fileError(this.file, `is ${this.fileSize} bytes, too short for a GGUF file`);
    if (this.u32() !== 0x46554747) throw fileError(this.file, 'is not a GGUF file (it does not begin with "GGUF")');
    const version = this.u32();
    if (version === 2 || version === 3) return version;
    if (version === 0x02000000 || version === 0x03000000) throw unsupported(this.file, 'is a big-endian GGUF file');
    throw unsupported(this.file, `is GGUF version ${version}; versions 2 and 3 are read`);
  }

  private alignment(metadata: ReadonlyMap<string, GgufValue>): number {
    const alignment = metadata.get('general.alignment') ?? 32;
    const good =
      typeof alignment === 'number' && alignment >= 1 && alignment <= 1 << 20 && Number.isInteger(Math.log2(alignment));
    if (!good) throw this.damaged(`general.alignment must be a power of two up to ${1 << 20}`);
    return alignment;
  }

  private tensors(count: number, alignment: number): Map<string, NativeTensor> {
    const found: NativeTensor[] = [];
    for (let i = 0; i < count; i++) found.push(this.tensor(alignment));
    const dataStart = Math.ceil(this.at / alignment) * alignment;
    const table = new Map<string, NativeTensor>();
    for (const tensor of found) {
      if (table.has(tensor.name)) throw this.damaged(`tensor "${tensor.name}" stands there twice`);
      table.set(tensor.name, { ...tensor, offset: dataStart + tensor.offset });
    }
    checkRanges(this.file, [...table.values()], dataStart, this.fileSize);
    return table;
  }

  private tensor(alignment: number): NativeTensor {
    const name = this.name('tensor name');
    const axes = this.u32();
    if (axes < 1 || axes > MAX_AXES) throw this.damaged(`tensor "${name}" has ${axes} axes`);
    const shape: number[] = [];
    for (let axis = 0; axis < axes; axis++) shape.unshift(this.u64(`an axis of tensor "${name}"`));
    const type = this.u32();
    const offset = this.u64(`the offset of tensor "${name}"`);
    if (offset % alignment !== 0) throw this.damaged(`tensor "${name}" is not aligned to ${alignment} bytes`);
    const bytes = tensorBytes(this.file, name, type, shape);
    return { name, type, shape, file: this.file, offset, bytes, unpermuteHeads: 0 };
  }

  private value(type: number, key: string, depth: number): GgufValue {
    if (type === STRING) return this.text(this.fileSize, `the text of "${key}"`);
    if (type === ARRAY) return this.array(key, depth);
    return this.scalar(type, key);
  }

  private array(key: string, depth: number): GgufValue[] {
    if (depth >= MAX_NESTING) throw this.damaged(`"${key}" nests arrays too deeply`);
    const type = this.u32();
    const smallest = type === STRING ? 8 : type === ARRAY ? 12 : FIXED[type];
    if (smallest === undefined) throw this.damaged(`"${key}" holds values of unknown type ${type}`);
    const count = this.count(smallest, `values of "${key}"`);
    this.arrayValues += count;
    if (this.arrayValues > MAX_ARRAY_VALUES)
      throw this.damaged(`holds more than ${MAX_ARRAY_VALUES} values in arrays (at "${key}")`);
    const values: GgufValue[] = [];
    for (let i = 0; i < count; i++) values.push(this.value(type, key, depth + 1));
    return values;
  }

  private scalar(type: number, key: string): GgufValue {
    const size = FIXED[type];
    if (size === undefined) throw this.damaged(`"${key}" has the unknown type ${type}`);
    const at = this.take(size);
    switch (type) {
      case 0:
        return this.view.getUint8(at);
      case 1:
        return this.view.getInt8(at);
      case 2:
        return this.view.getUint16(at, true);
      case 3:
        return this.view.getInt16(at, true);
      case 4:
        return this.view.getUint32(at, true);
      case 5:
        return this.view.getInt32(at, true);
      case 6:
        return this.view.getFloat32(at, true);
      case 7:
        return this.view.getUint8(at) !== 0;
      // 64-bit whole numbers become doubles: nothing we read needs more than 53 bits, and what needs them exact is checked as u64
      case 10:
        return Number(this.view.getBigUint64(at, true));
      case 11:
        return Number(this.view.getBigInt64(at, true));
      default:
        return this.view.getFloat64(at, true);
    }
  }

  /** A count of things of at least `smallest` bytes each: more than the rest of the file can hold is damage. */
  private count(smallest: number, what: string): number {
    const count = this.u64(`the number of ${what}`);
    if (count * smallest > this.fileSize - this.at)
      throw this.damaged(`claims ${count} ${what}, more than the file can hold`);
    // everything counted must also fit in a header: without this a huge file could ask for a huge array
    if (count * smallest > MAX_HEADER_BYTES)
      throw this.damaged(`claims ${count} ${what}, more than a header of ${MAX_HEADER_BYTES} bytes holds`);
    return count;
  }

  private name(what: string): string {
    const name = this.text(MAX_NAME_BYTES, `a ${what}`);
    if (name === '') throw this.damaged(`has an empty ${what}`);
    return name;
  }

  private text(most: number, what: string): string {
    const length = this.u64(`the length of ${what}`);
    if (length > most) throw this.damaged(`claims ${length} bytes for ${what}`);
    const at = this.take(length);
    return this.utf8.decode(this.bytes.subarray(at, at + length));
  }

  private u32(): number {
    return this.view.getUint32(this.take(4), true);
  }

  private u64(what: string): number {
    const value = Number(this.view.getBigUint64(this.take(8), true));
    if (!Number.isSafeInteger(value)) throw this.damaged(`${what} is ${value}, which is impossible`);
    return value;
  }

  /** Moves past `length` bytes and returns where they begin. */
  private take(length: number): number {
    const at = this.at;
    if (length > this.fileSize - at)
      throw this.damaged(`is cut short at byte ${this.fileSize}: ${length} more bytes were expected at ${at}`);
    if (length > this.bytes.length - at) throw new WindowTooSmall();
    this.at += length;
    return at;
  }

  private damaged(what: string) {
    return fileError(this.file, what);
  }
}
