/** The shapes that travel between stations. Imports nothing of ours. */
export * from './chain.js';
export * from './errors.js';
export * from './events.js';
export * from './hint.js';
export * from './refusal.js';
export * from './turn.js';
export * from './update.js';
export * from './verdict.js';
