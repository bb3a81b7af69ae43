/** Judges turns by what came after them: rules or a judge model, and the loop that feeds them. */
export { createLlmJudge, type LlmJudgeOptions } from './llm/judge.js';
export { type Judging, type JudgingOptions, startJudging } from './loop.js';
export type { Judge, JudgeEvents, JudgeItem, JudgeLedger } from './ports.js';
export { createRulesJudge, type RulesOptions } from './rules/judge.js';
