/**
 * Byte-level BPE writes each of the 256 bytes as one printable character (GPT-2's table), so that tokens can be stored as texts.
 * Printable Latin-1 bytes stand for themselves, the others are counted up from U+0100. Source: bytes_to_unicode in GPT-2's encoder.py.
 */
const CHARACTERS: readonly string[] = makeTable();
const BYTES: ReadonlyMap<string, number> = new Map(CHARACTERS.map((character, byte) => [character, byte]));

function makeTable(): string[] {
  const printable = (byte: number) => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
}

export function characterOfByte(byte: number): string {
  return CHARACTERS[byte]!;
}

export function bytesToCharacters(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += CHARACTERS[byte];
  return text;
}

/** The bytes a token's text stands for; null when it holds a character outside the table (then the text stands for itself). */
export function charactersToBytes(text: string): Uint8Array | null {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const byte = BYTES.get(text[i]!);
    if (byte === undefined) return null;
    bytes[i] = byte;
  }
  return bytes;
}
