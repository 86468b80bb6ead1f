// Use a client as ordered: one JSON object per line comes in, one per line goes out (see drivers/run.py).
// node run.mjs NAME, where NAME is openai/chat, openai/responses, ai-sdk/chat, ai-sdk/responses, ai-sdk-compatible/chat
import { createInterface } from "node:readline";
import OpenAI from "openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { z } from "zod";

const KEY = "sk-test-one";
const MODEL = "gpt-4o-mini";
const WEATHER = "rain, 12 degrees";
const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

const openai = ({ base_url }) => new OpenAI({ baseURL: base_url, apiKey: KEY, maxRetries: 0, timeout: 30_000 });

const openaiChat = {
  question: (order) => ({ model: MODEL, messages: [{ role: "user", content: order.question }] }),
  tool: { type: "function", function: { name: "weather", parameters: PARAMETERS } },
  async chat(order) {
    return openai(order).chat.completions.create(this.question(order));
  },
  async *stream(order) {
    const asked = { ...this.question(order), stream: true, stream_options: { include_usage: true } };
    yield* await openai(order).chat.completions.create(asked);
  },
  continued: (asked, message) => ({
    ...asked,
    messages: [
      ...asked.messages, message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: WEATHER },
    ],
  }),
  async tools(order) {
    const asked = { ...this.question(order), tools: [this.tool] };
    const first = await openai(order).chat.completions.create(asked);
    const rest = this.continued(asked, first.choices[0].message);
    return [first, await openai(order).chat.completions.create(rest)];
  },
  async tools_stream(order) {
    const asked = { ...this.question(order), tools: [this.tool] };
    const first = await openai(order).chat.completions.stream(asked).finalChatCompletion();
    const rest = this.continued(asked, first.choices[0].message);
    return [first, await openai(order).chat.completions.stream(rest).finalChatCompletion()];
  },
};

const openaiResponses = {
  question: (order) => ({ model: MODEL, input: [{ role: "user", content: order.question }] }),
  tool: { type: "function", name: "weather", parameters: PARAMETERS, strict: false },
  async chat(order) {
    return openai(order).responses.create({ model: MODEL, input: order.question });
  },
  async *stream(order) {
    yield* await openai(order).responses.create({ model: MODEL, input: order.question, stream: true });
  },
  // the upstream keeps the conversation: the second request names the first response
  continued: (asked, first) => ({
    ...asked,
    previous_response_id: first.id,
    input: [{ type: "function_call_output", call_id: first.output[0].call_id, output: WEATHER }],
  }),
  async tools(order) {
    const asked = { ...this.question(order), tools: [this.tool] };
    const first = await openai(order).responses.create(asked);
    return [first, await openai(order).responses.create(this.continued(asked, first))];
  },
  async tools_stream(order) {
    const asked = { ...this.question(order), tools: [this.tool] };
    const first = await openai(order).responses.stream(asked).finalResponse();
    return [first, await openai(order).responses.stream(this.continued(asked, first)).finalResponse()];
  },
};

const sdk = (model) => ({
  asked: (order, more) => ({ model: model(order), prompt: order.question, maxRetries: 0, ...more }),
  tools_of: () => ({
    tools: {
      weather: tool({ inputSchema: z.object({ city: z.string() }), execute: async () => WEATHER }),
    },
    stopWhen: stepCountIs(3),
  }),
  shown: (result) => ({
    text: result.text, usage: result.usage, finishReason: result.finishReason, content: result.content,
    steps: result.steps.map((step) => ({ content: step.content, usage: step.usage, body: step.response.body })),
  }),
  async chat(order) {
    return this.shown(await generateText(this.asked(order)));
  },
  async *stream(order) {
    const leave = new AbortController();
    const { fullStream } = streamText(this.asked(order, { abortSignal: leave.signal, onError: () => {} }));
    try {
      for await (const part of fullStream) {
        if (part.type === "error") throw part.error;
        yield part;
      }
    } finally {
      leave.abort();
    }
  },
  async tools(order) {
    return this.shown(await generateText(this.asked(order, this.tools_of())));
  },
  async tools_stream(order) {
    const parts = [];
    for await (const part of streamText(this.asked(order, this.tools_of())).fullStream) parts.push(part);
    return parts;
  },
});

const vercel = ({ base_url }) => createOpenAI({ baseURL: base_url, apiKey: KEY });
const compatible = ({ base_url }) =>
  createOpenAICompatible({ name: "scripted", baseURL: base_url, apiKey: KEY, includeUsage: true });

const DRIVERS = {
  "openai/chat": openaiChat,
  "openai/responses": openaiResponses,
  "ai-sdk/chat": sdk((order) => vercel(order).chat(MODEL)),
  "ai-sdk/responses": sdk((order) => vercel(order).responses(MODEL)),
  "ai-sdk-compatible/chat": sdk((order) => compatible(order)(MODEL)),
};

// What differs from run to run: times, names that a client draws, and what depends on the connection.
const DRAWN = new Set(["timestamp", "headers", "messageId", "request", "response", "warnings", "_request_id"]);

function plain(value) {
  const text = JSON.stringify(value, (name, inner) => (DRAWN.has(name) && name !== "body" ? undefined : inner));
  return text === undefined ? null : JSON.parse(text.replace(/"ai(txt|msg|tcid)-\w+"/g, '"drawn"'));
}

function described(error) {
  const found = [];
  for (let cause = error; cause && found.length < 4; cause = cause.cause) {
    found.push([cause.constructor.name, cause.status ?? cause.statusCode ?? null, String(cause.message)]);
  }
  return found;
}

async function resultOf(driver, order) {
  const seen = [];
  try {
    if (order.name === "tools" || order.name === "tools_stream") return plain(await driver[order.name](order));
    if (!["stream", "cancel", "broken", "stream_error"].includes(order.name)) return plain(await driver.chat(order));
    for await (const piece of driver.stream(order)) {
      seen.push(plain(piece));
      if (order.name === "cancel" && JSON.stringify(piece).includes("blue")) break;
    }
  } catch (error) {
    console.error(error);
    return { seen, raised: described(error) };
  }
  return seen;
}

const driver = DRIVERS[process.argv[2]];
for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify({ result: await resultOf(driver, JSON.parse(line)) }) + "\n");
}
