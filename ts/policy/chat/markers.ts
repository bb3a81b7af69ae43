/**
 * Markers: private-use characters that stand in for something while a template runs, chosen so that the text at hand holds none of them.
 * Templates copy, trim and compare texts but do not know these characters, so a marker comes out where its text comes out.
 */
import { OpenClawError } from '../../record/index.js';

/** the private-use areas of Unicode: the basic one, then planes 15 and 16 */
const AREAS: ReadonlyArray<readonly [number, number]> = [
  [0xe000, 0xf8ff],
  [0xf0000, 0xffffd],
  [0x100000, 0x10fffd],
];

/** Gives out characters that are in none of `texts`, neither as such nor written as a JSON escape. */
export class MarkerSource {
  private readonly taken = new Set<number>();
  private area = 0;
  private next = AREAS[0]![0];

  constructor(texts: Iterable<string>) {
    for (const text of texts) this.take(text);
  }

  fresh(): string {
    while (this.area < AREAS.length) {
      const candidate = this.next++;
      if (candidate >= AREAS[this.area]![1]) this.next = AREAS[++this.area]?.[0] ?? 0;
      if (!this.taken.has(candidate)) return String.fromCodePoint(candidate);
    }
    // 137,000 different private-use characters in one request are no conversation
    throw new OpenClawError(
      'E_ARGUMENT',
      'the messages use every private-use character of Unicode; none is left to render them safely',
      'messages',
    );
  }

  private take(text: string): void {
    for (const match of text.matchAll(/\p{Co}/gu)) this.taken.add(match[0].codePointAt(0)!);
    // A template may write JSON with ASCII escapes ("\ue000"); a text that holds the escape itself must not be mistaken for a marker.
    for (const match of text.matchAll(/\\u([0-9a-f]{4})/gi)) this.taken.add(Number.parseInt(match[1]!, 16));
  }
}

/** How a character looks after JSON with ASCII escapes, as templates' `tojson(ensure_ascii=true)` writes it. */
export function jsonEscape(character: string): string {
  let text = '';
  for (let i = 0; i < character.length; i++) text += `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`;
  return text;
}
