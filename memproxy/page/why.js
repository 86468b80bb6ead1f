// Why: what a request was given and what was learned from it (its receipt), what one would be given, and what happens now.

import { at, call, events, get } from "./api.js";
import { add, badge, bar, choice, counted, empty, facts, field, fill, h, heading, link, note, number, paged, said, sessionLink, table, tell, time, words } from "./dom.js";
import { LEFT_OUT, legend } from "./search.js";

const MOST_EVENTS = 300;
const RESULTS = { injected: "good", empty: "", skipped: "", degraded: "warn", off: "", shadow: "", holdout: "" };
const MEANING = {
  injected: "Memories were put into the request.",
  empty: "Memory was searched, and nothing was near enough to be told.",
  skipped: "Memory was not searched.",
  degraded: "Memory did not answer in time; the request went on without it.",
  off: "The request asked for no memory.",
  shadow: "Everything was done but injection.",
  holdout: "The experiment gives this user no memories, to compare with those who get them.",
};

export async function showWhy({ root, args: [id], query, signal }) {
  if (id !== undefined) return receipt(root, id, signal);
  const session = query.get("session") ?? "";
  const open = h("form", { class: "search-line" },
    h("input", { name: "id", placeholder: "req_… (the header X-Memproxy-Request-Id of an answer)", "aria-label": "Request id", required: true, maxlength: 256, autocomplete: "off", spellcheck: "false" }),
    h("button", { type: "submit" }, "Open"));
  open.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#/why/${encodeURIComponent(new FormData(open).get("id").trim())}`;
  });
  add(root,
    heading("Why", "Each request of the last seven days: what memory was searched for, what was told, and what was learned from it."),
    session ? note("Requests of the conversation ", link(`#/conversations/${encodeURIComponent(session)}`, said(session)), ". ", link("#/why", "Show all")) : null,
    h("details", {}, h("summary", {}, "What would a question be given?"), trial()),
    h("details", {}, h("summary", {}, "Open a request by its id"), open));
  const { box, first } = paged((cursor) => get("/receipts", { session_id: session, cursor, limit: 50 }, signal), requestCard, {
    label: "Requests, newest first", whenEmpty: () => empty("No requests yet", "Each chat request that passes this proxy leaves a receipt for seven days."),
  });
  add(root, box);
  return first();
}

const outcome = (result, reason) => badge(reason ? `${result}: ${words(reason)}` : result ?? "unknown", RESULTS[result] ?? "");

/** A request in short. */
export const requestCard = (one) => h("article", { class: "card" },
  h("p", { class: "card-text" }, link(`#/why/${encodeURIComponent(one.request_id)}`, one.query || one.said ? said(one.query || one.said, { most: 240 }) : h("span", { class: "soft" }, "(its message is not kept)"))),
  h("p", { class: "meta" }, outcome(one.result, one.reason),
    one.memories ? h("span", {}, counted(one.memories, "memory", "memories"), one.tokens ? `, ${counted(one.tokens, "token")}` : "") : null,
    h("span", {}, time(one.created_at)),
    one.session_id ? h("span", {}, "in ", sessionLink(one.session_id)) : null,
    one.model ? h("span", {}, said(one.model, { most: 40 })) : null));

async function receipt(root, id, signal) {
  const told = await get(at`/receipts/${id}`, {}, signal);
  add(root,
    heading("Why this answer", null),
    h("article", { class: "statement" },
      h("p", { class: "content" }, told.query || told.said ? said(told.query || told.said, { most: 2000 }) : h("span", { class: "soft" }, "Its message is not kept.")),
      h("p", { class: "meta" }, outcome(told.result, told.reason), h("span", {}, time(told.created_at)), h("span", {}, MEANING[told.result] ?? ""))),
    h("section", { class: "columns" },
      h("section", {}, h("h2", {}, "The request"), facts(
        ["Gate", told.decision ? `${told.decision.searched ? "searched" : "not searched"}${told.decision.reason ? `: ${GATE[told.decision.reason] ?? words(told.decision.reason)}` : ""}` : null],
        ["Mode", told.mode],
        ["Conversation", told.session_id ? sessionLink(told.session_id, 60) : null],
        ["Project", told.project_id && said(told.project_id)], ["Agent", told.agent_id && said(told.agent_id)],
        ["Model", told.upstream?.model && said(told.upstream.model)],
        ["Answered", told.upstream?.status && String(told.upstream.status)],
        ["Block", told.tokens ? counted(told.tokens, "token") : null],
        ["Messages", told.turn_ids?.length ? told.turn_ids.map((turn, place) => [link(`#/memory/${encodeURIComponent(turn)}?session=${encodeURIComponent(told.session_id ?? "")}`, `message ${place + 1}`), " "]) : null],
        ["Id", h("code", {}, said(told.request_id))])),
      timings(told.timings)),
    given(told),
    told.candidates.length ? h("section", {}, h("h2", {}, "What was considered"), candidates(told)) : null,
    learned(told.learned),
    told.feedback?.length ? h("section", {}, h("h2", {}, "What was said of it later"), h("ul", {}, told.feedback.map((one) => h("li", {}, words(one.signal), ": ", memoryLink(one.memory_id, one.memory_id))))) : null);
}

const memoryLink = (id, text) => link(`#/memory/${encodeURIComponent(id)}`, text);
const gone = () => h("span", { class: "soft" }, "(forgotten, or not yours to see)");

function given({ memories, feedback, request_id: id }) {
  if (!memories.length) return null;
  const judge = (signal, words) => h("button", { type: "button", class: "small", onclick: async () => {
    try {
      await call("POST", "/feedback", { body: { request_id: id, signal } });
      tell(words);
    } catch (error) { tell(error.message, { bad: true }); }
  } }, signal === "helpful" ? "It helped" : "All wrong");
  return h("section", {}, h("h2", {}, "What it was told"),
    h("ol", { class: "cards" }, memories.map((one) => h("li", {}, h("article", { class: "card" },
      h("p", { class: "card-text" }, one.content === null ? gone() : memoryLink(one.memory_id, said(one.content))),
      h("p", { class: "meta" }, one.score !== undefined ? h("span", {}, "score ", bar(one.score), ` ${one.score.toFixed(2)}`) : null, one.repeated ? h("span", {}, "repeated from an earlier request") : null))))),
    feedback?.length ? null : h("p", { class: "actions after" }, judge("helpful", "Noted: helpful."), judge("wrong", "Noted: these are withheld. Each can be set right in its own view.")));
}

/** What was looked at, best first: each with its score beside the floor, and why it was told or not. */
function candidates({ candidates: found, floor }) {
  const names = [...new Set(found.flatMap((one) => Object.keys(one.signals ?? {})))];
  const marked = typeof floor === "number" ? { mark: floor } : {}; // older receipts do not know theirs
  return [
    marked.mark === undefined ? null : h("p", { class: "soft count" }, `The mark on a score is the floor, ${floor.toFixed(2)}: what is below it is not told.`),
    table("Candidates with their signals", ["Memory", "Score", "Told", ...names.map(words)], found.map((one) => [
      one.content === null ? gone() : memoryLink(one.memory_id, said(one.content, { most: 160 })),
      one.score === undefined ? "–" : h("span", { class: "one-line" }, bar(one.score, marked), ` ${one.score.toFixed(2)}`),
      one.rejected ? `no: ${LEFT_OUT[one.rejected] ?? words(one.rejected)}` : badge("yes", "good"),
      ...names.map((name) => one.signals?.[name]?.toFixed?.(2) ?? "–"),
    ])), legend(["score", ...names])];
}

const STAGES = {
  own_words: "just said", rewrite: "rewriting", embed: "vector", rank: "ranking", hops: "relations", former: "former",
  rerank: "reranking", first_turn: "first turn", assemble: "block",
};

function timings(told) {
  const stages = Object.entries(told ?? {}).filter(([name]) => name !== "recall");
  const longest = Math.max(...stages.map(([, ms]) => ms), 1);
  if (!stages.length) return null;
  return h("section", {}, h("h2", {}, "Where the time went"),
    h("dl", { class: "facts" }, stages.map(([name, ms]) => h("div", {}, h("dt", {}, STAGES[name] ?? words(name)), h("dd", {}, bar(ms / longest), ` ${ms.toFixed(1)} ms`)))),
    told.recall ? h("p", { class: "soft after" }, `Recall as a whole: ${told.recall.toFixed(1)} ms.`) : null);
}

const GATE = {
  greeting: "a greeting", smalltalk: "small talk", tool: "a request to a tool", fact: "a question that the world answers",
  empty: "nothing was said", personal: "it speaks of the user", default: "nothing speaks against it",
};

const STATES = { none: "Nothing was kept of this request.", off: "Learning is switched off.", pending: "Not read yet: learning runs behind the answers.", parked: "It was given up after its retries." };

function learned({ state, outcomes, reason, tokens }) {
  const cost = Object.entries(tokens ?? {}).map(([source, used]) => `${source} ${number(used.input_tokens)} in, ${number(used.output_tokens)} out`).join("; ");
  return h("section", {}, h("h2", {}, "What was learned"),
    outcomes.length ? h("ol", { class: "cards" }, outcomes.map((one) => h("li", {}, event(one)))) : h("p", { class: "soft" }, STATES[state] ?? "Nothing new.", reason ? ` ${reason}` : ""),
    cost ? h("p", { class: "soft after" }, `Tokens for it: ${cost}.`) : null);
}

const RESULT_KINDS = { stored: "good", superseded: "good", rejected: "warn", parked: "bad", deleted: "bad" };

/** What became of something that was to be learned, written or judged. */
function event(one) {
  const ofDream = one.reason?.startsWith("dream_");
  const text = one.content === null || one.content === undefined ? null : said(one.content, { most: 300 });
  return h("article", { class: "card" },
    h("p", { class: "card-text" }, text ? (one.memory_id ? memoryLink(one.memory_id, text) : text) : h("span", { class: "soft" }, one.what ? `(${one.what})` : "(nothing is left of its words)")),
    h("p", { class: "meta" }, badge(one.reason && !ofDream ? `${one.result}: ${words(one.reason)}` : one.result, RESULT_KINDS[one.result] ?? ""),
      ofDream ? link(`#/dreams/${encodeURIComponent(one.reason)}`, "by a dream") : null,
      one.at ? h("span", {}, time(one.at)) : null,
      one.superseded_by ? memoryLink(one.superseded_by, "what took its place") : null,
      one.request_ids?.length ? link(`#/why/${encodeURIComponent(one.request_ids.at(-1))}`, "the request") : null));
}

/** What the proxy would inject for a question, now. */
function trial() {
  const result = h("div", { role: "status" });
  const form = h("form", { class: "search-line" },
    h("input", { name: "query", "aria-label": "Question", placeholder: "What's my budget for the trip?", required: true, maxlength: 10000 }),
    h("button", { type: "submit" }, "Try"));
  form.addEventListener("submit", async (submitted) => {
    submitted.preventDefault();
    try {
      const told = await call("POST", "/recall", { body: { query: new FormData(form).get("query"), explain: true } });
      fill(result,
        h("p", {}, told.decision.searched ? "Memory is searched" : "Memory is not searched", ` (${GATE[told.decision.reason] ?? words(told.decision.reason)}); `, told.context ? `${counted(told.citations.length, "memory", "memories")}, ${counted(told.tokens, "token")}:` : "nothing is told."),
        told.context ? h("pre", {}, said(told.context)) : null);
      if (told.candidates?.length) add(result, candidates(told));
    } catch (error) { fill(result, h("p", { class: "problem" }, error.message)); }
  });
  return h("div", { class: "trial" }, form, result);
}

// --- live

export async function showLive({ root, signal }) {
  const state = h("span", { class: "badge", role: "status" }, "connecting…");
  const list = h("ol", { class: "cards" });
  const kinds = choice("kind", [["", "everything"], ["learned", "what was learned"], ["rejected", "what was rejected"], ["parked", "what was given up"]], "");
  kinds.addEventListener("change", () => { list.dataset.only = kinds.value; });
  const nothing = h("p", { class: "soft" }, "What is learned, rejected or changed appears here within a second or two.");
  add(root,
    heading("Live", "What memory learns, rejects and changes, as it happens.", state),
    h("div", { class: "filters" }, h("label", { class: "filter" }, h("span", {}, "Show"), kinds),
      h("button", { type: "button", class: "small", onclick: retry }, "Try again what was given up")),
    nothing, h("div", { role: "log", "aria-label": "What happens, newest first" }, list));
  const on = (name, data) => {
    if (name === "state") {
      if (data === "open") { list.replaceChildren(); nothing.hidden = false; }
      state.textContent = data === "open" ? "live" : "connection lost, trying again";
      state.className = `badge ${data === "open" ? "good" : "warn"}`;
      return;
    }
    nothing.hidden = true;
    const kind = data.result === "rejected" ? "rejected" : data.result === "parked" ? "parked" : "learned";
    list.prepend(h("li", { "data-kind": kind }, event(data)));
    while (list.childElementCount > MOST_EVENTS) list.lastChild.remove();
  };
  events("/activity", { query: { limit: 50 }, signal, on }).catch((error) => {
    state.textContent = error.message;
    state.className = "badge bad";
  });
}

async function retry() {
  try {
    const { retried } = await call("POST", "/activity/retry");
    tell(retried ? `${counted(retried, "row")} tried again.` : "Nothing was given up.");
  } catch (error) { tell(error.message, { bad: true }); }
}
