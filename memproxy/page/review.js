// What waits for a person's word: contradictions, quarantined memories, and what consolidation did.

import { at, call, get } from "./api.js";
import { add, ask, badge, counted, empty, facts, fill, h, heading, link, note, paged, said, tell, time, words } from "./dom.js";
import { card } from "./search.js";

const MOST_WAITING = 200;
const again = () => window.dispatchEvent(new HashChangeEvent("hashchange"));
const button = (text, act, kind = "") => h("button", { type: "button", class: `small ${kind}`, onclick: async (event) => {
  event.target.disabled = true;
  try { await act(); } catch (error) { tell(error.message, { bad: true }); event.target.disabled = false; }
} }, text);

export async function showReview({ root, signal, built }) {
  add(root, heading("Review", "Memories that no request is told until somebody says which of them hold."));
  if (await built("/v1/memory/conflicts")) await conflicts(root, signal);
  await permissions(root, signal);
  const { box, first } = paged((cursor) => get("", { quarantined: "true", cursor, limit: 50, omit: "null" }, signal), quarantined, {
    label: "Quarantined memories", whenEmpty: () => empty("Nothing is in quarantine", "What comes from a source that is not trusted enough waits here, and what somebody said is wrong."),
  });
  add(root, h("section", { "aria-labelledby": "quarantine" }, h("h2", { id: "quarantine" }, "Quarantine"), box));
  await first();
}

async function conflicts(root, signal) {
  const { box, first } = paged((cursor) => get("/conflicts", { cursor, limit: 20 }, signal), conflict, {
    label: "Contradictions", whenEmpty: () => h("p", { class: "soft" }, "None: where statements differ, their dates say which one holds."),
  });
  add(root, h("section", { "aria-labelledby": "conflicts" }, h("h2", { id: "conflicts" }, "Contradictions"), box));
  await first();
}

/** What a dream inferred about something private: all of it stands below one category. */
async function permissions(root, signal) {
  const waiting = [];
  for (let cursor; cursor !== null && waiting.length < MOST_WAITING;) {
    const page = await get("", { category: "user-preferences/", active: "true", cursor, limit: 200, omit: "null" }, signal);
    waiting.push(...page.data.filter((one) => one.metadata?.requires_user_permission));
    cursor = page.next_cursor ?? null;
  }
  if (!waiting.length) return;
  add(root, h("section", { "aria-labelledby": "permission" }, h("h2", { id: "permission" }, "May it be used?"),
    h("p", { class: "soft" }, "Inferred from what was said, and about something private. Nobody said it like that."),
    h("ol", { class: "cards" }, waiting.map((one) => h("li", {}, card(one, h("p", { class: "actions" },
      button("Allow", () => allow(one), "primary"), button("Reject", () => reject(one), "danger-quiet"))))))));
}

async function allow(memory) {
  const permit = (needed) => call("PATCH", at`/${memory.id}`, { body: { metadata: { ...memory.metadata, requires_user_permission: needed } } });
  await permit(false);
  tell("Allowed: requests are told it.", { undo: async () => { await permit(true); again(); } });
  again();
}

async function reject(memory) {
  const values = await ask({ title: "Reject this?", action: "Reject", danger: true,
    body: [h("blockquote", {}, said(memory.content, { most: 300 })), note("It is deleted for good. Left here it is told to nobody either.")],
    check: async () => { await call("DELETE", at`/${memory.id}`, { query: { session_id: memory.kind === "turn" ? memory.session_id : undefined } }); } });
  if (values) { tell("Rejected and deleted."); again(); }
}

function conflict({ id, reason, memories }) {
  const settle = (keep, words) => async () => {
    await call("POST", at`/conflicts/${id}`, { body: { keep } });
    tell(words);
    again();
  };
  return h("article", { class: "panel" },
    h("p", { class: "soft" }, `They cannot both hold: ${words(reason)}.`),
    h("div", { class: "columns" }, memories.map((one) => h("div", { class: "side" }, card(one), button("This one holds", settle(one.id, "Settled; the other stays in the history."))))),
    h("p", { class: "actions after" }, button("Both hold", settle("both", "Both stay.")), button("Neither", settle("neither", "Both are ended."))));
}

function quarantined(memory) {
  const withheld = memory.metadata?.feedback?.withheld;
  const confirm = async () => {
    if (withheld) await call("POST", "/feedback", { body: { memory_id: memory.id, signal: "helpful" } });
    else await call("PATCH", at`/${memory.id}`, { query: { session_id: memory.kind === "turn" ? memory.session_id : undefined }, body: { quarantined: false } });
    tell("Confirmed: requests are told it.", { undo: async () => {
      if (withheld) await call("POST", "/feedback", { body: { memory_id: memory.id, signal: "wrong" } });
      else await call("PATCH", at`/${memory.id}`, { body: { quarantined: true } });
      again();
    } });
    again();
  };
  return card(memory, h("p", { class: "actions" }, button("Confirm", confirm, "primary"), button("Reject", () => reject(memory), "danger-quiet")));
}

// --- dreams

const STATE_KINDS = { done: "good", failed: "bad", undone: "", running: "warn", waiting: "warn" };

export async function showDreams({ root, args: [id], signal }) {
  if (id !== undefined) return dream(root, id, signal);
  const run = (dry) => async () => {
    const made = await call("POST", "/dream", { body: { dry_run: dry } });
    if (!dry && made.id) { location.hash = `#/dreams/${encodeURIComponent(made.id)}`; return; }
    fill(tried, h("h2", {}, "What it would do"), diff(made), notes(made));
  };
  const tried = h("section", { role: "status" });
  add(root, heading("Dreams", "Consolidation: what is the same is merged, what is over is ended. Each run shows what it did, and can be taken back.",
    button("Try without writing", run(true)), button("Run now", run(false), "primary")), tried);
  const { box, first } = paged((cursor) => get("/dreams", { cursor, limit: 50 }, signal), (one) => h("article", { class: "card" },
    h("p", { class: "card-text" }, link(`#/dreams/${encodeURIComponent(one.id)}`, summary(one))),
    h("p", { class: "meta" }, badge(one.state, STATE_KINDS[one.state]), h("span", {}, time(one.created_at)), h("span", {}, one.trigger === "call" ? "asked for" : "on schedule"), h("span", {}, `${counted(one.looked_at, "fact")} looked at`))),
  { label: "Dreams, newest first", whenEmpty: () => empty("No dream yet", "Run one, or set dream.schedule.") });
  add(root, box);
  return first();
}

const summary = ({ counts }) => Object.entries(counts ?? {}).filter(([, count]) => count).map(([name, count]) => `${words(name)} ${count}`).join(", ") || "Nothing to do";

async function dream(root, id, signal) {
  const told = await get(at`/dreams/${id}`, {}, signal);
  const undo = async () => {
    const values = await ask({ title: "Take this dream back?", action: "Take it back", body: [note("What it merged, ended or added is as it was before.")], check: async () => { await call("POST", at`/dreams/${id}/undo`); } });
    if (values) { tell("The dream is taken back."); again(); }
  };
  add(root, heading("A dream", summary(told), told.state === "done" ? button("Undo", undo) : null),
    facts(["State", badge(told.state, STATE_KINDS[told.state])], ["Begun", time(told.created_at)], ["Ended", told.ended_at && time(told.ended_at)], ["Taken back", told.undone_at && time(told.undone_at)],
      ["Looked at", `${told.looked_at} of ${counted(told.entries, "fact")}${told.complete ? "" : "; the next one goes on there"}`],
      ["Model", told.model ? `asked: ${told.tokens.input} tokens in, ${told.tokens.output} out` : "none was asked"], ["Error", told.error]),
    notes(told), h("section", {}, h("h2", {}, "What it did"), diff(told)));
}

const notes = ({ notes: told }) => (told?.length ? h("ul", { class: "plain" }, told.map((one) => h("li", {}, one))) : null);

function diff({ diff: changes = [] }) {
  if (!changes.length) return h("p", { class: "soft" }, "Nothing changed.");
  return h("ol", { class: "cards" }, changes.map((one) => h("li", {}, h("article", { class: "card diff" },
    h("p", { class: "meta" }, badge(words(one.action), one.action === "delete" || one.action === "end" ? "bad" : "good"), h("span", {}, words(one.reason))),
    (one.sources ?? []).map((source) => h(one.action === "merge" || one.action === "supersede" ? "del" : "p", { class: "source" }, source.content === null ? "(gone)" : link(`#/memory/${encodeURIComponent(source.memory_id)}`, said(source.content, { most: 300 })))),
    h(one.action === "delete" || one.action === "end" ? "del" : "p", {}, one.content === null ? "(gone)" : link(`#/memory/${encodeURIComponent(one.memory_id)}`, said(one.content, { most: 300 }))),
    Object.entries(one.fields ?? {}).map(([name, [before, after]]) => h("p", { class: "soft" }, `${words(name)}: `, h("del", {}, said(before ?? "none")), " → ", said(after ?? "none")))))));
}
