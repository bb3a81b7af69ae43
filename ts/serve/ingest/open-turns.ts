/** Turns that have begun on a connection and are not ended yet. They are in memory only, and their bytes are bounded. */
import { type Message, OpenClawError, type Tool } from '../../record/index.js';
import type { ClientFrame } from './frames.js';

type Start = Extract<ClientFrame, { type: 'turn.start' }>;
type Delta = Extract<ClientFrame, { type: 'turn.delta' }>;

export interface OpenTurn {
  session: string;
  messages: Message[];
  tools: Tool[];
  promptIds: Int32Array;
  /** seq of its first frame: nothing from there on is durable before its end is */ firstSeq: number;
  text: string;
  ids: number[];
  /** null: some ids came without */ logprobs: number[] | null;
}

export class OpenTurns {
  private readonly turns = new Map<string, OpenTurn>();
  private bytes = 0;

  constructor(private readonly maxBytes: number) {}

  start(frame: Start, size: number): void {
    if (this.turns.has(frame.turn))
      throw new OpenClawError('E_ARGUMENT', `turn '${frame.turn}' has begun already`, 'turn');
    if (!frame.messages && !frame.promptIds)
      throw new OpenClawError('E_ARGUMENT', 'messages or promptIds are needed', 'messages');
    this.hold(size);
    this.turns.set(frame.turn, {
      session: frame.session,
      messages: frame.messages ?? [],
      tools: frame.tools ?? [],
      promptIds: Int32Array.from(frame.promptIds ?? []),
      firstSeq: frame.seq,
      text: '',
      ids: [],
      logprobs: [],
    });
  }

  add(frame: Delta, size: number): void {
    const turn = this.get(frame.turn);
    const ids = frame.ids ?? [];
    if (frame.logprobs && frame.logprobs.length !== ids.length)
      throw new OpenClawError(
        'E_SHAPE',
        `logprobs: expected ${ids.length}, one for each of ids, came ${frame.logprobs.length}`,
        'logprobs',
      );
    this.hold(size);
    turn.text += frame.text ?? '';
    for (const id of ids) turn.ids.push(id);
    if (ids.length === 0) return;
    if (!frame.logprobs) turn.logprobs = null;
    else if (turn.logprobs) for (const logprob of frame.logprobs) turn.logprobs.push(logprob);
  }

  get(name: string): OpenTurn {
    const turn = this.turns.get(name);
    if (!turn) throw new OpenClawError('E_NOT_FOUND', `turn '${name}' has not begun on this connection`, 'turn');
    return turn;
  }

  end(name: string): void {
    this.turns.delete(name);
    // sizes of single turns are not kept: the count starts anew when none is open
    if (this.turns.size === 0) this.bytes = 0;
  }

  /** The first frame that is not durable because its turn is open; null: no turn is open. */
  firstSeq(): number | null {
    let first: number | null = null;
    for (const turn of this.turns.values()) first = Math.min(first ?? turn.firstSeq, turn.firstSeq);
    return first;
  }

  private hold(size: number): void {
    this.bytes += size;
    if (this.bytes > this.maxBytes)
      throw new OpenClawError('E_BUSY', `turns begun and not ended hold more than ${this.maxBytes} bytes`);
  }
}
