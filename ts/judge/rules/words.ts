/**
 * What a user's words say about the reply before them: praise, complaint, a wish for another reply, or nothing. Read
 * plainly: sarcasm is not guessed at, politeness is not praise, a condition ("would be great if") is not praise either, and a
 * new question is neither. Only English is read; words in another language are not scored at all.
 */
import { type Clause, clausesOf, cleaned } from './clauses.js';
import { correctionIn } from './corrections.js';
import { wordsIn } from './form.js';

export interface Reading {
  /** null: these words cannot be read */ score: -1 | 0 | 1 | null;
  /** instructions in the user's words, in the order said */ corrections: string[];
}

const PRAISE =
  /\b(?:thanks|thank you|thx|cheers|great|perfect(?:ly)?|excellent|awesome|amazing|wonderful|brilliant|fantastic|lovely|beautiful|superb|impressive|nice|cool|good (?:job|work|answer|one|point|reply|idea)|well done|helpful|helps|helped|exactly(?: what| right)?|spot on|that(?:'s| is) (?:right|correct|it|good|better|what i (?:wanted|needed|meant|asked for))|(?:looks?|sounds?|works?|working) (?:good|great|fine|well|perfectly|now)|(?:it|that|this) works|much better|i (?:really )?(?:like|love) (?:it|this|that)|love it|correct|well explained|makes sense|got it)\b|^(?:good|right|better|works|nice|yes,? (?:correct|right|exactly))$|👍|❤|🙏/iu;
/** praise words that praise nothing */
const NOT_PRAISE =
  /\b(?:would|could|might) (?:be|have been|help)\b|\bif\b|\bthanks for nothing\b|\bno thanks\b|\bthanks in advance\b|\bgreat (?:deal|britain|wall|depression|lakes|barrier|grandm|grandf)|\bnice to\b|\bgood (?:morning|evening|afternoon|night|luck)\b|\b(?:make|write|say|sound|be|something|more) (?:\w+ )?(?:nice|cool|great|helpful|kind|perfect)\b/i;
const NEGATED =
  /\b(?:not|isn't|aren't|wasn't|never|hardly|doesn't|don't|didn't|won't|no|far from|less than|barely)\s+(?:\w+\s+){0,3}?(?:great|perfect|excellent|nice|good|helpful|help|right|correct|works?|working|what i|exactly|better|make sense|makes sense|like|love|it\b|fine|well)/i;

const COMPLAINT = new RegExp(
  [
    String.raw`\b(?:is|are|was|were|looks?|seems?|'s|still|all|totally|completely|just|got (?:it|this|that)|answer|result|number|that)\s+(?:still |all |just |plain |completely |totally |simply |so |clearly |obviously )*(?:wrong|incorrect|false|mistaken|inaccurate|useless|unhelpful|nonsense|rubbish|garbage|terrible|awful|horrible|ridiculous|confusing|bad)\b`,
    '^(?:wrong|incorrect|false|bad|terrible|awful|useless|nonsense|rubbish|disappointing)(?: (?:answer|number|result|again|one|way|direction|reply))?$',
    String.raw`\bwrong (?:answer|number|result|one|file|way|direction)\b`,
    String.raw`\bnot (?:what i (?:asked|wanted|meant|need|needed|said|was looking for|had in mind)|right|correct|true|helpful|good|it|the (?:right|correct|answer)|even close|working|like (?:that|this)|an answer)\b`,
    String.raw`\b(?:isn't|wasn't|aren't) (?:right|correct|true|helpful|it|what|good|working|the (?:right|correct))\b`,
    String.raw`\b(?:does not|doesn't|did not|didn't|won't|do not|don't) (?:work|help|compile|run|answer|make (?:any )?sense|look right|seem right|match|do what)\b`,
    String.raw`\byou (?:have )?(?:did not|didn't|don't|do not|never|ignored?|misunderstood|misread|forgot|missed|made (?:a|an|another|the same) (?:mistake|error)|failed|got (?:it|that|this) wrong|repeated|keep|kept|broke|are wrong|'re wrong)\b`,
    String.raw`\bi (?:did not|didn't|never) (?:ask|want|mean|say|request)\b|\bi (?:already )?(?:told|asked) you\b|\bi already (?:said|told|asked|explained)\b|\bi said\b`,
    String.raw`\bi (?:do not|don't|did not|didn't|cannot|can't) (?:understand|get it|follow|see how|like (?:it|this|that))\b`,
    String.raw`\b(?:still|again) (?:not|fails?|failing|broken|crashes|errors?|the same)\b|\bsame (?:mistake|error|problem) again\b`,
    String.raw`\blooks? like (?:an )?ai\b|\bthanks for nothing\b|\bthat makes no sense\b`,
  ].join('|'),
  'i',
);
const REDO =
  /\b(?:try|do|write|say|answer|explain|check|solve|count|calculate|run|read|make) (?:it |this |that |the \w+ |your \w+ )?(?:once |one time |all )?(?:again|over)\b|^(?:please )?(?:again|redo|retry|once more|one more time|another try)\b|\bstart over\b|\btry (?:another|a different) (?:way|approach|answer)\b|\bcheck (?:the|your|that) (?:number|answer|result|math|calculation|work)s?\b|\bfix (?:it|that|this)\b/i;
/** a refusal of the reply, unless it answers a question or closes the talk */
const NO = /^(?:no|nope|nah)$/i;
const CLOSING =
  /^(?:that(?:'s| is| was| will be)? (?:all|everything|fine|enough|ok(?:ay)?|it for (?:now|today))|i(?:'m| am) (?:good|fine|done)|thank|thanks|nothing|all good|i don't(?: think so)?)\b/i;
/** what follows is the next thing, not a wish about the last reply */
const ONWARD = /^(?:now|next|then|also|another|one more|let's|can you also|could you also|what about|how about)\b/i;
const ENGLISH =
  /\b(?:the|a|an|is|are|was|it|this|that|you|your|i|me|my|we|to|of|in|on|for|and|or|not|no|yes|do|does|did|can|could|would|what|how|why|who|when|where|which|please|with|have|has|be|ok|okay|hi|hello|hey|more|go|now|next|thanks|again)\b/i;

export function readWords(text: string, replyAsked: boolean): Reading {
  const clauses = clausesOf(text);
  if (clauses.length === 0) return { score: null, corrections: [] };
  const onward = isOnward(clauses);
  const about = onward < 0 ? clauses : clauses.slice(0, onward);
  const corrections = about.map((clause) => correctionIn(clause.text)).filter((c): c is string => c !== null);
  const instructions = corrections.filter((c) => c !== '');
  if (corrections.length > 0 || about.some((clause, i) => isComplaint(clause, about[i + 1], replyAsked))) {
    return { score: -1, corrections: instructions };
  }
  if (isPraised(clauses)) return { score: 1, corrections: [] };
  return { score: isReadable(text) ? 0 : null, corrections: [] };
}

/** Praise first, then "now …": where the new matter begins; -1: nowhere. */
function isOnward(clauses: Clause[]): number {
  const at = clauses.findIndex((clause) => ONWARD.test(clause.text));
  return at > 0 && clauses.slice(0, at).some(isPraise) ? at : -1;
}

function isComplaint(clause: Clause, following: Clause | undefined, replyAsked: boolean): boolean {
  if (NO.test(clause.text)) return !replyAsked && !(following !== undefined && CLOSING.test(following.text));
  if (clause.question && !REDO.test(clause.text))
    return /^why (?:did|do|are|is) (?:you|it) (?:still|again|always|keep)\b/i.test(clause.text);
  return COMPLAINT.test(clause.text) || REDO.test(clause.text) || NEGATED.test(clause.text);
}

function isPraise(clause: Clause): boolean {
  return !clause.question && PRAISE.test(clause.text) && !NOT_PRAISE.test(clause.text) && !NEGATED.test(clause.text);
}

/** Thanks after a request are manners: "Name three rivers. Thanks!" */
function isPraised(clauses: Clause[]): boolean {
  const first = clauses.findIndex((clause, i) => isPraise(clause) && !NO.test(clauses[i - 1]?.text ?? ''));
  if (first < 0) return false;
  const politeOnly =
    /^(?:thanks|thank you|thx|cheers)\b/i.test(clauses[first]!.text) && wordsIn(clauses[first]!.text).length <= 4;
  const after = clauses.slice(0, first).some((clause) => wordsIn(clause.text).length > 2);
  return !(politeOnly && after);
}

function isReadable(text: string): boolean {
  const words = wordsIn(cleaned(text));
  return words.length <= 2 ? /^[\p{ASCII}\s]*$/u.test(text) : ENGLISH.test(text);
}
