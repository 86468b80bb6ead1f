// Search: the real ranking, each hit with the signals that made its score; without a query, everything, newest first.

import { call, get, identity } from "./api.js";
import { badge, bar, choice, counted, empty, h, heading, KINDS, link, paged, said, sessionLink, time, words } from "./dom.js";

const MOST_FOUND = 50;

/** Where a memory is shown. */
export const memoryLink = (memory) =>
  `#/memory/${encodeURIComponent(memory.id)}${memory.kind === "turn" && memory.session_id ? `?session=${encodeURIComponent(memory.session_id)}` : ""}`;

/** What is to be known of a memory's state at a glance. */
export function badges(memory) {
  const gone = memory.expires_at && new Date(memory.expires_at) <= new Date();
  return [
    badge(memory.kind === "turn" ? (memory.metadata?.role === "assistant" ? "Answer" : KINDS.turn) : KINDS[memory.kind] ?? memory.kind, `kind-${memory.kind}`),
    memory.quarantined ? badge(memory.metadata?.feedback?.withheld ? "withheld" : "quarantined", "warn") : null,
    memory.metadata?.requires_user_permission ? badge("waits for permission", "warn") : null,
    memory.superseded_by ? badge("superseded", "past") : !memory.active ? badge("ended", "past") : null,
    gone ? badge("expired", "past") : null,
    memory.metadata?.planted ? badge("reads like an instruction", "warn") : null,
    memory.trust && memory.trust !== "user" && memory.kind !== "turn" ? badge(`from ${memory.trust}`) : null,
  ];
}

/** A memory as a card: what it says, and where it comes from. */
export function card(memory, ...more) {
  return h("article", { class: memory.active && !memory.superseded_by ? "card" : "card dim" },
    h("p", { class: "card-text" }, link(memoryLink(memory), said(memory.content, { most: 400 }))),
    h("p", { class: "meta" }, badges(memory),
      memory.category ? h("span", {}, said(memory.category)) : null,
      h("span", {}, time(memory.created_at)),
      memory.session_id ? h("span", {}, "in ", sessionLink(memory.session_id)) : null,
      memory.pointer ? h("span", { class: "pointer" }, memory.pointer) : null),
    more);
}

export async function show({ root, query, signal }) {
  const asked = Object.fromEntries(query);
  const words = h("input", { type: "search", name: "q", value: asked.q ?? "", maxlength: 10000, placeholder: "Ask as you would ask the assistant…", "aria-label": "Search memories", autocomplete: "off", "data-focus": true });
  const form = h("form", { class: "searching", role: "search" },
    h("div", { class: "search-line" }, words, h("button", { type: "submit", class: "primary" }, "Search")),
    h("div", { class: "filters" },
      filter("Kind", choice("kind", [["", "everything"], ["facts", "what was learned"], ...Object.entries(KINDS)], asked.kind)),
      filter("Held", choice("held", [["", "as usual"], ["now", "now"], ["past", "no longer"], ["both", "now or before"]], asked.held)),
      filter("On the day", h("input", { type: "date", name: "day", value: asked.day ?? "" }))));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(form);
  });
  form.addEventListener("change", (event) => event.target !== words && go(form));
  const results = h("section", { "aria-label": "Results" });
  root.append(heading("Search", "What a recall would find, and why it ranks so. Without words: everything, newest first."), form, results);
  if (asked.q?.trim()) await found(results, asked, signal);
  else await everything(results, asked, signal);
}

const filter = (label, input) => h("label", { class: "filter" }, h("span", {}, label), input);

function go(form) {
  const given = [...new FormData(form)].filter(([, value]) => value);
  const to = `#/search${given.length ? `?${new URLSearchParams(given)}` : ""}`;
  if (location.hash === to) window.dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = to;
}

function narrowed({ kind, held, day, category, tag, entity }) {
  return {
    kind: kind === "facts" ? ["semantic", "procedural", "episodic", "reflective"] : kind ? [kind] : [],
    active: { now: [true], past: [false], both: [true, false] }[held] ?? [],
    as_of: day ? `${day}T23:59:59Z` : undefined,
    category: category ? [category] : [], tag: tag ? [tag] : [], entity: entity ? [entity] : [],
  };
}

async function found(results, asked, signal) {
  const { data, floor } = await call("POST", "/search", { signal, body: { query: asked.q, limit: MOST_FOUND, explain: true, omit: "null", ...narrowed(asked) } });
  if (!data.length) {
    results.append(empty("Nothing was found", "There are no memories that match. Try other words, or look at everything."));
    return;
  }
  const most = {};
  for (const { signals } of data) {
    for (const [name, value] of Object.entries(signals)) most[name] = Math.max(most[name] ?? 0, Math.abs(value));
  }
  results.append(
    h("p", { class: "soft count" }, `${counted(data.length, "memory", "memories")}, best first. The mark on a score is the floor, ${floor.toFixed(2)}: what is below it no request is told.`),
    legend(["score", ...Object.keys(most)]),
    h("ol", { class: "cards", "aria-label": "Found memories" }, data.map((hit) => h("li", {}, card(hit.memory, ranking(hit, most, floor))))));
}

/** What each signal says; those that a recall's receipt may have, too. */
const SIGNALS = {
  score: "how likely it helps with the question, from 0 to 1: at 0.6 as likely as not; a recall leaves out what is below its floor",
  cosine: "how near its meaning is to the question's, by the embedding model",
  bm25: "words of the question that it has, rare ones counted more",
  coverage: "the share of the question's words that it has",
  late: "how near its single words are to those of the question",
  session: "its whole conversation speaks of what is asked",
  speaker: "said by whom the question is about",
  your_words: "said by the assistant, where the question asks what the assistant said",
  not_my_words: "said by the assistant, where the user's own words are asked for",
  near_time: "near the time that the question names",
  newest: "the question asks for the newest, and it is",
  answers_match: "an answer to a message that matches",
  topic: "how near it is to the topic that all is asked of",
  profile: "told of the person as a whole",
  replaced: "a later message says it otherwise",
  hops: "so many relations away from what the question names",
  past: "so many statements ago it held",
  by_day: "said on the day that the question names",
  stable: "holds for long, so that it is told of the person",
};

/** Why a recall leaves a memory out, in words. */
export const LEFT_OUT = {
  score: "its score is below the floor", budget: "no room was left in the block", superseded: "another statement took its place",
  quarantined: "it waits in quarantine", expired: "it has expired", ended: "it holds no more", kind: "its kind is not asked for",
  trust: "its source is not trusted enough", planted: "it reads like an instruction", confidence: "it is not sure enough",
  permission: "it waits for permission", present: "the request says it already", shown: "the conversation has it already",
  fact: "another line says the same", elbow: "it is far less likely than the best", limit: "there are enough better ones",
  question: "it is the question itself",
  tells_nothing: "it tells nothing of the user: it asks, or an assistant says it",
};

/** The signals of these names, each with what it says. */
export function legend(names) {
  const known = names.filter((name) => SIGNALS[name]);
  return h("details", { class: "soft" }, h("summary", {}, "What the signals say"),
    h("dl", { class: "facts" }, known.map((name) => h("div", {}, h("dt", {}, words(name)), h("dd", {}, SIGNALS[name])))));
}

/** The score, and the signals that it was made of, each beside the largest of its kind in this search. */
function ranking({ score, signals, rejected }, most, floor) {
  const row = (name, value, share, more) => h("div", { class: "signal" },
    h("dt", {}, name), h("dd", {}, bar(share, more), h("span", { class: "value" }, value)));
  return h("div", { class: "ranking" },
    h("dl", { class: "signals" },
      row("score", score.toFixed(2), score, { mark: floor }),
      Object.entries(signals).map(([name, value]) => row(words(name), value.toFixed(2), most[name] ? Math.abs(value) / most[name] : 0))),
    rejected ? h("p", { class: "soft rejected" }, `A recall would leave it out: ${LEFT_OUT[rejected] ?? words(rejected)}.`) : null);
}

async function everything(results, asked, signal) {
  const where = narrowed(asked);
  const { box, first } = paged(
    (cursor) => get("", { ...where, active: where.active.map(String), limit: 50, cursor, omit: "null" }, signal),
    (memory) => card(memory),
    {
      label: "Memories, newest first",
      whenEmpty: () => (Object.values(where).flat().some(Boolean)
        ? empty("Nothing here", "No memory matches these filters.")
        : identity().key
          ? empty("Nothing is remembered", "Memories of this key and user appear here as conversations pass through this proxy.")
          : empty("Nothing is remembered yet",
            "Memories appear here as conversations pass through this proxy.",
            "If your applications send a key, sign in with the same one: memories belong to it.",
            h("button", { type: "button", onclick: () => document.getElementById("who").click() }, "Sign in"))),
    });
  results.append(box);
  await first();
}
