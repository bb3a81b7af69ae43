/**
 * Requests hosts make on the side: a title, tags, a summary of the talk. They are no part of it: nobody answers them, so
 * they neither follow a reply nor can be learned from. Read narrowly: a person who asks for a title of *a story* is talking.
 */
import { type Message, spokenWords } from '../record/index.js';

const ABOUT_THE_TALK = String.raw`\b(?:conversation|chat|dialog(?:ue)?|discussion|session|exchange|thread|messages? (?:above|below|history))\b`;
const TITLE = new RegExp(
  String.raw`\b(?:generate|create|write|provide|suggest|give|make|produce|propose|come up with)\b[^.\n]{0,80}` +
    String.raw`\b(?:titles?|names?|tags?|slugs?|labels?|follow[- ]?up questions?)\b[^.\n]{0,80}${ABOUT_THE_TALK}`,
  'i',
);
const SUMMARY = new RegExp(String.raw`\bsummar(?:y|ies|i[sz]e)\b[^.\n]{0,60}${ABOUT_THE_TALK}`, 'i');
const TASK_HEADING = /^#{1,3}\s*task\b/i;
/** the talk pasted into the message */
const TRANSCRIPT = /<(?:chat_history|conversation|transcript|messages)>|^(?:user|human|assistant|ai):\s/im;

/** `extends`: the request continues one of our chains, as a person's own question about the talk would. */
export function looksSide(messages: readonly Message[], extendsChain: boolean): boolean {
  const last = messages.findLast((message) => message.role === 'user');
  if (last === undefined) return false;
  const words = spokenWords(last);
  const pasted = TASK_HEADING.test(words) || TRANSCRIPT.test(words);
  if (TITLE.test(words)) return pasted || !extendsChain || words.length < 200;
  return SUMMARY.test(words) && (pasted || (!extendsChain && words.length < 400));
}
