/** `openclaw-rl serve`: the policy at an endpoint, learning while it is talked to. */
import { loadConfig } from '../config.js';
import { createRuntime } from '../loop.js';
import { closeOnSignal, configOf, fileOf, print, type RuntimeFlags } from './common.js';

export async function serve(flags: RuntimeFlags): Promise<void> {
  const runtime = await createRuntime(loadConfig(configOf(flags), fileOf(flags)));
  closeOnSignal(runtime);
  const { url } = await runtime.listen();
  print(`${runtime.policy.name} at ${url}/v1  ·  page ${url}/  ·  Ctrl-C ends it`);
}
