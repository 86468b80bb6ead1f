// One memory: what it says, where that comes from, how long it held, what it replaced, and who was told it.

import { at, call, get, getVersion } from "./api.js";
import { add, ask, badge, bar, choice, counted, facts, field, h, heading, KINDS, link, moment, note, said, saidAtLength, sessionLink, svg, tell, time, words } from "./dom.js";
import { badges, card } from "./search.js";
import { requestCard } from "./why.js";

const MOST_SOURCES = 20;

export async function show({ root, args: [id], query, signal }) {
  const session = query.get("session") ?? undefined;
  const { data: memory, etag } = await getVersion(at`/${id}`, { session_id: session }, signal);
  const turn = memory.kind === "turn";
  const again = () => window.dispatchEvent(new HashChangeEvent("hashchange"));
  add(root,
    heading(turn ? "A message" : "A memory", null, actions(memory, etag, session, again)),
    h("article", { class: "statement" }, saidAtLength(memory.content, { class: "content" }),
      h("p", { class: "meta" }, badges(memory), memory.category ? h("span", {}, said(memory.category)) : null, memory.tags?.map((tag) => badge(said(tag))))),
    state(memory),
    h("section", { class: "columns" }, about(memory), provenance(memory)));
  add(root, ...await Promise.all([history(memory, session, signal), turn ? null : sourcesOf(memory, signal), told(memory, signal)]));
}

/** In one sentence: does it hold, and is it used? */
function state(memory) {
  if (memory.superseded_by) return note("It holds no more: ", link(`#/memory/${encodeURIComponent(memory.superseded_by)}`, "another statement took its place"), ".");
  if (memory.quarantined && memory.metadata?.feedback?.withheld) return note("Somebody said that it is wrong; it is kept, and no request is told it.");
  if (memory.metadata?.requires_user_permission) return note("It was inferred, and touches something private: no request is told it before you allow it.");
  if (memory.quarantined) return note("It waits in quarantine: it came from a source that is not trusted enough, and no request is told it until it is confirmed.");
  if (!memory.active) return note("It has ended, and is kept as history.");
  return null;
}

function about(memory) {
  const relations = memory.relations ?? [];
  return h("section", { "aria-labelledby": "about" }, h("h2", { id: "about" }, "What it is"), facts(
    ["Statement", memory.subject ? [entity(memory.subject), " ", said(words(memory.predicate)), " ", memory.object ? entity(memory.object) : null] : null],
    ["Stance", memory.stance && said(memory.stance)],
    ["Names", memory.entities?.length ? memory.entities.map((one) => [entity(one), " "]) : null],
    ["Relations", relations.length ? h("ul", {}, relations.map((one) => h("li", {}, entity(one.subject), " ", said(words(one.predicate)), " ", entity(one.object)))) : null],
    ["Confidence", share(memory.confidence)],
    ["Importance", share(memory.importance)],
    ["Held", memory.valid_from || memory.valid_to ? [memory.valid_from ? ["from ", time(memory.valid_from)] : "", memory.valid_to ? [" until ", time(memory.valid_to)] : " on"] : null],
    ["Expires", memory.expires_at ? time(memory.expires_at) : null]));
}

const entity = (name) => link(`#/people/${encodeURIComponent(name)}`, said(name, { most: 80 }));
const share = (value) => [bar(value), ` ${value.toFixed(2)}`];

function provenance(memory) {
  const { feedback } = memory.metadata ?? {};
  const judged = ["helpful", "wrong", "correction"].filter((one) => feedback?.[one]).map((one) => `${words(one)} ${feedback[one]}×`).join(", ");
  return h("section", { "aria-labelledby": "from" }, h("h2", { id: "from" }, "Where it comes from"), facts(
    ["Came by", { conversation: "a conversation", api: "a call", tool: "a tool", dream: "consolidation", import: "an import" }[memory.source] ?? memory.source],
    ["Said by", memory.kind === "turn" ? said(memory.metadata?.name ?? memory.metadata?.role ?? memory.trust) : memory.trust],
    ["Conversation", memory.session_id ? sessionLink(memory.session_id, 60) : null],
    ["Request", memory.metadata?.request_id ? link(`#/why/${encodeURIComponent(memory.metadata.request_id)}`, "why it was answered so") : null],
    ["Project", memory.project_id && said(memory.project_id)],
    ["Agent", memory.agent_id && said(memory.agent_id)],
    ["Stored", time(memory.created_at)],
    ["Changed", memory.updated_at !== memory.created_at ? time(memory.updated_at) : null],
    ["In the palace", memory.pointer ? link(`#/palace/${[memory.wing, memory.room, memory.closet].filter(Boolean).map(encodeURIComponent).join("/")}`, memory.pointer) : null],
    ["Recalled", memory.access_count ? [counted(memory.access_count, "time"), memory.last_accessed_at ? [", last ", time(memory.last_accessed_at)] : null] : "never yet"],
    ["Judged", judged || null],
    ["Id", h("code", {}, said(memory.id))]));
}

/** The chain of statements of which it is one, with the time that each held. */
async function history(memory, session, signal) {
  const { data } = await get(at`/${memory.id}/history`, { session_id: session, omit: "null" }, signal);
  if (data.length < 2 && !memory.valid_from && !memory.valid_to) return null;
  return h("section", { "aria-labelledby": "history" }, h("h2", { id: "history" }, "How it changed"), intervals(data, memory.id),
    h("ol", { class: "cards" }, data.map((one) => h("li", { class: one.id === memory.id ? "here" : "" }, card(one)))));
}

/** Validity as bars over one axis of time. */
function intervals(memories, current) {
  const now = Date.now();
  const begin = (one) => Date.parse(one.valid_from ?? one.created_at);
  const end = (one) => (one.valid_to ? Date.parse(one.valid_to) : one.active ? now : Date.parse(one.updated_at));
  const first = Math.min(...memories.map(begin), now);
  const last = Math.max(...memories.map(end), now, first + 1);
  const x = (at) => 10 + ((at - first) / (last - first)) * 780;
  const height = memories.length * 22 + 34;
  const exact = last - first < 3 * 86400000;
  const label = memories.map((one) => `${moment(begin(one), exact)} to ${one.valid_to ? moment(end(one), exact) : "now"}`).join("; ");
  return svg("svg", { viewBox: `0 0 800 ${height}`, class: "timeline", role: "img", "aria-label": `When each held: ${label}` },
    memories.map((one, row) => svg("rect", {
      x: x(begin(one)), y: row * 22 + 6, rx: 5, height: 12, width: Math.max(8, x(end(one)) - x(begin(one))),
      class: `${one.valid_to || !one.active ? "over" : "holds"} ${one.id === current ? "current" : ""}`,
    })),
    svg("line", { x1: 10, x2: 790, y1: height - 24, y2: height - 24, class: "axis" }),
    svg("text", { x: 10, y: height - 8 }, moment(first, exact)),
    svg("text", { x: 790, y: height - 8, "text-anchor": "end" }, moment(last, exact)));
}

/** The messages that it rests on, word for word. */
async function sourcesOf(memory, signal) {
  const ids = (memory.turn_ids ?? []).slice(0, MOST_SOURCES);
  if (!ids.length) return null;
  const turns = await Promise.all(ids.map((id) => get(at`/${id}`, { session_id: memory.session_id, omit: "null" }, signal).catch(() => null)));
  const there = turns.filter(Boolean);
  const missing = memory.turn_ids.length - there.length;
  return h("section", { "aria-labelledby": "sources" }, h("h2", { id: "sources" }, "What was said"),
    there.length ? h("ol", { class: "cards" }, there.map((one) => h("li", {}, card(one)))) : null,
    missing ? note(`${counted(missing, "message")} more ${missing === 1 ? "was" : "were"} forgotten, or ${missing === 1 ? "is" : "are"} not shown here.`) : null);
}

/** The requests of the last days that were given it. */
async function told(memory, signal) {
  const { data, next_cursor: more } = await get("/receipts", { memory_id: memory.id, limit: 10 }, signal);
  return h("section", { "aria-labelledby": "told" }, h("h2", { id: "told" }, "Who was told it"),
    data.length ? h("ol", { class: "cards" }, data.map((one) => h("li", {}, requestCard(one)))) : h("p", { class: "soft" }, "No request of the last seven days."),
    more ? h("p", { class: "soft after" }, "And earlier ones.") : null);
}

// --- what can be done with it

function actions(memory, etag, session, again) {
  const button = (text, act, kind = "") => h("button", { type: "button", class: kind, onclick: () => act().catch((error) => error.name === "AbortError" || tell(error.message, { bad: true })) }, text);
  const withheld = memory.metadata?.feedback?.withheld;
  const change = (body, words, back) => async () => {
    await call("PATCH", at`/${memory.id}`, { query: { session_id: session }, body });
    tell(words, { undo: async () => { await call("PATCH", at`/${memory.id}`, { query: { session_id: session }, body: back }); again(); } });
    again();
  };
  const permitted = (needed) => ({ metadata: { ...memory.metadata, requires_user_permission: needed } });
  return [
    memory.quarantined && !withheld ? button("Confirm", change({ quarantined: false }, "Confirmed: requests are told it.", { quarantined: true }), "primary") : null,
    memory.metadata?.requires_user_permission ? button("Allow", change(permitted(false), "Allowed: requests are told it.", permitted(true)), "primary") : null,
    memory.kind !== "turn" ? button("Edit", () => edit(memory, etag, again)) : null,
    memory.superseded_by ? null : withheld
      ? button("Right after all", () => judge(memory, "helpful", "It is used again.", again))
      : memory.quarantined ? null : button("Wrong", () => wrong(memory, again)),
    button("Forget", () => forget(memory, session), "danger-quiet"),
  ];
}

async function judge(memory, signal, words, again) {
  await call("POST", "/feedback", { body: { memory_id: memory.id, signal } });
  tell(words);
  again();
}

async function wrong(memory, again) {
  const here = location.hash;
  const values = await ask({
    title: "Is this wrong?",
    action: ({ text }) => (text.trim() ? "Correct it" : "Withhold it"),
    body: [quoted(memory),
      memory.metadata?.role === "assistant"
        ? note("This is an answer. It says what was known: correct the message or the fact that it came from, or the next answer says it again.")
        : null,
      field("What is right instead?", h("textarea", { name: "text", rows: 3, maxlength: 10000 }), "Leave it empty to withhold the memory without another. It stays in the history.")],
  });
  if (!values) return;
  const text = values.text.trim();
  const answer = await call("POST", "/feedback", { body: { memory_id: memory.id, signal: text ? "correction" : "wrong", text: text || undefined } });
  if (text) {
    const [right] = answer.memory_ids;
    tell("Corrected: the new statement took its place.", { undo: async () => {
      await call("DELETE", at`/${right}`, { query: { restore: "true" } });
      tell("The correction is taken back: what was there holds again.");
      if (location.hash === here) again();
      else location.hash = here;
    } });
    location.hash = `#/memory/${encodeURIComponent(right)}`;
    return;
  }
  tell("Withheld: no request is told it.", { undo: () => judge(memory, "helpful", "It is used again.", again) });
  again();
}

const quoted = (memory) => h("blockquote", {}, said(memory.content, { most: 300 }));
const list = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);

async function edit(memory, etag, again) {
  const input = (name, value, more = {}) => h("input", { name, value: value ?? "", ...more });
  const before = {
    content: memory.content, category: memory.category ?? "", tags: (memory.tags ?? []).join(", "), entities: (memory.entities ?? []).join(", "),
    importance: String(memory.importance), confidence: String(memory.confidence), kind: memory.kind,
    valid_from: memory.valid_from?.slice(0, 10) ?? "", valid_to: memory.valid_to?.slice(0, 10) ?? "",
  };
  let changes = {};
  const values = await ask({
    title: "Edit the memory",
    action: "Save",
    body: [
      field("What it says", h("textarea", { name: "content", rows: 5, required: true, maxlength: 100000, value: before.content })),
      h("div", { class: "two" },
        field("Kind", choice("kind", ["semantic", "procedural", "episodic", "reflective"].map((one) => [one, KINDS[one]]), before.kind)),
        field("Category", input("category", before.category, { maxlength: 200 }), "like preferences/food"),
        field("Tags", input("tags", before.tags), "with commas between"),
        field("Names", input("entities", before.entities), "with commas between"),
        field("Holds from", input("valid_from", before.valid_from, { type: "date" })),
        field("Holds until", input("valid_to", before.valid_to, { type: "date" }), "A day in the past ends it."),
        field("Importance", input("importance", before.importance, { type: "number", min: 0, max: 1, step: "any" }), "0 to 1"),
        field("Confidence", input("confidence", before.confidence, { type: "number", min: 0, max: 1, step: "any" }), "0 to 1")),
    ],
    check: async (given) => {
      changes = Object.fromEntries(Object.entries(given).filter(([name, value]) => value !== before[name]).map(([name, value]) => [name, typed(name, value)]));
      if (Object.keys(changes).length) await call("PATCH", at`/${memory.id}`, { body: changes, headers: etag ? { "if-match": etag } : {} });
    },
  });
  if (!values || !Object.keys(changes).length) return;
  const back = Object.fromEntries(Object.keys(changes).map((name) => [name, memory[name] ?? (name === "tags" || name === "entities" ? [] : null)]));
  tell("Saved.", { undo: async () => { await call("PATCH", at`/${memory.id}`, { body: back }); tell("The edit was taken back."); again(); } });
  again();
}

function typed(name, value) {
  if (name === "tags" || name === "entities") return list(value);
  if (name === "importance" || name === "confidence") return Number(value);
  if (name === "content" || name === "kind") return value;
  if (!value) return null;
  return name.startsWith("valid_") ? `${value}T00:00:00Z` : value;
}

async function forget(memory, session) {
  const replaced = !memory.superseded_by && (memory.supersedes || memory.metadata?.corrects);
  const values = await ask({
    title: "Forget this for good?",
    action: "Forget",
    danger: true,
    body: [quoted(memory), note("It is deleted from memory and from the files. This cannot be undone; to keep it out of requests only, say that it is wrong."),
      replaced ? h("label", { class: "check" }, h("input", { type: "checkbox", name: "restore", value: "true" }), "What it took the place of holds again") : null],
    check: async ({ restore }) => { await call("DELETE", at`/${memory.id}`, { query: { session_id: session, restore } }); },
  });
  if (!values) return;
  tell("Forgotten.");
  if (window.history.length > 1) window.history.back();
  else location.hash = "#/search";
}
