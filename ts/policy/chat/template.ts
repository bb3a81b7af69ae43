/** A model's chat template (Jinja), run as transformers runs it: messages → text. Knows nothing of ids; see render.ts. */
import { Template } from '@huggingface/jinja';
import { type Message, OpenClawError, type Tool } from '../../record/index.js';
import type { ChatTemplates } from '../files/model.js';
import { reason } from '../files/reading.js';

/** ChatML, for models that have its tokens and bring no template. */
const CHATML = `{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`;
const CHATML_TOKENS = ['<|im_start|>', '<|im_end|>'];

/** What a template sees of a message. Arguments of tool calls are objects, as templates expect; content is never null. */
export interface TemplateMessage {
  role: string;
  content: string;
  name?: string;
  tool_call_id?: string;
  tool_calls?: Array<{ id: string; type: 'function'; function: { name: string; arguments: unknown } }>;
}

export class ChatTemplate {
  private readonly plain: Template | null;
  private readonly withTools: Template | null;
  /** every template text, in which structure is written */ readonly source: string;

  constructor(
    templates: ChatTemplates,
    private readonly specialTexts: Readonly<Record<string, string>>,
    hasToken: (text: string) => boolean,
  ) {
    const fallback = CHATML_TOKENS.every(hasToken) ? CHATML : undefined;
    const plain = templates.default ?? fallback;
    const withTools = templates.tool_use ?? plain;
    this.source = [plain, withTools].join('\n');
    this.plain = plain === undefined ? null : parse(plain);
    this.withTools = withTools === plain ? this.plain : parse(withTools!);
  }

  /** @throws E_UNSUPPORTED without a template; E_ARGUMENT when the template refuses the messages */
  render(messages: readonly TemplateMessage[], tools: readonly unknown[], addGenerationPrompt: boolean): string {
    const template = tools.length > 0 ? this.withTools : this.plain;
    if (template === null) {
      throw new OpenClawError(
        'E_UNSUPPORTED',
        'the model has no chat template, and its tokenizer lacks the ChatML tokens <|im_start|> and <|im_end|>',
      );
    }
    try {
      return template.render({
        ...this.specialTexts,
        messages,
        ...(tools.length > 0 ? { tools } : {}),
        add_generation_prompt: addGenerationPrompt,
      });
    } catch (cause) {
      throw new OpenClawError('E_ARGUMENT', `the chat template refused the messages: ${reason(cause)}`, 'messages', {
        cause,
      });
    }
  }
}

function parse(source: string): Template {
  try {
    return new Template(source);
  } catch (cause) {
    throw new OpenClawError('E_UNSUPPORTED', `the chat template cannot be read: ${reason(cause)}`, undefined, {
      cause,
    });
  }
}

export function toTemplateMessage(message: Message): TemplateMessage {
  const calls = message.toolCalls ?? [];
  return {
    role: message.role,
    content: message.content ?? '',
    ...(message.name === undefined ? {} : { name: message.name }),
    ...(message.toolCallId === undefined ? {} : { tool_call_id: message.toolCallId }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((call) => ({
            id: call.id,
            type: call.type,
            function: { name: call.function.name, arguments: parsedArguments(call.function.arguments) },
          })),
        }),
  };
}

/** Arguments travel as JSON text; one that is no JSON object (a model may write anything) stays a text. */
function parsedArguments(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : text;
  } catch {
    return text;
  }
}

/** A tool as a template sees it: absent parts stay absent. */
export function toTemplateTool(tool: Tool): unknown {
  return { type: tool.type, function: { ...tool.function } };
}
