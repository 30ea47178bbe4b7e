// The page: which view is shown, what the keyboard does, messages and questions.

import { get } from "./api.js";
import { h, show } from "./dom.js";
import { actions } from "./actions.js";
import { letter, letters } from "./letters.js";
import { run } from "./run.js";
import { runs } from "./runs.js";
import { count } from "./words.js";
import { workflows } from "./workflows.js";

/// How long a message stays, in milliseconds.
const TOLD = 8_000;
const SHORTCUTS = [
  ["/", "Search runs"],
  ["j  k", "Next, previous row"],
  ["Enter", "Open it"],
  ["n  p", "Older, newer page"],
  ["g r", "Runs"],
  ["g l", "Dead letters"],
  ["g a", "Actions"],
  ["g w", "Workflows"],
  ["r", "Look again"],
  ["Esc", "Close, or back to the list"],
  ["?", "This list"],
];

const main = document.getElementById("main");
let view = null;
let shown = null;
let stop = new AbortController();

const app = {
  /// Goes to a view with this query.
  go(name, query) {
    const hash = `#/${name}${app.query(query)}`;
    if (hash !== location.hash) location.hash = hash;
  },
  query(query) {
    const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
    return given.length ? `?${new URLSearchParams(given)}` : "";
  },
  /// Says for a while what was done, or what went wrong.
  tell(text, bad) {
    const place = document.getElementById("told");
    const message = h("p", { class: bad ? "bad" : null }, text);
    place.append(message);
    setTimeout(() => message.remove(), TOLD);
    while (place.children.length > 3) place.firstChild.remove();
  },
  /// Says how fresh what is shown is.
  live(how) {
    const words = { live: "Live", waiting: "Reconnecting", done: "Ended" };
    const place = document.getElementById("live");
    if (place.dataset.how === how) return;
    place.dataset.how = how;
    show(place, h("span", { class: "dot", "aria-hidden": "true" }), h("span", {}, words[how] ?? ""));
  },
  waiting(n) {
    const place = document.getElementById("waiting");
    place.textContent = n > 999 ? "999+" : count(n);
    place.title = `${count(n)} wait`;
    place.hidden = n === 0;
  },
  named() {
    document.title = `${shown.title()} – Retrial`;
  },
  refused(error) {
    return h("div", { class: "callout bad", role: "alert", "data-key": "refused" },
      h("b", {}, error.problem?.title ?? "Something went wrong"), error.problem?.detail || !error.problem ? `: ${error.message}` : null, " ",
      h("button", { type: "button", "data-do": "again" }, "Try again"));
  },
  /// Asks whether it shall be so; gives what was entered, or nothing.
  confirm({ title, word, reason, bad }) {
    return new Promise((done) => {
      const field = reason ? h("input", { id: "reason", type: "text", maxlength: 500, autocomplete: "off" }) : null;
      const dialog = h("dialog", { "aria-labelledby": "confirm-title" },
        h("form", {},
          h("h2", { id: "confirm-title" }, title),
          reason ? h("label", { class: "field" }, h("span", {}, "Reason, for the record"), field) : null,
          h("div", { class: "buttons" },
            h("button", { type: "button", id: "confirm-no" }, "No"),
            h("button", { class: bad ? "bad main" : "main", id: "confirm-yes" }, word))));
      let given = null;
      dialog.querySelector("#confirm-no").addEventListener("click", () => dialog.close());
      dialog.querySelector("form").addEventListener("submit", (event) => {
        event.preventDefault();
        given = field?.value.trim() ? { reason: field.value.trim() } : {};
        dialog.close();
      });
      dialog.addEventListener("close", () => {
        dialog.remove();
        done(given);
      });
      document.body.append(dialog);
      dialog.showModal();
    });
  },
};

const VIEWS = { runs, run, letters, letter, actions, workflows };

function route() {
  const [path, text] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const query = Object.fromEntries(new URLSearchParams(text ?? ""));
  if (name === "runs" && rest.length) return { view: "run", tab: "runs", rest, query };
  if (name === "letters" && rest.length === 3) return { view: "letter", tab: "letters", rest, query };
  if (["letters", "actions", "workflows"].includes(name)) return { view: name, tab: name, rest, query };
  return { view: "runs", tab: "runs", rest: [], query };
}

function turn() {
  const to = route();
  const same = view === to.view && !["run", "letter"].includes(view);
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === to.tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!same) {
    stop.abort();
    stop = new AbortController();
    const root = h("div", { class: `view ${to.view}` });
    main.replaceChildren(root);
    if (view !== null) {
      main.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    view = to.view;
    shown = VIEWS[to.view](root, app, stop.signal);
  }
  shown.open(to);
  app.named();
}

let help = null;

function show_help() {
  if (help) return help.close();
  help = h("dialog", { "aria-labelledby": "help-title" },
    h("form", {}, h("h2", { id: "help-title" }, "Shortcuts"),
      h("dl", { class: "shortcuts" }, SHORTCUTS.map(([keys, what]) =>
        h("div", {}, h("dt", {}, keys.split(" ").filter(Boolean).map((key) => h("kbd", {}, key))), h("dd", {}, what)))),
      h("div", { class: "buttons" }, h("button", { class: "main" }, "Close"))));
  help.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    help.close();
  });
  help.addEventListener("close", () => {
    help.remove();
    help = null;
  });
  document.body.append(help);
  help.showModal();
}

/// The first key of a shortcut of two.
let first = null;

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.matches?.("input, textarea, select");
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) return escape(event, typing);
  if (typing || (document.querySelector("dialog[open]") && event.key !== "?")) return;
  const before = first;
  first = null;
  const to = before === "g" && { r: "runs", l: "letters", a: "actions", w: "workflows" }[event.key];
  const act = to ? () => { location.hash = `#/${to}`; } : {
    g: () => { first = "g"; },
    "/": search,
    "?": show_help,
    j: () => move(1),
    k: () => move(-1),
    r: () => document.querySelector("[data-do=again]")?.click(),
    ...shown?.keys,
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function search() {
  const field = document.getElementById("search");
  if (field) {
    field.focus();
    field.select();
  } else {
    location.hash = "#/runs";
    setTimeout(() => document.getElementById("search")?.focus(), 0);
  }
}

function escape(event, typing) {
  if (typing) {
    event.preventDefault();
    event.target.blur();
    document.querySelector("a.row")?.focus();
  } else if (["run", "letter"].includes(view)) {
    location.hash = view === "run" ? "#/runs" : "#/letters";
  }
}

function move(by) {
  const rows = [...document.querySelectorAll("a.row")];
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", keys);
document.addEventListener("click", (event) => {
  const what = event.target.closest("[data-do]")?.dataset.do;
  if (what === "help") show_help();
  if (what === "skip") {
    event.preventDefault();
    main.focus();
  }
});
addEventListener("hashchange", turn);
turn();
get("/v1/tally").then((tally) => app.waiting(tally.letters), () => {});
