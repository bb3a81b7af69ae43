/** The core of a clause: politeness, "can you …", "from now on" and reasons taken off, so that what is asked stands alone. */

const FILLER =
  /^(?:please|pls|kindly|and|so|then|well|ok(?:ay)?|hey|hmm|sorry|oh|um|just please|next time|from now on|in (?:the )?future|this time|again|actually|honestly|also|way)\b[\s,:]+/i;
const ASKING = new RegExp(
  [
    /(?:can|could|would|will) you (?:please |maybe |perhaps |just |at least |instead |try to )*/,
    /would you mind /,
    /i(?:'d| would) (?:like|love|prefer) you to /,
    /i (?:want|need|asked|told) you to /,
    /you (?:should|must|need to|have to|ought to|are supposed to) /,
    /(?:try to|make sure (?:to|that you|you)|be sure to|remember to) /,
    /let's /,
  ]
    .map(({ source }) => `^${source}`)
    .join('|'),
  'i',
);
const TAIL =
  /(?:[\s,]+(?:please|pls|thanks|thank you|thx|next time|from now on|this time|for me|ok(?:ay)?|again|will you|if you can|if possible|right))+$/i;
/** "…, I am reading on my phone": why, not what */
const REASON = /(?:,\s*(?:because|since|so that|as|so|i|i'm|it's|we|you)|\s+because)\s.*$/i;
/** an opening capital that is only there because the sentence begins; names of languages keep theirs */
const OPENING =
  /^(?!I\b|English|German|French|Spanish|Italian|Portuguese|Dutch|Polish|Russian|Chinese|Mandarin|Japanese|Korean|Arabic|Hindi|Turkish|Latin|Swedish|Ukrainian)[A-Z](?![A-Z])/;

export function peeled(clause: string): string {
  let text = clause.trim();
  for (let before = ''; before !== text; ) {
    before = text;
    text = text.replace(FILLER, '').replace(ASKING, '').replace(TAIL, '').replace(REASON, '').trim();
  }
  return text.replace(OPENING, (letter) => letter.toLowerCase());
}
