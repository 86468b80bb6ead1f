// The memory API, as any client uses it. Who asks is kept in this tab alone (sessionStorage), and goes in headers.

const BASE = new URL("..", import.meta.url);
const STORED = "memproxy.identity";

export class ApiError extends Error {
  constructor(status, { message, code, param }) {
    super(message);
    Object.assign(this, { status, code, param });
  }
}

/** Who the person said to be: `{key, user, project, agent}`, each perhaps empty. */
export function identity() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}

export function identify(as) {
  const given = Object.fromEntries(Object.entries(as).filter(([, value]) => value));
  if (Object.keys(given).length) sessionStorage.setItem(STORED, JSON.stringify(given));
  else sessionStorage.removeItem(STORED);
}

/** A path with names in it: each is one piece, whatever it holds. */
export function at(strings, ...names) {
  return strings.reduce((path, part, place) => path + encodeURIComponent(names[place - 1]) + part);
}

const HEADERS = { user: "x-memproxy-user", project: "x-memproxy-project", agent: "x-memproxy-agent" };
// A header holds bytes; the server reads them as UTF-8.
const bytes = (text) => Array.from(new TextEncoder().encode(text), (one) => String.fromCharCode(one)).join("");

function headersOf(as) {
  const headers = {};
  if (as.key) headers.authorization = `Bearer ${bytes(as.key)}`;
  for (const [name, header] of Object.entries(HEADERS)) if (as[name]) headers[header] = bytes(as[name]);
  return headers;
}

async function send(method, path, { query = {}, body, lines, headers = {}, signal, as = identity() } = {}) {
  const address = new URL(`v1/memory${path}`, BASE);
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "") address.searchParams.append(name, one);
  }
  const request = { method, signal, cache: "no-store", credentials: "omit", redirect: "error", headers: { ...headersOf(as), ...headers } };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["content-type"] = "application/json";
  } else if (lines !== undefined) {
    request.body = lines;
    request.headers["content-type"] = "application/x-ndjson";
  }
  let response;
  try {
    response = await fetch(address, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "The server does not answer. Is memproxy running?", code: "unreachable" });
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function errorOf(response) {
  const told = await response.json().catch(() => ({}));
  return new ApiError(response.status, told.error ?? { message: `The server answered ${response.status}.` });
}

/** A call that answers JSON. */
export async function call(method, path, options = {}) {
  const response = await send(method, path, options);
  return response.status === 204 ? null : response.json();
}

export const get = (path, query, signal, as) => call("GET", path, { query, signal, as });

/** A memory with its version, to be changed only if it is still that one. */
export async function getVersion(path, query, signal) {
  const response = await send("GET", path, { query, signal });
  return { data: await response.json(), etag: response.headers.get("etag") };
}

/** The calls that this version answers, by their paths. */
export function described() {
  paths ??= fetch(new URL("openapi.json", BASE)).then((answer) => answer.json()).then(
    (told) => new Set(Object.keys(told.paths)), () => { paths = undefined; return new Set(); });
  return paths;
}
let paths;

/** An answer as a file. */
export async function getFile(path, query) {
  return (await send("GET", path, { query })).blob();
}

/**
 * Server-sent events, read by fetch so that the key travels in a header. Calls `on(event, data)` for each; begins anew
 * when the stream ends, until the signal is aborted. `on("state", "open" | "lost")` says how it is.
 */
export async function events(path, { query, signal, on }) {
  while (!signal.aborted) {
    try {
      const response = await send("GET", path, { query, signal, headers: { accept: "text/event-stream" } });
      on("state", "open");
      await each(response.body.pipeThrough(new TextDecoderStream()).getReader(), on);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
      on("state", "lost");
      await new Promise((resolve) => setTimeout(resolve, 3000));
    }
  }
}

async function each(reader, on) {
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      if (fields.data !== undefined) on(fields.event ?? "message", JSON.parse(fields.data));
    }
  }
}
