// The frame: who is asking, which view is shown, light or dark. Views are functions, found by the address behind `#/`.

import { ApiError, get, identify, identity } from "./api.js";
import { ask, empty, field, fill, h, note, tell } from "./dom.js";
import * as memory from "./memory.js";
import * as search from "./search.js";

const VIEWS = {
  search: { title: "Search", icon: "⌕", group: "What is remembered", show: search.show },
  memory: { title: "Memory", show: memory.show },
};

const main = document.getElementById("main");
let shown = null;

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
    await view.show({ root, args, query: new URLSearchParams(search ?? ""), signal });
    if (signal.aborted) return;
    main.dataset.view = VIEWS[name] ? name : "search";
    main.replaceChildren(root);
  } catch (error) {
    if (signal.aborted) return;
    main.dataset.view = VIEWS[name] ? name : "search";
    main.replaceChildren(root);
    root.replaceChildren(h("h1", { tabindex: "-1" }, view.title), await explained(error));
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

function frame() {
  const nav = document.getElementById("nav");
  const groups = Map.groupBy(Object.entries(VIEWS).filter(([, view]) => view.group), ([, view]) => view.group);
  nav.replaceChildren(...Array.from(groups, ([group, views]) => h("section", {},
    h("h2", {}, group),
    h("ul", {}, views.map(([name, view]) => h("li", {},
      h("a", { href: `#/${name}`, "data-view": name }, h("span", { class: "icon", "aria-hidden": "true" }, view.icon), view.title)))))));
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
    place ? h("span", { class: "soft" }, h("bdi", {}, place)) : null);
  button.setAttribute("aria-label", `Whose memory: ${named || user || (key ? "the key's user" : "nobody named")}${place ? `, ${place}` : ""}. Change`);
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

frame();
greet();
window.addEventListener("hashchange", route);
route();
