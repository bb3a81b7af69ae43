/** What is to be seen of a running system: events, metrics, logs, and the page (built from page/, served by serve). */
export { EventBus, type EventBusOptions, type Listener } from './bus.js';
export { createLog, type LogLevel, logEvents } from './log.js';
export { type Gauges, Metrics } from './metrics.js';
