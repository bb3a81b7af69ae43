#!/usr/bin/env node
/** The command line: argv → flags → a command. What a flag means is in config.ts and the stations. */
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { fail } from './commands/common.js';

const whole = (text: string): number => {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new InvalidArgumentError('expected a whole number, 0 or more');
  return value;
};

/** Flags that say how the policy is run; every one overrides the environment and the file. */
function withRuntimeFlags(command: Command): Command {
  return command
    .option('--config <file>', 'JSON file with the configuration')
    .option('--model <name|folder|file.gguf>', "the policy: 'claw-nano', a Hugging Face folder or a GGUF file")
    .addOption(new Option('--dtype <dtype>', 'how weights are held in memory').choices(['f32', 'bf16']))
    .option('--threads <n>', 'native threads (default: all cores)', whole)
    .addOption(new Option('--method <method>', 'what is learned from').choices(['hybrid', 'rl', 'opd', 'none']))
    .option('--data <folder>', 'ledger and versions')
    .option('--port <n>', 'port (default 30000; 0: any)', whole)
    .option('--host <address>', 'address to listen on (default 127.0.0.1; others need API keys)')
    .addOption(
      new Option('--log <level>', 'log lines on stderr').choices(['silent', 'error', 'warn', 'info', 'debug']),
    );
}

function packageVersion(): string {
  const file = new URL('../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/** Each command's code is loaded when it runs: --help needs none of it, and works without the native binary. */
function program(): Command {
  const root = new Command('openclaw-rl')
    .description('An OpenAI-compatible endpoint whose policy learns from what people say next.')
    .version(packageVersion())
    .showHelpAfterError('(openclaw-rl --help says more)');

  withRuntimeFlags(root.command('serve'))
    .description('serve the policy, and learn while it is talked to')
    .action(async (flags) => (await import('./commands/serve.js')).serve(flags));

  withRuntimeFlags(root.command('demo'))
    .description('a simulated person talks to the policy, which learns what they want')
    .addOption(
      new Option('--persona <who>', 'who talks')
        .choices(['student', 'assistant', 'teacher', 'joint'])
        .default('student'),
    )
    .option('--sessions <n>', "how many sessions (default: the scene's own)", whole)
    .option('--seed <n>', 'tasks, words and sampling', whole, 1)
    .option('--json <file>', 'where the report goes')
    // for tests: a short measure before and after
    .addOption(new Option('--held-out <n>', 'held-out replies measured').argParser(whole).hideHelp())
    .option('--keep-serving', 'stay up afterwards')
    .option('--once', 'end after the demo, whatever else is said')
    .action(async (flags) => (await import('./commands/demo.js')).demo(flags));

  root
    .command('make-model')
    .description('train models/claw-nano again')
    .option('--out <folder>', "where the model goes (default: the package's own)")
    .option('--seed <n>', 'tokenizer, weights and talks', whole, 1)
    .option('--tokens <n>', 'tokens to train on', whole)
    .option('--threads <n>', 'native threads (default: all cores)', whole)
    .action(async (flags) => (await import('./commands/make-model.js')).makeModel(flags));

  withRuntimeFlags(root.command('doctor'))
    .description('what is here, what would run, what stands in the way')
    .action(async (flags) => (await import('./commands/doctor.js')).doctor(flags));
  return root;
}

program().parseAsync().catch(fail);
