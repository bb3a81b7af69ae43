/**
 * claw-nano's chat form (ChatML) and how a dialogue becomes training tokens. The template and `renderDialogue` say the same
 * thing in two ways; a test compares their ids.
 */
import type { Message } from '../record/index.js';
import type { Dialogue } from './corpus.js';

export const SPECIAL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const;
const START = '<|im_start|>';
const END = '<|im_end|>';

export const CHAT_TEMPLATE = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}`;

export interface Encoder {
  /** ids of a text; special tokens in it are read as such when `special` */
  encode(text: string, special: boolean): Int32Array;
}

export interface TrainingTokens {
  ids: Int32Array;
  /** [ids.length] 1 where the token is to be learned */ learned: Uint8Array;
}

/** Ids of a dialogue, and which of them are learned: the words of the replies in `learn`, their end tokens, not what was given. */
export function renderDialogue(dialogue: Dialogue, encoder: Encoder): TrainingTokens {
  const ids: number[] = [];
  const learned: number[] = [];
  const add = (text: string, special: boolean, learn: 0 | 1): void => {
    for (const id of encoder.encode(text, special)) {
      ids.push(id);
      learned.push(learn);
    }
  };
  dialogue.messages.forEach((message: Message, i) => {
    const learn = dialogue.learn.includes(i) ? 1 : 0;
    const content = message.content ?? '';
    const given = i === dialogue.messages.length - 1 ? dialogue.given : '';
    add(`${START}${message.role}\n`, true, 0);
    if (given !== '') add(given, false, 0);
    add(content.slice(given.length), false, learn);
    add(END, true, learn);
    add('\n', false, 0);
  });
  return { ids: Int32Array.from(ids), learned: Uint8Array.from(learned) };
}
