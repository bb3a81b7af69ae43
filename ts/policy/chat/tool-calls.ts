/**
 * Tool calls in a reply, in the form of Hermes and Qwen: <tool_call>{"name": …, "arguments": {…}}</tool_call>. The splitter works on a
 * stream: text goes through as soon as it cannot be the beginning of a call, a call comes out when it is whole.
 */
import { randomBytes } from 'node:crypto';
import type { Tool, ToolCall } from '../../record/index.js';
import { openTail } from '../tokenizer/text-stream.js';

const OPEN = '<tool_call>';
const CLOSE = '</tool_call>';

export interface SplitReply {
  /** words for the person */ text: string;
  calls: ToolCall[];
}

export interface ToolSplitter {
  /** text that is certainly not part of a call, and the calls completed by this piece */ push(
    text: string,
  ): SplitReply;
  /** what was held back; an unfinished call comes back as text */ end(): SplitReply;
}

/** Without tools nothing is a call: the text goes through untouched. */
export function createToolSplitter(tools: readonly Tool[]): ToolSplitter {
  return tools.length === 0
    ? { push: (text) => ({ text, calls: [] }), end: () => ({ text: '', calls: [] }) }
    : new HermesSplitter();
}

/** The same for a finished reply. */
export function parseToolCalls(reply: string, tools: readonly Tool[]): SplitReply {
  const splitter = createToolSplitter(tools);
  const first = splitter.push(reply);
  const last = splitter.end();
  return { text: first.text + last.text, calls: [...first.calls, ...last.calls] };
}

class HermesSplitter implements ToolSplitter {
  private held = '';
  private inCall = false;
  /** a call came: white space after it only sets it apart from what follows */ private afterCall = false;

  push(text: string): SplitReply {
    this.held += text;
    const out: SplitReply = { text: '', calls: [] };
    while (this.inCall ? this.takeCall(out) : this.takeText(out));
    return out;
  }

  end(): SplitReply {
    const whole = this.inCall ? OPEN + this.held : this.held;
    const text = this.afterCall && whole.trim() === '' ? '' : whole;
    this.held = '';
    this.inCall = false;
    return { text, calls: [] };
  }

  /** Moves text in front of a call to `out`. True when a call begins. */
  private takeText(out: SplitReply): boolean {
    const at = this.held.indexOf(OPEN);
    if (at >= 0) {
      out.text += this.spoken(this.held.slice(0, at).trimEnd());
      this.held = this.held.slice(at + OPEN.length);
      this.inCall = true;
      return true;
    }
    // white space is held with a possible tag: it is dropped if a call follows
    const open = openTail(this.held, [OPEN]);
    const certain = this.held.slice(0, this.held.length - open).trimEnd().length;
    out.text += this.spoken(this.held.slice(0, certain));
    this.held = this.held.slice(certain);
    return false;
  }

  private spoken(text: string): string {
    const rest = this.afterCall ? text.trimStart() : text;
    if (rest !== '') this.afterCall = false;
    return rest;
  }

  /** Moves a whole call to `out`; one that cannot be read stays text, tags and all. */
  private takeCall(out: SplitReply): boolean {
    const at = this.held.indexOf(CLOSE);
    if (at < 0) return false;
    const body = this.held.slice(0, at);
    const call = readCall(body);
    if (call === null) out.text += OPEN + body + CLOSE;
    else out.calls.push(call);
    this.held = this.held.slice(at + CLOSE.length);
    this.inCall = false;
    this.afterCall = call !== null;
    return true;
  }
}

function readCall(body: string): ToolCall | null {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null || !('name' in value) || typeof value.name !== 'string') return null;
  const given = 'arguments' in value ? value.arguments : 'parameters' in value ? value.parameters : {};
  return {
    id: `call_${randomBytes(12).toString('hex')}`,
    type: 'function',
    function: { name: value.name, arguments: argumentsText(given) },
  };
}

/** Arguments as JSON text; some models write them as a text that holds the JSON already. */
function argumentsText(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value ?? {});
  try {
    JSON.parse(value);
    return value;
  } catch {
    return JSON.stringify(value);
  }
}
