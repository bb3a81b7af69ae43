/**
 * What the anchor replays: text on which the policy should stay as it was. Learning one person's wish must not move the model on
 * everything else; KL(base || current) over whole distributions at every position of these texts holds it in place.
 * (The k3 estimate on sampled tokens alone did not protect: docs/decisions/learning-recipe.md.)
 */
import type { Message } from '../record/index.js';
import type { AnchorSequence } from './step.js';

/** Plain general text for models that know the world; short, so that an update stays cheap. */
export const GENERAL_TEXTS: readonly string[] = [
  'The river rises in the hills and runs south for about ninety miles before it reaches the sea. In spring the snow melts and the water is high.',
  'To make tea, bring fresh water to the boil, pour it over the leaves and wait for three or four minutes. Add milk or lemon if you like.',
  'A triangle has three sides and three angles. The angles of any triangle in the plane add up to one hundred and eighty degrees.',
  'The library opens at nine in the morning and closes at six. On Saturdays it closes at one, and on Sundays it is closed all day.',
  'Bread is made from flour, water, salt and yeast. The dough rests while the yeast works, then it is shaped and baked in a hot oven.',
  'The moon goes round the earth in about four weeks. We always see the same side of it, because it turns once in the same time.',
  'She opened the letter, read it twice and put it back in the drawer. Outside the rain had stopped, and the street was quiet again.',
  'A loop repeats a block of code while a condition holds. If the condition never becomes false, the program does not end by itself.',
  'Plants take in carbon dioxide and water and, with the light of the sun, make sugar. They give off oxygen as they do so.',
  'The train to the coast leaves from platform four at ten past eight. Tickets can be bought from the machine or from the guard.',
  'In winter the days are short and the nights are long. Many birds fly south, and some animals sleep until the spring comes.',
  'A good map shows roads, rivers and heights. The scale tells how far apart two places are, and the arrow shows where north lies.',
  'The committee met on Tuesday and agreed to repair the bridge. The work will begin in June and should be finished before autumn.',
  'Copper is a soft, reddish metal that carries heat and electricity well. It is used for wires, pipes and the roofs of old churches.',
  'He had walked all day and was glad to see the lights of the village. The innkeeper gave him soup and a room under the roof.',
  'Wash the vegetables, cut them into small pieces and put them in the pan with a little oil. Cook them slowly until they are soft.',
];

export interface AnchorPolicy {
  tokenize(text: string): Int32Array;
  renderChat(messages: Message[], o?: { addGenerationPrompt?: boolean }): Int32Array;
}

/** Plain texts: every position counts. */
export function textAnchors(policy: AnchorPolicy, texts: readonly string[] = GENERAL_TEXTS): AnchorSequence[] {
  return texts.map((text) => ({ ids: policy.tokenize(text), from: 1 })).filter((a) => a.ids.length > 1);
}

/** Conversations that end in a reply: only the reply's positions count. */
export function conversationAnchors(
  policy: AnchorPolicy,
  conversations: ReadonlyArray<readonly Message[]>,
): AnchorSequence[] {
  return conversations.map((messages) => {
    const from = policy.renderChat(messages.slice(0, -1)).length;
    return { ids: policy.renderChat([...messages], { addGenerationPrompt: false }), from };
  });
}
