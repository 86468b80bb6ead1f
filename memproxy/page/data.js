// Working memory, statistics, settings, and what is done with all of a user's memory: export, import, erase.

import { at, call, get, getFile, getVersion } from "./api.js";
import { add, ask, badge, bar, choice, counted, empty, facts, field, fill, h, heading, KINDS, link, note, number, paged, said, save, table, tell, time, words } from "./dom.js";

const again = () => window.dispatchEvent(new HashChangeEvent("hashchange"));
const shownBytes = (size) => (size < 1024 ? `${size} bytes` : `${number(Math.round(size / 102.4) / 10)} KB`);
const LARGEST_PART = 4 * 1024 * 1024; // of an import, in one call

const acting = (text, act, kind = "") => h("button", { type: "button", class: kind, onclick: async (event) => {
  const { target } = event;
  target.disabled = true;
  try { await act(); } catch (error) { tell(error.message, { bad: true }); } finally { target.disabled = false; }
} }, text);

// --- working memory

export async function showWorking({ root, args: [key], query, signal }) {
  if (key !== undefined) return entry(root, key, signal);
  const prefix = query.get("prefix") ?? "";
  const form = h("form", { class: "filters", role: "search" }, h("label", { class: "filter" }, h("span", {}, "Key begins with"), h("input", { name: "prefix", value: prefix, maxlength: 512 })));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#/working?${new URLSearchParams(new FormData(form))}`;
  });
  add(root, heading("Working memory", "Notes that agents hand to each other for minutes. They end by themselves."), form);
  const { box, first } = paged((cursor) => get("/working", { prefix, cursor, limit: 50 }, signal), (one) => h("article", { class: "card" },
    h("p", { class: "card-text" }, link(`#/working/${encodeURIComponent(one.key)}`, said(one.key, { most: 120 }))),
    h("p", { class: "meta" }, h("span", {}, shownBytes(one.size)), one.category ? badge(said(one.category)) : null, one.tags.map((tag) => badge(said(tag))), h("span", {}, "ends ", time(one.expires_at)))),
  { label: "Entries", whenEmpty: () => empty("Nothing is in working memory") });
  add(root, box);
  return first();
}

const keyPath = (key) => `/working/${key.split("/").map(encodeURIComponent).join("/")}`;

async function entry(root, key, signal) {
  const told = await get(keyPath(key), {}, signal);
  const drop = async () => {
    const values = await ask({ title: "Delete this entry?", action: "Delete", danger: true, body: [h("blockquote", {}, said(key))], check: async () => { await call("DELETE", keyPath(key)); } });
    if (!values) return;
    const left = (Date.parse(told.expires_at) - Date.now()) / 1000;
    tell("Deleted.", { undo: async () => {
      await call("PUT", keyPath(key), { body: { data: told.data, ttl_s: Math.max(1, left), category: told.category ?? undefined, tags: told.tags } });
      tell("It is back.");
      again();
    } });
    location.hash = "#/working";
  };
  add(root, heading("An entry", null, acting("Delete", drop, "danger-quiet")), h("p", { class: "lead" }, said(key)),
    h("pre", { tabindex: "0" }, said(JSON.stringify(told.data, null, 2), { most: 100000 })),
    facts(["Size", shownBytes(told.size)], ["Category", told.category && said(told.category)], ["Tags", told.tags.length ? told.tags.map((tag) => badge(said(tag))) : null],
      ["Changed", time(told.updated_at)], ["Ends", time(told.expires_at)]));
}

// --- statistics

export async function showStatistics({ root, signal }) {
  const [stats, { data: categories }] = await Promise.all([get("/stats", {}, signal), get("/categories", { limit: 30 }, signal)]);
  const { memories, queues, cost, experiment } = stats;
  const waiting = Object.values(queues).reduce((sum, queue) => sum + queue.waiting + queue.running, 0);
  const parked = Object.values(queues).reduce((sum, queue) => sum + queue.parked, 0);
  const figure = (value, words) => h("div", { class: "figure" }, h("span", { class: "big" }, value), h("span", { class: "soft" }, words));
  const most = Math.max(...categories.map((one) => one.count), 1);
  add(root,
    heading("Statistics", "How much there is, what waits, and what the models cost."),
    h("section", { class: "figures", "aria-label": "At a glance" },
      figure(number(memories.kinds.turn.total), "messages, word for word"),
      figure(number(memories.active - memories.kinds.turn.active), "facts that hold"),
      figure(number(memories.total - memories.kinds.turn.total - (memories.active - memories.kinds.turn.active)), "facts in the history"),
      figure(number(waiting), "waiting to be learned"),
      parked ? figure(number(parked), "given up; Live tries them again") : null),
    h("section", {}, h("h2", {}, "By kind"), table("Memories by kind", ["Kind", "Now", "Ever"], Object.entries(memories.kinds).map(([kind, one]) => [KINDS[kind], number(one.active), number(one.total)]))),
    categories.length ? h("section", {}, h("h2", {}, "By category"), table("Memories by category", ["Category", "Count", ""], categories.map((one) => [link(`#/search?category=${encodeURIComponent(one.category)}`, said(one.category)), number(one.count), bar(one.count / most)]))) : null,
    costs(cost), comparison(experiment),
    stats.erasure === "pending" ? note("Deleted text is still being dropped from the files.") : null);
}

function costs(cost) {
  if (!cost) return note("What the models cost is shown to keys with the permission admin or act_as_user.");
  const sources = [...new Set([...Object.keys(cost.year), ...Object.keys(cost.today)])];
  if (!sources.length) return h("section", {}, h("h2", {}, "What the models cost"), h("p", { class: "soft" }, "No model was asked yet."));
  const cell = (used) => (used ? `${number(used.input_tokens)} in, ${number(used.output_tokens)} out` : "–");
  return h("section", {}, h("h2", {}, "What the models cost"), table("Tokens by source", ["Source", "Today (UTC)", "Last year"], sources.map((one) => [words(one), cell(cost.today[one]), cell(cost.year[one])])),
    h("p", { class: "soft after" }, "Tokens of all users of this tenant, by what the models were asked for."));
}

const estimate = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 }).format;
const MEASURES = {
  followups: "corrections in the chat, by request", input_tokens: "input tokens, by request", output_tokens: "output tokens, by request",
  cached_tokens: "cached tokens, by request", milliseconds: "milliseconds, by request",
};

function comparison(experiment) {
  if (!experiment) return null;
  const { arms, difference, share } = experiment;
  const interval = (one) => (one ? `${estimate(one.mean)}${one.low === null ? "" : ` (${estimate(one.low)} to ${estimate(one.high)})`}` : "–");
  const names = Object.keys(arms);
  return h("section", {}, h("h2", {}, "Does memory help?"), h("p", { class: "soft count" }, `${Math.round(share * 100)} % of users are held out: all is done for them but injection. In brackets the 95 % interval, from ten users in an arm on.`),
    table("Both arms side by side", ["Measure", ...names.map(words), "Difference"], [
      ["users", ...names.map((arm) => number(arms[arm].users)), ""],
      ["requests", ...names.map((arm) => number(arms[arm].requests)), ""],
      ["share of judgements: it helped", ...names.map((arm) => interval(arms[arm].helpful_share)), ""],
      ...Object.keys(difference).map((one) => [MEASURES[one] ?? words(one), ...names.map((arm) => interval(arms[arm].per_request[one])), interval(difference[one])]),
    ]));
}

// --- settings, and all of it

export async function showSettings({ root, signal }) {
  const { data: now, etag } = await getVersion("/settings", {}, signal);
  const { chosen } = now;
  const three = (value) => (value === null ? "" : value ? "on" : "off");
  const form = h("form", { class: "panel form" },
    h("h2", {}, "What memory does for you"),
    field("Memory", choice("mode", [["", `as configured (${now.mode})`], ["on", "on: recall and keep"], ["read", "recall, keep nothing"], ["write", "keep and learn, recall nothing"], ["off", "off"]], chosen.mode)),
    field("Learning", choice("learning", [["", `as configured (${now.learning ? "on" : "off"})`], ["on", "on: read facts from what is said"], ["off", "off: keep messages only"]], three(chosen.learning))),
    field("Memories in one recall", h("input", { name: "limit", type: "number", min: 1, max: 200, value: chosen.limit ?? "", placeholder: `as configured (${now.limit})` })),
    field("Reranking", choice("rerank", [["", `as configured (${now.rerank ? "on" : "off"})`], ["on", "on"], ["off", "off"]], three(chosen.rerank))),
    field("Histories are compressed above", h("input", { name: "compress_above_tokens", type: "number", min: 0, max: 10000000, value: chosen.compress_above_tokens ?? "", placeholder: `as configured (${now.compress_above_tokens ?? "never"})` }), "Tokens; 0 for never."),
    field("Memory tools", choice("memory_tools", [["", `as configured (${now.memory_tools})`], ["inject", "inject: the model may search and save itself"], ["none", "none"]], chosen.memory_tools)),
    h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Save")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    for (const name of ["limit", "compress_above_tokens"]) if (name in given) given[name] = Number(given[name]);
    try {
      await call("PUT", "/settings", { body: given, headers: etag ? { "if-match": etag } : {} });
      const before = Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== null));
      tell("Saved.", { undo: async () => { await call("PUT", "/settings", { body: before }); tell("As it was before."); again(); } });
      again();
    } catch (error) { tell(error.message, { bad: true }); }
  });
  add(root,
    heading("Settings and data", ["For ", said(now.user_id), now.agent_id ? [" as used by ", said(now.agent_id)] : null, "."]),
    h("div", { class: "columns" }, form,
      h("section", { class: "panel form" }, h("h2", {}, "Take it along"),
        h("p", {}, "Everything as JSON Lines: memories with their history, messages, places."),
        h("p", { class: "actions" }, acting("Export", exported, "primary"), acting("Import…", imported))),
      h("section", { class: "panel form" }, h("h2", {}, "Erase everything"),
        h("p", {}, "All memories, messages, receipts and notes of this user, from the files too. This cannot be undone."),
        h("p", { class: "actions" }, acting("Erase…", () => erase(now.user_id), "danger-quiet")))));
}

async function exported() {
  const file = await getFile("/export", {});
  save(`memories-${new Date().toISOString().slice(0, 10)}.jsonl`, file);
  tell(`Exported: ${shownBytes(file.size)}.`);
}

async function imported() {
  const told = h("div", { role: "status" });
  let parts = null;
  const input = h("input", { type: "file", name: "file", accept: ".jsonl,.ndjson,application/x-ndjson", required: true });
  const submit = () => input.form.querySelector("[type=submit]");
  input.addEventListener("change", async () => {
    parts = null;
    fill(told, h("p", { class: "soft" }, "Looking through it…"));
    try {
      const cut = partsOf(await input.files[0].text());
      const sum = await each(cut, true);
      parts = cut;
      fill(told, outcome(sum, "would be"));
      submit().focus();
    } catch (error) { fill(told, h("p", { class: "problem" }, error.message)); }
  });
  let sum = null;
  const values = await ask({ title: "Import memories", action: "Import",
    body: [field("File", input, "An export of memproxy (JSON Lines). Nothing is written before you confirm."), told],
    check: async () => {
      if (!parts) throw new Error("Choose a file that can be read.");
      sum = await each(parts, false);
    } });
  if (!values) return;
  tell(`Imported: ${counted(sum.imported, "memory", "memories")}, ${number(sum.unchanged)} were there already.`);
  again();
}

/** The lines in parts that one call takes, each behind the file's first line. */
function partsOf(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  if (!lines.length) throw new Error("The file is empty.");
  const header = lines[0].includes('"format"') ? `${lines.shift()}\n` : "";
  const parts = [];
  let part = header;
  for (const line of lines) {
    if (part.length + line.length > LARGEST_PART && part !== header) { parts.push(part); part = header; }
    part += `${line}\n`;
  }
  return [...parts, part];
}

async function each(parts, dry) {
  const sum = { imported: 0, replaced: 0, unchanged: 0, turns: 0, rejected: 0, errors: [], notes: [] };
  for (const lines of parts) {
    const told = await call("POST", "/import", { lines, query: { dry_run: dry ? "true" : undefined } });
    for (const name of ["imported", "replaced", "unchanged", "turns", "rejected"]) sum[name] += told[name];
    sum.errors.push(...told.errors);
    sum.notes.push(...told.notes);
  }
  return sum;
}

const outcome = (sum, would) => h("div", {}, h("p", {}, `${counted(sum.imported, "memory", "memories")} ${would} new, ${number(sum.replaced)} replaced, ${number(sum.unchanged)} unchanged, ${counted(sum.turns, "message")} read; ${counted(sum.rejected, "line")} ${would} left out.`),
  sum.errors.slice(0, 5).map((one) => h("p", { class: "problem" }, `Line ${one.line ?? one.number}: ${one.message ?? one.error}`)), [...new Set(sum.notes)].slice(0, 5).map((one) => note(one)));

async function erase(user) {
  const values = await ask({ title: "Erase everything of this user?", action: "Erase for good", danger: true,
    body: [note("Export first if you may want it back: nobody can bring it back afterwards."), h("p", {}, "It is about ", said(user), "."), field("Type the user's name to confirm", h("input", { name: "name", autocomplete: "off", spellcheck: "false" }))],
    check: async ({ name }) => {
      if (name !== user) throw new Error("That is not the name.");
      await call("DELETE", at`/users/${user}`);
    } });
  if (!values) return;
  tell("Everything was erased.");
  location.hash = "#/search";
}
