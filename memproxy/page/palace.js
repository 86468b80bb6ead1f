// Where memories stand: the palace (subject, conversation, topic, word for word), and the conversations themselves.

import { at, call, get } from "./api.js";
import { add, ask, badge, counted, empty, h, heading, link, note, paged, said, tell, time } from "./dom.js";
import { card } from "./search.js";

const LEVELS = ["wing", "room", "closet"];
const NAMES = { wing: "Subject", room: "Conversation", closet: "Topic" };
const ABOUT = {
  wing: "Everything by whom or what it is about. Pointers such as W-001/R-02 are what a model may cite.",
  room: "The conversations in which it came up; “direct” holds what came by calls.",
  closet: "The topics of this conversation.",
  drawer: "What stands there, word for word.",
};

export async function showPalace({ root, args, signal }) {
  const place = Object.fromEntries(LEVELS.map((level, depth) => [level, args[depth]]).filter(([, name]) => name));
  const depth = Object.keys(place).length;
  const level = LEVELS[depth] ?? "drawer";
  add(root, heading("Palace", ABOUT[level]), trail(args.slice(0, depth)));
  const { box, first } = paged(
    (cursor) => get("/palace", { ...place, cursor, limit: 50, omit: "null" }, signal),
    (entry) => (entry.memory ? card(entry.memory) : door(entry, args)),
    { label: `${NAMES[level] ?? "Memory"}s`, whenEmpty: () => empty("Nothing stands here", depth ? "It may have been forgotten." : "The palace fills as conversations are remembered.") });
  add(root, box);
  await first();
}

const palaceLink = (names) => `#/palace/${names.map(encodeURIComponent).join("/")}`;

function trail(names) {
  return h("nav", { class: "trail", "aria-label": "Place" }, h("ol", {},
    h("li", {}, names.length ? link("#/palace", "All subjects") : h("span", { "aria-current": "page" }, "All subjects")),
    names.map((name, depth) => h("li", {}, depth === names.length - 1
      ? h("span", { "aria-current": "page" }, said(name, { most: 60 }))
      : link(palaceLink(names.slice(0, depth + 1)), said(name, { most: 60 }))))));
}

function door(entry, args) {
  const names = [...args.filter(Boolean), entry.name];
  return h("article", { class: "card door" },
    h("p", { class: "card-text" }, link(palaceLink(names), said(entry.name, { most: 120 }))),
    h("p", { class: "meta" },
      h("span", { class: "pointer" }, entry.pointer),
      h("span", {}, counted(entry.facts, "fact")), h("span", {}, counted(entry.turns, "message")),
      entry.aliases?.length ? h("span", {}, "also ", entry.aliases.slice(0, 6).map((name) => [said(name, { most: 40 }), " "])) : null));
}

// --- conversations

export async function showConversations({ root, args: [id], signal }) {
  if (id !== undefined) return showConversation(root, id, signal);
  add(root, heading("Conversations", "In which something was said last comes first, each by what was said last. One can be read, or undone with all that was learned from it alone."));
  const { box, first } = paged((cursor) => get("/sessions", { cursor, limit: 50 }, signal), conversation, {
    label: "Conversations", whenEmpty: () => empty("No conversations yet", "They appear here as they pass through this proxy."),
  });
  add(root, box);
  return first();
}

const conversation = (one) => h("article", { class: "card" },
  h("p", { class: "card-text" }, link(`#/conversations/${encodeURIComponent(one.id)}`, said(one.last_words || one.id, { most: 160 }))),
  h("p", { class: "meta" }, badge(one.ended ? "ended" : "going on", one.ended ? "" : "good"),
    h("span", {}, counted(one.turns, "message")), h("span", {}, counted(one.memories, "memory", "memories")),
    h("span", {}, time(one.last_turn_at ?? one.begun_at)),
    one.project_id ? h("span", {}, "project ", said(one.project_id)) : null,
    one.last_words ? h("span", { class: "pointer", title: one.id }, said(one.id, { most: 28 })) : null));

async function showConversation(root, id, signal) {
  const where = { session_id: id, omit: "null", limit: 50 };
  const learned = await get("", { ...where, kind: ["semantic", "procedural", "episodic", "reflective"], limit: 200 }, signal);
  add(root,
    heading("A conversation", null,
      link(`#/why?session=${encodeURIComponent(id)}`, "Its requests"),
      h("button", { type: "button", class: "danger-quiet", onclick: () => undo(id, learned.data.length).catch((error) => tell(error.message, { bad: true })) }, "Undo")),
    h("p", { class: "lead" }, said(id)));
  const { box, first } = paged((cursor) => get("", { ...where, kind: "turn", cursor }, signal), (one) => card(one), {
    label: "Messages, newest first", whenEmpty: () => empty("No messages are kept of it"),
  });
  add(root,
    learned.data.length ? h("section", { "aria-labelledby": "learned" }, h("h2", { id: "learned" }, "What was learned"),
      h("ol", { class: "cards" }, learned.data.map((one) => h("li", {}, card(one))))) : null,
    h("section", { "aria-labelledby": "messages" }, h("h2", { id: "messages" }, "Messages, newest first"), box));
  await first();
}

async function undo(id, learned) {
  const values = await ask({
    title: "Undo this conversation?", action: "Undo it", danger: true,
    body: [h("blockquote", {}, said(id)), note(`Its messages and what was learned from it alone (up to ${counted(learned, "memory", "memories")}) are deleted; what that replaced holds again. This itself cannot be undone: export first if you may want it back.`)],
    check: async () => { await call("DELETE", at`/sessions/${id}`); },
  });
  if (!values) return;
  tell("The conversation is undone.");
  location.hash = "#/conversations";
}
