// Making elements. Every text goes through a text node: nothing here, or anywhere on this page, makes markup of a text.

const PROPERTIES = new Set(["value", "checked", "selected", "disabled", "open", "hidden"]);

/** An element: `on…` properties are listeners, the rest attributes; children are nodes, texts, or lists of them. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...solid(children));
  return node;
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...solid(children));
  return node;
}

/** Add these children to what a node holds. */
export const add = (node, ...children) => node.append(...solid(children));

/** Put these children in the place of what a node holds. */
export const fill = (node, ...children) => node.replaceChildren(...solid(children));

const solid = (children) => children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false);

// Characters that show nothing, or turn the text around them: they are drawn as what they are. The two joiners stay
// where scripts and emoji need them: behind a letter that joins, a mark or a pictograph.
const UNSEEN = new RegExp(
  "[\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164" +
  "\\ufeff\\uffa0\\u{e0000}-\\u{e007f}]|" +
  "(?<![\\p{M}\\p{Extended_Pictographic}\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Mongolian}\\p{Script=Nko}])" +
  "[\\u200c\\u200d]|[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]", "gu");

/** Somebody else's words: isolated from the text around them, unseen characters made visible, long ones cut. */
export function said(text, { most = Infinity, tag = "bdi", ...props } = {}) {
  const whole = String(text ?? "");
  const shown = whole.length > most ? `${whole.slice(0, most).replace(/[\ud800-\udbff]$/, "")}…` : whole;
  const node = h(tag, { dir: "auto", ...props, class: `said ${props.class ?? ""}`.trim() });
  let at = 0;
  for (const found of shown.matchAll(UNSEEN)) {
    const code = `U+${found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    node.append(shown.slice(at, found.index), h("span", { class: "unseen-mark", title: `unseen character ${code}` }, code));
    at = found.index + found[0].length;
  }
  node.append(shown.slice(at));
  return node;
}

/** A long text with a button that shows all of it. */
export function saidAtLength(text, { most = 4000, ...props } = {}) {
  const box = h("div", {});
  const draw = (limit) => {
    box.replaceChildren(said(text, { most: limit, tag: "div", ...props }));
    if (text.length > limit) {
      const more = `Show all ${number(text.length)} characters`;
      box.append(h("button", { type: "button", class: "small", onclick: () => draw(Infinity) }, more));
    }
  };
  draw(most);
  return box;
}

// --- numbers, times, words

const NUMBERS = new Intl.NumberFormat("en");
export const number = (value) => NUMBERS.format(value);
export const counted = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const EXACT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** A time as people say it, with the exact one behind it. */
export function time(iso) {
  if (!iso) return h("span", { class: "soft" }, "–");
  const at = new Date(iso);
  return h("time", { datetime: iso, title: EXACT.format(at) }, inWords(at));
}

function inWords(at) {
  const minutes = (at - Date.now()) / 60000;
  if (Math.abs(minutes) < 1) return "just now";
  if (Math.abs(minutes) < 60) return AGO.format(Math.round(minutes), "minute");
  if (Math.abs(minutes) < 60 * 20) return AGO.format(Math.round(minutes / 60), "hour");
  return Math.abs(minutes) < 60 * 24 * 6 ? `${DAY.format(at)}, ${CLOCK.format(at)}` : DAY.format(at);
}

/** A day, or (`exact`) a minute of it, for axes. */
export const moment = (at, exact) => (exact ? `${DAY.format(at)}, ${CLOCK.format(at)}` : DAY.format(at));

/** A word of the API as a person reads it: `lives_in` is "lives in". */
export const words = (name) => String(name ?? "").replaceAll("_", " ");

export const KINDS = {
  semantic: "Fact", procedural: "How-to", episodic: "Episode", reflective: "Insight", turn: "Message",
};

// --- pieces that several views are made of

export const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);
export const link = (to, ...children) => h("a", { href: to }, ...children);
export const note = (text, ...more) => h("p", { class: "note" }, text, ...more);

/** The way to a conversation. Clients name them, some at length. */
export const sessionLink = (id, most = 28) => h("a", { href: `#/conversations/${encodeURIComponent(id)}`, title: id }, said(id, { most }));

/** A heading with what the view is for, and its buttons. */
export function heading(title, about, ...actions) {
  return h("header", { class: "heading" },
    h("div", {}, h("h1", { tabindex: "-1" }, title), about ? h("p", { class: "lead" }, about) : null),
    actions.length ? h("div", { class: "actions" }, actions) : null);
}

/** A share of one as a small bar; the number beside it says the same. */
export function bar(share, { mark } = {}) {
  const fill = h("span", { class: "fill" });
  fill.style.inlineSize = `${Math.max(0, Math.min(1, share)) * 100}%`;
  const drawn = h("span", { class: "bar", "aria-hidden": "true" }, fill);
  if (mark !== undefined) {
    const line = h("span", { class: "mark" });
    line.style.insetInlineStart = `${mark * 100}%`;
    drawn.append(line);
  }
  return drawn;
}

/** Terms with what is known of each; those without a value are left out. */
export function facts(...pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return h("dl", { class: "facts" }, known.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}

/** What is shown where nothing is. */
export function empty(title, ...more) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), ...more.map((one) => h("p", {}, one)));
}

/** A table; each row is a list of cells. On a narrow screen one of many columns has a row's cells below each other, each
 * with its column's name; others scroll within themselves. */
export function table(caption, columns, rows) {
  return h("div", { class: columns.length > FEW_COLUMNS ? "scroll stacks" : "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((one, place) => h("td", { "data-column": columns[place] }, h("div", {}, one))))))));
}
const FEW_COLUMNS = 4;

/** A list that grows by pages, as the reader comes to its end or asks for more. */
export function paged(load, row, { whenEmpty, label }) {
  const list = h("ol", { class: "cards", "aria-label": label });
  const more = h("button", { type: "button", hidden: true }, "Show more");
  const box = h("div", { class: "paged" }, list, more);
  let cursor = null;
  let busy = false;
  async function next() {
    if (busy) return;
    busy = true;
    more.setAttribute("aria-busy", "true");
    try {
      const page = await load(cursor);
      list.append(...page.data.map((one) => h("li", {}, row(one))));
      if (!list.childElementCount && whenEmpty) box.replaceChildren(whenEmpty());
      cursor = page.next_cursor;
      more.hidden = !cursor;
    } finally {
      busy = false;
      more.removeAttribute("aria-busy");
    }
  }
  more.addEventListener("click", next);
  const watcher = new IntersectionObserver((seen) => {
    if (seen.some((one) => one.isIntersecting) && cursor) next().catch(() => {});
  }, { rootMargin: "400px" });
  watcher.observe(more);
  return { box, first: next };
}

// --- talking with the person

/** Ask before something is done: resolves with the form's values, or null. `body` may hold inputs with names; `action`
 * is what the button says, or tells it from the values. While `check` is at work nothing can be pressed twice. */
export function ask({ title, body = [], action, danger = false, check = null }) {
  return new Promise((resolve) => {
    const problem = h("p", { class: "problem", role: "alert", hidden: true });
    const go = h("button", { type: "submit", class: danger ? "danger" : "primary" });
    const form = h("form", { novalidate: true },
      h("h2", {}, title), body, problem,
      h("div", { class: "buttons" }, h("button", { type: "button", value: false, onclick: () => close(null) }, "Cancel"), go));
    const named = () => { go.textContent = typeof action === "string" ? action : action(Object.fromEntries(new FormData(form))); };
    named();
    form.addEventListener("input", named);
    const dialog = h("dialog", { "aria-label": title }, form);
    let answer = null;
    const close = (value) => { answer = value; dialog.close(); };
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (go.getAttribute("aria-busy")) return;
      const values = Object.fromEntries(new FormData(form));
      const slow = setTimeout(() => { go.textContent = "One moment…"; }, 300);
      go.setAttribute("aria-busy", "true");
      problem.hidden = true;
      try {
        await check?.(values);
        close(values);
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
      } finally {
        clearTimeout(slow);
        go.removeAttribute("aria-busy");
        named();
      }
    });
    dialog.addEventListener("close", () => { dialog.remove(); resolve(answer); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A labelled input, select or textarea; a hint describes it. */
export function field(label, input, hint) {
  input.id = `field-${(fields += 1)}`;
  if (hint) input.setAttribute("aria-describedby", `${input.id}-hint`);
  return h("div", { class: "field" },
    h("label", { for: input.id }, label), input, hint ? h("p", { class: "hint", id: `${input.id}-hint` }, hint) : null);
}
let fields = 0;

export function choice(name, options, chosen, props = {}) {
  return h("select", { name, ...props },
    options.map(([value, text]) => h("option", { value, selected: value === (chosen ?? "") }, text)));
}

/** Say what was done; with `undo`, for a while it can be taken back. */
export function tell(text, { undo, bad = false } = {}) {
  const box = document.getElementById("toasts");
  const toast = h("div", { class: `toast ${bad ? "bad" : ""}` }, h("span", {}, text));
  let timer = 0;
  const gone = () => { clearTimeout(timer); toast.remove(); };
  const wait = () => { clearTimeout(timer); timer = setTimeout(gone, undo || bad ? 20000 : 6000); };
  if (undo) {
    toast.append(h("button", {
      type: "button",
      onclick: async () => {
        gone();
        try { await undo(); } catch (error) { tell(error.message, { bad: true }); }
      },
    }, "Undo"));
  }
  toast.append(h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: gone }, "✕"));
  toast.addEventListener("pointerenter", () => clearTimeout(timer));
  toast.addEventListener("pointerleave", wait);
  toast.addEventListener("focusin", () => clearTimeout(timer));
  toast.addEventListener("focusout", wait);
  box.append(toast);
  wait();
}

/** Give the person a file. */
export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  const anchor = h("a", { href: address, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
