/**
 * Pre-tokenisation: how a text is cut into words before BPE. Reads the `pre_tokenizer` of a tokenizer.json.
 *
 * The library (@huggingface/tokenizers) translates Oniguruma patterns to JavaScript well, and that part is used. Its own ByteLevel and
 * Digits are not: they use JavaScript's \s (which has U+FEFF and lacks U+0085) and \d (ASCII only), where the original means Unicode
 * white space and every number character ("½ cup, x² and ٣٤٥" of the test fixture differs for that reason).
 */
import { Fields, isObject, show, unsupported } from '../files/reading.js';
import { SplitPreTokenizer } from './library.js';

export type Splitter = (text: string) => string[];

/** GPT-2's pattern, as in tokenizers' ByteLevel. */
export const GPT2_PATTERN = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** A splitter for the `pre_tokenizer` value; `hasByteLevel` tells whether the words are to be read as bytes. */
export function createSplitter(file: string, value: unknown): { split: Splitter; hasByteLevel: boolean } {
  if (value === null || value === undefined) return { split: (text) => [text], hasByteLevel: false };
  const config = Fields.of(file, value, 'pre_tokenizer.');
  const type = config.string('type');
  switch (type) {
    case 'Sequence':
      return sequence(file, config);
    case 'ByteLevel':
      return { split: byteLevel(file, config), hasByteLevel: true };
    case 'Digits':
      return { split: digits(config.boolean('individual_digits', false)), hasByteLevel: false };
    case 'Split':
      return { split: patternSplit(file, config), hasByteLevel: false };
    default:
      throw unsupported(file, `pre-tokenizer ${show(type)}; supported are Sequence, ByteLevel, Digits, Split`);
  }
}

function sequence(file: string, config: Fields): { split: Splitter; hasByteLevel: boolean } {
  const parts = config.get('pretokenizers');
  if (!Array.isArray(parts)) throw config.wrong('pretokenizers', 'a list');
  const steps = parts.map((part) => createSplitter(file, part));
  return {
    split: (text) =>
      steps.reduce<string[]>(
        (words, step) => (words.length === 1 ? step.split(words[0]!) : words.flatMap(step.split)),
        [text],
      ),
    hasByteLevel: steps.some((step) => step.hasByteLevel),
  };
}

function byteLevel(file: string, config: Fields): Splitter {
  const prefix = config.boolean('add_prefix_space', true);
  const cut = config.boolean('use_regex', true) ? isolate(compile(file, GPT2_PATTERN)) : (text: string) => [text];
  return prefix ? (text) => cut(text.startsWith(' ') ? text : ` ${text}`) : cut;
}

function digits(individual: boolean): Splitter {
  // Rust's char::is_numeric: Nd, Nl and No
  return isolate(individual ? /\p{N}/gu : /\p{N}+/gu);
}

function patternSplit(file: string, config: Fields): Splitter {
  const pattern = config.get('pattern');
  if (!isObject(pattern)) throw config.wrong('pattern', 'an object');
  const regex = typeof pattern.Regex === 'string' ? compile(file, pattern.Regex) : literal(config, pattern.String);
  const behavior = config.string('behavior').toLowerCase();
  // inverted: the pattern describes the words, not what stands between them; it makes no difference when both are kept
  if (behavior === 'isolated') return isolate(regex);
  const inverted = config.boolean('invert', false);
  if (behavior === 'removed') return pieces(regex, { matches: inverted, gaps: !inverted });
  throw unsupported(file, `pre-tokenizer "Split" with behavior ${show(behavior)}; supported are Isolated, Removed`);
}

function literal(config: Fields, text: unknown): RegExp {
  if (typeof text !== 'string' || text === '') throw config.wrong('pattern', 'a Regex or a String');
  return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gu');
}

function compile(file: string, pattern: string): RegExp {
  try {
    const { pattern: regex } = new SplitPreTokenizer({
      type: 'Split',
      pattern: { Regex: pattern },
      behavior: 'Isolated',
      invert: false,
    });
    if (regex !== null) return regex;
  } catch (cause) {
    throw unsupported(file, `pre-tokenizer pattern ${show(pattern)} (${String(cause)})`);
  }
  throw unsupported(file, `pre-tokenizer pattern ${show(pattern)}`);
}

/** Cuts a text at every match; `keep` says which pieces are words. */
function pieces(regex: RegExp, keep: { matches: boolean; gaps: boolean }): Splitter {
  return (text) => {
    const words: string[] = [];
    let end = 0;
    regex.lastIndex = 0;
    for (let match = regex.exec(text); match !== null; match = regex.exec(text)) {
      const word = match[0];
      if (word === '') {
        // an empty match would stay in place for ever; a step into the middle of a surrogate pair would be taken back
        regex.lastIndex += (text.codePointAt(regex.lastIndex) ?? 0) > 0xffff ? 2 : 1;
        continue;
      }
      if (keep.gaps && match.index > end) words.push(text.slice(end, match.index));
      if (keep.matches) words.push(word);
      end = match.index + word.length;
    }
    if (keep.gaps && end < text.length) words.push(text.slice(end));
    return words;
  };
}

function isolate(regex: RegExp): Splitter {
  return pieces(regex, { matches: true, gaps: true });
}
