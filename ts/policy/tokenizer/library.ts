/**
 * The two classes of @huggingface/tokenizers that are used, typed here: the package's own declarations import without file endings,
 * which TypeScript's NodeNext resolution does not follow, so they arrive empty.
 */
import * as library from '@huggingface/tokenizers';

interface Library {
  /** `pattern`: the Oniguruma pattern as a JavaScript one, flags "gu"; null when the kind of pattern is not known */
  SplitPreTokenizer: new (config: {
    type: 'Split';
    pattern: { Regex: string };
    behavior: string;
    invert: boolean;
  }) => { pattern: RegExp | null };
  SequenceNormalizer: new (config: { type: 'Sequence'; normalizers: unknown[] }) => { normalize(text: string): string };
}

export const { SplitPreTokenizer, SequenceNormalizer } = library as unknown as Library;
