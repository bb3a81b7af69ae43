/** `openclaw-rl make-model`: trains models/claw-nano again with the project's own trainer. */
import { fileURLToPath } from 'node:url';
import { createPolicy, trainBpe } from '../policy/index.js';
import { print } from './common.js';

export interface MakeModelFlags {
  out?: string;
  seed: number;
  tokens?: number;
  threads?: number;
}

const OWN_FOLDER = fileURLToPath(new URL('../../models/claw-nano', import.meta.url));

export async function makeModel(flags: MakeModelFlags): Promise<void> {
  const world = await import('../world/make-model.js');
  const { out = OWN_FOLDER, seed, tokens, threads } = flags;
  const made = await world.makeModel({
    out,
    seed,
    ...(tokens === undefined ? {} : { tokens }),
    ...(threads === undefined ? {} : { threads }),
    tools: { trainBpe, createPolicy },
    say: print,
  });
  print(
    `${made.parameters} parameters, ${made.tokens} tokens in ${made.steps} steps, ${made.seconds.toFixed(0)} s → ${out}`,
  );
  const { skillLines } = await import('../world/skills.js');
  for (const line of skillLines(made.skills)) print(line);
}
