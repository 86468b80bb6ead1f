// The frame: who is asking, which view is shown, light or dark. Views are functions, found by the address behind `#/`.

import { ApiError, described, get, identify, identity } from "./api.js";
import { showSettings, showStatistics, showWorking } from "./data.js";
import { ask, empty, field, fill, h, note, svg, tell } from "./dom.js";
import * as memory from "./memory.js";
import { showConversations, showPalace } from "./palace.js";
import * as people from "./people.js";
import { showDreams, showReview } from "./review.js";
import * as search from "./search.js";
import { showLive, showWhy } from "./why.js";

const REMEMBERED = "What is remembered";
const REASONS = "Why, and what happens";
const CARE = "In your hands";

// `needs`: a call without which the view is not there; a version that cannot answer it shows no way to it.
const VIEWS = {
  search: { title: "Search", group: REMEMBERED, show: search.show, icon: "M11 4a7 7 0 1 0 .01 0M16 16l5 5" },
  palace: { title: "Palace", group: REMEMBERED, show: showPalace, icon: "M4 21V10l8-6 8 6v11M9 21v-6h6v6" },
  conversations: { title: "Conversations", group: REMEMBERED, show: showConversations, icon: "M4 5h16v11H10l-5 4v-4H4z" },
  people: { title: "People and things", group: REMEMBERED, show: people.show, icon: "M5 8a2.5 2.5 0 1 0 .01 0M18 3.5a2.5 2.5 0 1 0 .01 0M16 15.5a2.5 2.5 0 1 0 .01 0M7.5 9.5l8-3M7 12.500l7 4.500" },
  working: { title: "Working memory", group: REMEMBERED, show: showWorking, icon: "M5 4h14v16H5zM9 9h6M9 13h4" },
  why: { title: "Why", group: REASONS, show: showWhy, icon: "M12 3a9 9 0 1 0 .01 0M9.500 9.500a2.500 2.500 0 1 1 3.500 2.300c-.7.4-1 .9-1 1.700M12 17v.01" },
  live: { title: "Live", group: REASONS, show: showLive, icon: "M3 12h4l3-7 4 14 3-7h4" },
  statistics: { title: "Statistics", group: REASONS, show: showStatistics, icon: "M5 20V11M12 20V4M19 20v-6" },
  review: { title: "Review", group: CARE, show: showReview, icon: "M12 3l8 3v6c0 5-4 8-8 9c-4-1-8-4-8-9V6zM9 12l2 2 4-4" },
  dreams: { title: "Dreams", group: CARE, show: showDreams, needs: "/v1/memory/dreams", icon: "M20 14a8 8 0 1 1-9-10a6.500 6.500 0 0 0 9 10z" },
  settings: { title: "Settings and data", group: CARE, show: showSettings, icon: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4" },
  memory: { title: "Memory", show: memory.show },
};

const main = document.getElementById("main");
let shown = null;
let current = "";

/** Show what the address names. What the last view still waits for is given up. */
async function route() {
  shown?.abort();
  shown = new AbortController();
  const { signal } = shown;
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...args] = path.split("/").map(decoded);
  const view = VIEWS[name] ?? VIEWS.search;
  mark(VIEWS[name] ? name : "search");
  document.body.classList.remove("nav-open");
  document.getElementById("menu").setAttribute("aria-expanded", "false");
  const root = h("div", { class: "view" });
  const waiting = setTimeout(() => root.isConnected || main.replaceChildren(h("p", { class: "soft", role: "status" }, "Loading…")), 250);
  try {
    const built = async (call) => (await described()).has(call); // asked by few views: the others need not wait for it
    await view.show({ root, args, query: new URLSearchParams(search ?? ""), signal, built });
    if (signal.aborted) return;
    main.dataset.view = VIEWS[name] ? name : "search";
    main.replaceChildren(root);
  } catch (error) {
    if (signal.aborted) return;
    main.dataset.view = VIEWS[name] ? name : "search";
    root.replaceChildren(h("h1", { tabindex: "-1" }, view.title), await explained(error));
    main.replaceChildren(root);
  } finally {
    clearTimeout(waiting);
  }
  const title = root.querySelector("h1");
  document.title = `${title?.textContent || view.title} · memproxy`;
  if (arrived) (root.querySelector("[data-focus]") ?? title)?.focus({ preventScroll: true });
  arrived = true;
  window.scrollTo(0, 0);
}
let arrived = false; // a page that opens takes the focus from nobody

function decoded(piece) {
  try {
    return decodeURIComponent(piece);
  } catch {
    return piece;
  }
}

/** What went wrong, in words, and what can be done about it. */
async function explained(error) {
  if (!(error instanceof ApiError)) console.error(error);
  if (error.status === 401 || (error.status === 400 && /user/i.test(`${error.param} ${error.message}`))) {
    return empty("Sign in to see memories", error.message,
      h("button", { type: "button", class: "primary", onclick: signIn }, "Sign in"));
  }
  const again = h("button", { type: "button", onclick: route }, "Try again");
  if (error.status === 404) return empty("This is not there", error.message, h("a", { href: "#/search" }, "Go to the search"));
  if (error.status === 501) return empty("This version does not do that yet", error.message);
  return empty(error.status === 503 || error.status === 0 ? "Memory does not answer just now" : "That did not work",
    error.message ?? "The page has a fault; the browser's console says more.", again);
}

// --- the frame

async function frame() {
  links(() => true);
  const calls = await described();
  if (Object.values(VIEWS).some((view) => view.needs && !calls.has(view.needs))) links((call) => calls.has(call));
}

function links(built) {
  const groups = [REMEMBERED, REASONS, CARE];
  const of = (group) => Object.entries(VIEWS).filter(([, view]) => view.group === group && (!view.needs || built(view.needs)));
  fill(document.getElementById("nav"), groups.map((group) => h("section", {},
    h("h2", {}, group),
    h("ul", {}, of(group).map(([name, view]) => h("li", {},
      h("a", { href: `#/${name}`, "data-view": name }, svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: view.icon })), view.title)))))));
  mark(current);
}

function controls() {
  const menu = document.getElementById("menu");
  menu.addEventListener("click", () => {
    menu.setAttribute("aria-expanded", String(document.body.classList.toggle("nav-open")));
  });
  document.getElementById("skip").addEventListener("click", () => main.focus());
  document.getElementById("who").addEventListener("click", signIn);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, dialog");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      const box = document.querySelector("main input[type=search]");
      if (box) box.focus();
      else location.hash = "#/search";
    }
  });
  themes();
  who();
}

function mark(name) {
  current = name;
  for (const one of document.querySelectorAll("#nav a")) {
    if (one.dataset.view === name) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
}

function who(user) {
  const { key, user: named, project, agent } = identity();
  const place = [project && `project ${project}`, agent && `agent ${agent}`].filter(Boolean).join(", ");
  const button = document.getElementById("who");
  fill(button,
    h("span", { class: "who-name" }, h("bdi", {}, named || user || (key ? "signed in" : "no key"))),
    place ? h("span", { class: "soft" }, h("bdi", {}, place)) : null,
    key || named ? null : h("span", { class: "soft" }, "· sign in"));
  button.setAttribute("aria-label", `Whose memory: ${named || user || (key ? "the key's user" : "nobody named")}${place ? `, ${place}` : ""}. ${key || named ? "Change" : "Sign in"}`);
}

/** Ask for a key, and whose memory is meant. The key stays in this tab, and is sent to this server alone. */
async function signIn() {
  const { key = "", user = "", project = "", agent = "" } = identity();
  const input = (name, value, more = {}) => h("input", { name, value, autocomplete: "off", spellcheck: "false", maxlength: name === "key" ? 8192 : 256, ...more });
  const values = await ask({
    title: "Whose memory?",
    action: "Open",
    body: [
      note("Memories belong to the key that your application sends. Type the same one; it stays in this tab and goes to this server only."),
      field("Key", input("key", key, { type: "password" }), "Empty on your own machine, if your applications send none."),
      field("User", input("user", user), "Who the memories are about, if the key may act for several."),
      h("details", { open: Boolean(project || agent) }, h("summary", {}, "Project or agent"),
        field("Project", input("project", project)), field("Agent", input("agent", agent))),
      key ? h("p", {}, h("button", { type: "button", class: "small", onclick: (event) => { identify({}); event.target.closest("dialog").close(); changed(); } }, "Forget the key")) : null,
    ],
    check: async (as) => { await get("/settings", {}, undefined, trimmed(as)); },
  });
  if (!values) return;
  identify(trimmed(values));
  tell("Signed in.");
  changed();
}

const trimmed = (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.trim()]));

function changed() {
  greet();
  route();
}

/** Say whose memory this is, as the server sees it. */
async function greet() {
  who();
  try {
    who((await get("/settings")).user_id);
  } catch { /* the view says what is wrong */ }
}

function themes() {
  const button = document.getElementById("theme");
  const ways = { auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
  const names = Object.keys(ways);
  let now = localStorage.getItem("memproxy.theme");
  if (!ways[now]) now = "auto";
  const draw = () => {
    document.documentElement.dataset.theme = now;
    button.replaceChildren(h("span", { "aria-hidden": "true" }, ways[now][0]));
    button.setAttribute("aria-label", `Colours: ${ways[now][1]}. Change`);
    button.title = `Colours: ${ways[now][1]}`;
  };
  button.addEventListener("click", () => {
    now = names[(names.indexOf(now) + 1) % names.length];
    localStorage.setItem("memproxy.theme", now);
    draw();
  });
  draw();
}

controls();
frame();
greet();
window.addEventListener("hashchange", route);
route();
