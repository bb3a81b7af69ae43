/** Structured logs (pino). Keys and whatever else is secret never reach a line; what people said is not logged at all. */
import { destination, type Logger, pino } from 'pino';
import type { RuntimeEvent } from '../record/index.js';
import type { EventBus } from './bus.js';

export type LogLevel = 'silent' | 'error' | 'warn' | 'info' | 'debug';

const SECRETS = ['authorization', 'apiKey', 'apiKeys', 'token', 'password'].flatMap((key) => [
  key,
  `*.${key}`,
  `headers.${key}`,
]);

/** Lines go to stderr: stdout belongs to the command's own output. */
export function createLog(level: LogLevel): Logger {
  return pino(
    { level, base: null, redact: { paths: SECRETS, censor: '[hidden]' } },
    destination({ fd: 2, sync: true }),
  );
}

/** Which events are worth a line at which level; the rest are for /metrics and /v1/events. */
const LEVELS: Partial<Record<RuntimeEvent['type'], 'info' | 'warn' | 'debug'>> = {
  'update.done': 'info',
  'update.skipped': 'info',
  'update.failed': 'warn',
  'judge.failed': 'warn',
  'request.refused': 'warn',
  'session.ended': 'debug',
  'turn.served': 'debug',
  'turn.judged': 'debug',
  'turn.refused': 'debug',
};

export function logEvents(bus: EventBus, log: Logger): void {
  bus.subscribe(({ type, ...rest }) => {
    const level = LEVELS[type];
    if (level) log[level](rest, type);
  });
}
