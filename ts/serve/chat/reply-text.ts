/** Sampled ids → what the client sees: whole characters, cut at stop texts, tool calls taken out. */
import type { Tool, ToolCall } from '../../record/index.js';
import type { TextTools } from '../ports.js';

export interface ReplyPart {
  text: string;
  calls: ToolCall[];
}

export class ReplyText {
  text = '';
  readonly calls: ToolCall[] = [];
  private readonly words;
  private readonly splitter;

  constructor(tools: TextTools, o: { stop: readonly string[]; tools: Tool[] }) {
    this.words = tools.textStream(o.stop);
    this.splitter = tools.toolSplitter(o.tools);
  }

  /** A stop text was met: the reply is complete. */
  get stopped(): boolean {
    return this.words.stopped;
  }

  push(ids: Int32Array): ReplyPart {
    return this.keep(this.splitter.push(this.words.push(ids)));
  }

  /** What was held back while it could still have become something else. */
  end(): ReplyPart {
    const open = this.splitter.push(this.words.end());
    const last = this.splitter.end();
    return this.keep({ text: open.text + last.text, calls: [...open.calls, ...last.calls] });
  }

  private keep(part: ReplyPart): ReplyPart {
    this.text += part.text;
    this.calls.push(...part.calls);
    return part;
  }
}
