// Dead letters: tasks that failed for good, to be tried again or put aside.

import { get, post } from "./api.js";
import { clicks, h, settle, show } from "./dom.js";
import { together } from "./together.js";
import { failure } from "./timeline.js";
import { ago, many, now, phase, short, store_time } from "./words.js";

const PAGE = 50;
/// How long ago a task may have failed, in hours.
const SINCE = [["", "any time"], ["1", "the last hour"], ["24", "the last day"], ["168", "the last week"]];
const KNOWN = ["workflow", "action", "code", "within", "all", "after"];
/// How often the list is looked at again, in milliseconds.
const LOOK = 3_000;

export function letters(root, app, signal) {
  let query = {};
  let page = null;
  let refusal = null;
  let before = [];
  let asked = 0;

  clicks(root, {
    again: () => load(),
    all: () => go({ all: query.all ? null : "true", after: null }),
    older: () => {
      if (!page?.next) return;
      before.push(query.after ?? null);
      app.go("letters", { ...query, after: page.next });
    },
    newer: () => query.after && app.go("letters", { ...query, after: before.pop() ?? null }),
    redrive: (element) => redrive(element.dataset.letter, app, load),
    discard: (element) => discard(element.dataset.letter, app, load),
    "redrive-all": () => all("Redrive", "redriven", false, (letter) => post(`/v1/letters/${letter.letter}/redrive`)),
    "discard-all": () => all("Discard", "discarded", true, (letter, given) => post(`/v1/letters/${letter.letter}/discard`, given)),
  }, signal);
  const filter = settle(250, (name, text) => go({ [name]: text.trim() || null, after: null }));
  root.addEventListener("change", (event) => {
    if (event.target.id === "within") go({ within: event.target.value || null, after: null });
  }, { signal });
  root.addEventListener("input", (event) => {
    if (event.target.dataset.filter) filter(event.target.dataset.filter, event.target.value);
  }, { signal });

  function go(change) {
    before = [];
    app.go("letters", { ...query, ...change });
  }

  function open(route) {
    query = Object.fromEntries(KNOWN.filter((name) => route.query[name]).map((name) => [name, route.query[name]]));
    load();
  }

  /// What the filters select, wherever the page begins.
  function selected() {
    const { all, within, after, ...rest } = query;
    const since = Number(within) > 0 ? { since: new Date(now() - within * 3_600_000).toISOString() } : {};
    return { ...rest, ...since };
  }

  /// To everything that waits of what the filters select.
  async function all(word, done, bad, act) {
    await together(app, signal, {
      path: "/v1/letters", parameters: { ...selected(), waiting: "true" }, list: "letters", place: "after",
      one: "letter", more: "letters", word, done, reason: bad, bad, act,
    });
    load();
  }

  async function load() {
    const mine = ++asked;
    const { all, after } = query;
    const parameters = new URLSearchParams({ ...selected(), ...(all ? {} : { waiting: "true" }), ...(after ? { after } : {}), limit: String(PAGE) });
    try {
      const found = await get(`/v1/letters?${parameters}`, signal);
      if (mine !== asked) return;
      store_time(found.at);
      [page, refusal] = [found, null];
      app.live("live");
    } catch (error) {
      if (signal.aborted || mine !== asked) return;
      refusal = error;
      app.live("waiting");
    }
    draw();
  }

  function draw() {
    if (!signal.aborted) show(root, filters(), refusal ? app.refused(refusal) : list(), pages());
  }

  function filters() {
    const field = (name, label) => h("label", { class: "field" }, h("span", {}, label),
      h("input", { type: "text", id: `filter-${name}`, "data-keep": "", "data-filter": name, value: query[name], maxlength: 200, autocomplete: "off", spellcheck: "false" }));
    return h("section", { class: "filters", "aria-label": "Which letters" },
      h("h1", { class: "unseen" }, "Dead letters"),
      h("button", { type: "button", class: "filter", "data-do": "all", "aria-pressed": String(!query.all) }, "Only those that wait"),
      field("workflow", "Workflow"), field("action", "Action"), field("code", "Code"),
      h("label", { class: "field" }, h("span", {}, "Failed within"),
        h("select", { id: "within", "data-keep": "" }, SINCE.map(([hours, name]) =>
          h("option", { value: hours, selected: (query.within ?? "") === hours }, name)))),
      page?.letters.some((letter) => letter.status === "waiting") ? h("span", { class: "buttons", "data-key": "together" },
        h("button", { type: "button", "data-do": "redrive-all" }, "Redrive all"),
        h("button", { type: "button", class: "quiet", "data-do": "discard-all" }, "Discard all")) : null);
  }

  function list() {
    if (!page) return h("p", { class: "empty" }, "Asking for dead letters …");
    const damaged = page.damaged?.length
      ? h("p", { class: "callout bad", role: "alert" }, `${many(page.damaged.length, "letter is", "letters are")} damaged: ${page.damaged.slice(0, 5).join(", ")}`) : null;
    if (!page.letters.length) {
      return [damaged, h("p", { class: "empty", "data-key": "empty" }, query.all || query.workflow || query.action || query.code || query.within ? "No dead letter is like that." : "No dead letter waits.")];
    }
    const head = (name) => h("th", { scope: "col" }, name);
    return [damaged, h("table", { class: "list letters", "data-key": "letters" },
      h("thead", {}, h("tr", {}, ["Status", "Action", "Code", "Message", "Workflow", "Run", "Failed", ""].map(head))),
      h("tbody", {}, page.letters.map(row)))];
  }

  function row(letter) {
    const run = letter.letter.split("/")[0];
    return h("tr", { "data-key": letter.letter },
      h("td", { class: "c-phase" }, phase(letter.status)),
      h("td", { class: "c-name" }, h("a", { class: "row", href: `#/letters/${letter.letter}` }, letter.action)),
      h("td", { class: "c-code" }, h("code", { class: "code" }, letter.code)),
      h("td", { class: "c-message", title: letter.message }, letter.message),
      h("td", { class: "c-flow" }, letter.workflow),
      h("td", { class: "c-id" }, h("a", { href: `#/runs/${run}`, "aria-label": `Run ${run}` }, short(run))),
      h("td", { class: "c-when" }, ago(letter.failed_at)),
      h("td", { class: "c-do" }, decided(letter)));
  }

  function pages() {
    if (!page || (!page.next && !query.after)) return null;
    return h("nav", { class: "pages", "aria-label": "Pages" },
      h("button", { type: "button", "data-do": "newer", disabled: !query.after }, "Back"),
      h("button", { type: "button", "data-do": "older", disabled: !page.next }, "More"));
  }

  const looking = setInterval(() => document.hidden || load(), LOOK);
  signal.addEventListener("abort", () => clearInterval(looking));
  return { title: () => "Dead letters", open, keys: {} };
}

/// The commands for a letter, or what was done with it.
function decided(letter) {
  if (letter.status === "redriven") return h("a", { href: `#/runs/${letter.redriven_by}` }, "as run ", short(letter.redriven_by));
  if (letter.status === "discarded") return h("span", { class: "dim because" }, letter.discarded_because);
  return h("span", { class: "buttons" },
    h("button", { type: "button", "data-do": "redrive", "data-letter": letter.letter, "aria-label": `Redrive ${letter.action}` }, "Redrive"),
    h("button", { type: "button", class: "quiet", "data-do": "discard", "data-letter": letter.letter, "aria-label": `Discard ${letter.action}` }, "Discard"));
}

async function redrive(id, app, after) {
  try {
    const { run } = await post(`/v1/letters/${id}/redrive`);
    app.tell(["Redriven as run ", h("a", { href: `#/runs/${run}` }, short(run)), "."]);
  } catch (error) {
    app.tell(error.message, true);
  }
  after();
}

async function discard(id, app, after) {
  const given = await app.confirm({ title: "Put this letter aside for good?", word: "Discard", reason: true, bad: true });
  if (!given) return;
  try {
    await post(`/v1/letters/${id}/discard`, given);
    app.tell("Discarded.");
  } catch (error) {
    app.tell(error.message, true);
  }
  after();
}

/// One letter: `#/letters/RUN/STEP/ITEM`.
export function letter(root, app, signal) {
  let id = null;
  let found = null;
  let refusal = null;
  /// The payload as it is stored, once it was asked for.
  let revealed = null;

  clicks(root, {
    again: load,
    reveal,
    redrive: () => redrive(id, app, load),
    discard: () => discard(id, app, load),
  }, signal);

  function open(route) {
    id = route.rest.map(encodeURIComponent).join("/");
    load();
  }

  async function load() {
    try {
      [found, refusal] = [await get(`/v1/letters/${id}`, signal), null];
      app.live("live");
    } catch (error) {
      if (signal.aborted) return;
      refusal = error;
    }
    draw();
  }

  async function reveal() {
    try {
      revealed = await get(`/v1/letters/${id}/payload`, signal);
    } catch (error) {
      if (signal.aborted) return;
      app.tell(error.message, true);
    }
    draw();
  }

  function draw() {
    if (signal.aborted) return;
    const back = h("p", { class: "back" }, h("a", { href: "#/letters" }, "← Dead letters"));
    if (!found) return show(root, back, refusal && app.refused(refusal));
    app.named();
    const run = found.letter.split("/")[0];
    const fact = (name, value) => value && h("div", {}, h("dt", {}, name), h("dd", {}, value));
    show(root, back,
      h("header", { class: "run-head" },
        h("div", { class: "title" }, h("h1", {}, `${found.step} · ${found.action}`), phase(found.status)),
        decided(found),
        h("dl", { class: "facts" },
          fact("Workflow", found.workflow),
          fact("Run", h("a", { href: `#/runs/${run}` }, h("code", {}, run))),
          fact("Failed", ago(found.failed_at)),
          fact("Attempts", String(found.attempts)),
          fact("Given up", found.gave_up),
          fact("Redrives", found.redrives && h("a", { href: `#/letters/${found.redrives}` }, found.redrives)))),
      refusal ? app.refused(refusal) : null,
      h("section", { class: "callout bad" }, h("h2", {}, "Error"), failure(found.error)),
      found.first_error ? h("section", {}, h("h2", {}, "First failure"), failure(found.first_error)) : null,
      found.last_error ? h("section", {}, h("h2", {}, "Last failure"), failure(found.last_error)) : null,
      h("section", {}, h("h2", {}, revealed ? "Arguments" : "Arguments, masked"), payload()));
  }

  function payload() {
    if (!found.payload_kept) return h("p", { class: "dim" }, "They were too large or too deeply nested to keep.");
    return [
      h("pre", { tabindex: 0 }, JSON.stringify((revealed ?? found).payload, null, 2)),
      revealed ? null : h("p", { class: "dim" }, "The audit trail notes who reveals them. ", h("button", { type: "button", "data-do": "reveal" }, "Reveal")),
    ];
  }

  const looking = setInterval(() => document.hidden || load(), LOOK);
  signal.addEventListener("abort", () => clearInterval(looking));
  return { title: () => (found ? `${found.action} · ${found.code}` : "Dead letter"), open, keys: { r: load } };
}
