// People and things: who and what memories name, and their relations over time, as a graph that one can walk.

import { at, get } from "./api.js";
import { add, badge, choice, counted, empty, field, fill, h, heading, link, moment, paged, said, svg, table, time, words } from "./dom.js";

const MOST_AROUND = 18;
const NARROW = matchMedia("(width < 720px)"); // another drawing, not the same one smaller
const TYPES = { person: "person", place: "place", event: "event", item: "thing", time: "time" };

export async function show({ root, args: [name], query, signal }) {
  if (name !== undefined) return one(root, name, query.get("day"), signal);
  const type = query.get("type") ?? "";
  const prefix = query.get("prefix") ?? "";
  const form = h("form", { class: "filters", role: "search" },
    h("label", { class: "filter" }, h("span", {}, "Name begins with"), h("input", { name: "prefix", value: prefix, maxlength: 200 })),
    h("label", { class: "filter" }, h("span", {}, "Kind"), choice("type", [["", "all"], ...Object.entries(TYPES)], type)));
  const go = (event) => {
    event.preventDefault();
    location.hash = `#/people?${new URLSearchParams([...new FormData(form)].filter(([, value]) => value))}`;
  };
  form.addEventListener("submit", go);
  form.addEventListener("change", go);
  add(root, heading("People and things", "Who and what your memories name, most often named first. Open one to see what it is related to."), form);
  const { box, first } = paged((cursor) => get("/entities", { type, prefix, cursor, limit: 100 }, signal), (entity) =>
    h("article", { class: "card row" },
      h("p", { class: "card-text" }, link(entityLink(entity.name), said(entity.name, { most: 80 }))),
      h("p", { class: "meta" }, badge(TYPES[entity.type] ?? entity.type), h("span", {}, counted(entity.count, "memory", "memories")), h("span", {}, "last ", time(entity.last_seen)))),
  { label: "People and things", whenEmpty: () => empty("Nobody and nothing is named", "Names appear here as memories speak of them.") });
  box.firstChild.classList.add("grid");
  add(root, box);
  return first();
}

const entityLink = (name) => `#/people/${encodeURIComponent(name)}`;

async function one(root, name, day, signal) {
  const { data, next_cursor: more } = await get(at`/entities/${name}/timeline`, { limit: 200 }, signal);
  const seen = h("section", { "aria-label": "Graph" });
  const when = h("input", { type: "date", value: day ?? "", max: "9999-12-31" });
  const draw = () => fill(seen, graph(name, data.filter((edge) => held(edge, when.value)), when.value));
  when.addEventListener("change", draw);
  NARROW.addEventListener("change", draw, { signal });
  add(root, heading("", "What is related to it. Choose another name to walk on; dashed relations hold no more."), null);
  root.querySelector("h1").append(said(name));
  if (!data.length) {
    add(root, empty("No relations are known", "Memories name it, and say nothing of how it is related to others.", link(`#/search?entity=${encodeURIComponent(name)}`, "Memories that name it")));
    return;
  }
  add(root,
    h("div", { class: "filters" }, h("label", { class: "filter" }, h("span", {}, "As it was on"), when), link(`#/search?entity=${encodeURIComponent(name)}`, "Memories that name it")),
    seen,
    h("section", {}, h("h2", {}, "Relations over time"),
      table("Relations over time", ["Subject", "Relation", "Object", "From", "Until", "Memory"], data.map((edge) => [
        link(entityLink(edge.subject), said(edge.subject)), said(words(edge.predicate)), link(entityLink(edge.object), said(edge.object)),
        time(edge.valid_from ?? edge.created_at), edge.valid_to ? time(edge.valid_to) : edge.active ? badge("holds", "good") : badge("ended"),
        link(`#/memory/${encodeURIComponent(edge.memory_id)}`, "open"),
      ])),
      more ? h("p", { class: "soft" }, "The 200 oldest relations are shown.") : null));
  draw();
}

function held(edge, day) {
  if (!day) return true;
  const at = new Date(`${day}T23:59:59Z`);
  return new Date(edge.valid_from ?? edge.created_at) <= at && (edge.valid_to === null ? edge.active : new Date(edge.valid_to) > at);
}

/** The name in the middle, what it is related to around it; each neighbour is a link to its own graph. */
function graph(name, edges, day) {
  const same = (one) => one.localeCompare(name, undefined, { sensitivity: "base" }) === 0;
  const around = new Map();
  for (const edge of [...edges].reverse()) {
    const other = same(edge.subject) ? edge.object : edge.subject;
    if (!around.has(other) && around.size === MOST_AROUND) continue;
    around.set(other, [...(around.get(other) ?? []), edge]);
  }
  if (!around.size) return empty("No relation held then");
  const narrow = NARROW.matches;
  const [width, height] = narrow ? [360, 420] : [860, 460];
  const [cx, cy] = [width / 2, height / 2];
  const aslant = narrow && around.size % 4 === 0 ? 0.5 : 0; // beside the middle there is no room for a relation's name
  const nodes = [...around].map(([other, its], place) => {
    const turn = ((place + aslant) / around.size) * 2 * Math.PI - Math.PI / 2;
    const reach = around.size > 8 && place % 2 ? 0.72 : 1;
    return { other, its, x: cx + Math.cos(turn) * (width / 2 - (narrow ? 60 : 110)) * reach, y: cy + Math.sin(turn) * (height / 2 - 40) * reach };
  });
  return h("figure", { class: "graph" },
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `What ${name} is related to` },
      nodes.map(({ its, x, y }) => [
        svg("line", { x1: cx, y1: cy, x2: x, y2: y, class: its.some((edge) => edge.active || day) ? "edge" : "edge gone" }),
        svg("text", { x: (cx + x) / 2, y: (cy + y) / 2 - 4, class: "relation" }, short(words(its[0].predicate), narrow ? 14 : 22), its.length > 1 ? ` +${its.length - 1}` : ""),
      ]),
      nodes.map(({ other, its, x, y }) => svg("a", { href: entityLink(other), "aria-label": `${other}: ${its.map((edge) => `${edge.subject} ${words(edge.predicate)} ${edge.object}`).join("; ")}` },
        ...bubble(short(other, narrow ? 14 : 20), x, y, "node"), svg("title", {}, its.map((edge) => `${words(edge.predicate)}${edge.valid_from ? ` (from ${moment(new Date(edge.valid_from))})` : ""}`).join(", ")))),
      svg("g", {}, ...bubble(short(name, narrow ? 16 : 24), cx, cy, "node middle"))),
    edges.length > around.size ? h("figcaption", { class: "soft" }, counted(edges.length, "relation"), around.size === MOST_AROUND ? `; the ${MOST_AROUND} names of the newest are drawn.` : ".") : null);
}

function bubble(text, x, y, kind) {
  const width = Math.max(48, text.length * (kind.endsWith("middle") ? 9 : 8) + 26); // that in the middle is bold
  return [
    svg("rect", { x: x - width / 2, y: y - 17, width, height: 34, rx: 17, class: kind }),
    svg("text", { x, y: y + 5, class: `${kind} name` }, text),
  ];
}

// In a drawing a name stands alone: what is unseen or turns its direction is left out.
const short = (text, most) => {
  const plain = Array.from(text.replace(/[\p{Cc}\p{Cf}]/gu, ""));
  return plain.length > most ? `${plain.slice(0, most - 1).join("")}…` : plain.join("");
};
