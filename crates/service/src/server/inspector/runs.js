// The runs, newest first: filtered, searched, in pages of fifty, as they are now.

import { follow, get, post } from "./api.js";
import { clicks, h, settle, show } from "./dom.js";
import { together } from "./together.js";
import { ago, count, length, many, now, phase, short, store_time } from "./words.js";

const PAGE = 50;
const PHASES = ["running", "paused", "failed", "completed", "cancelled", "deactivated"];
const KNOWN = ["phase", "workflow", "q", "letters", "key", "code", "since", "until", "before"];

/// The filters that stand for themselves: whoever set one can take it away.
const NAMED = [["workflow", "Workflow"], ["key", "Key"], ["code", "Error"], ["since", "Since"], ["until", "Before"]];

export function runs(root, app, signal) {
  let query = {};
  let page = null;
  let tally = null;
  let refusal = null;
  let seen = new Set();
  let stream = new AbortController();
  /// The places of the pages before this one, as long as one goes on from the newest.
  let newer = [];

  clicks(root, {
    phase: (element) => go({ phase: element.dataset.phase || null, letters: null, before: null }),
    letters: () => go({ letters: query.letters ? null : "true", phase: null, before: null }),
    without: (element) => go({ [element.dataset.filter]: null, before: null }),
    older: () => older(),
    newer: () => fewer(),
    again: () => open(query),
    "resume-all": () => together(app, signal, {
      path: "/v1/runs", parameters: selected(), list: "runs", place: "before",
      one: "run", more: "runs", word: "Resume", done: "resumed", act: (run) => post(`/v1/runs/${run.run}/resume`),
    }),
  }, signal);
  const search = settle(150, (text) => go({ q: text.trim() || null, before: null }));
  root.addEventListener("input", (event) => {
    if (event.target.id === "search") search(event.target.value);
  }, { signal });

  function go(change) {
    const next = { ...query, ...change };
    if ("before" in change && change.before === null) newer = [];
    app.go("runs", next);
  }

  function older() {
    if (!page?.next) return;
    newer.push(query.before ?? null);
    app.go("runs", { ...query, before: page.next });
  }

  function fewer() {
    if (!query.before) return;
    app.go("runs", { ...query, before: newer.pop() ?? null });
  }

  /// What the filters select, wherever the page begins. No id and no workflow's name has a `=`.
  function selected() {
    const { before, q, ...rest } = query;
    return q ? { ...rest, [q.includes("=") ? "field" : "q"]: q } : rest;
  }

  async function open(asked) {
    query = Object.fromEntries(KNOWN.filter((name) => asked[name]).map((name) => [name, asked[name]]));
    stream.abort();
    stream = new AbortController();
    const mine = AbortSignal.any([stream.signal, signal]);
    seen = new Set();
    const parameters = new URLSearchParams({ ...selected(), ...(query.before ? { before: query.before } : {}), limit: String(PAGE) });
    const field = root.querySelector("#search");
    if (field && field !== document.activeElement) field.value = query.q ?? "";
    try {
      await follow(`/v1/runs/watch?${parameters}`, {
        signal: mine,
        live: app.live,
        on: (event, data) => {
          if (event !== "page") return;
          store_time(data.at);
          [page, refusal] = [data, null];
          draw();
          count_all();
        },
      });
    } catch (error) {
      if (mine.aborted) return;
      [page, refusal] = [null, error];
      draw();
    }
  }

  async function count_all() {
    try {
      tally = await get("/v1/tally", signal);
      app.waiting(tally.letters);
      draw();
    } catch { /* The page stands without its numbers. */ }
  }

  function draw() {
    if (signal.aborted) return;
    show(root, filters(), refusal ? app.refused(refusal) : table(), pages());
    if (page) seen = new Set(page.runs.map((run) => run.run));
  }

  function filters() {
    const all = tally && Object.values(tally.phases).reduce((sum, n) => sum + n, 0);
    const chip = (label, on, data, n) =>
      h("button", { type: "button", class: "filter", "aria-pressed": String(Boolean(on)), ...data },
        label, n === undefined || n === null ? null : h("span", { class: "n" }, count(n)));
    return h("section", { class: "filters", "aria-label": "Which runs" },
      h("h1", { class: "unseen" }, "Runs"),
      h("label", { class: "search" },
        h("span", { class: "unseen" }, "Search"),
        h("input", {
          id: "search", type: "search", "data-keep": "", value: query.q, autocomplete: "off",
          spellcheck: "false", maxlength: 200, placeholder: "Run id, workflow or field=value", "aria-keyshortcuts": "/",
        }),
        h("kbd", { "aria-hidden": "true" }, "/")),
      h("div", { class: "chips", role: "group", "aria-label": "Phase" },
        chip("All", !query.phase && !query.letters, { "data-do": "phase", "data-phase": "" }, all),
        PHASES.map((name) =>
          chip(phase(name), query.phase === name, { "data-do": "phase", "data-phase": name, "data-key": name },
            tally ? tally.phases[name] ?? 0 : null)),
        chip("With dead letters", query.letters, { "data-do": "letters" })),
      NAMED.filter(([name]) => query[name]).map(([name, label]) =>
        h("button", {
          type: "button", class: "filter", "data-do": "without", "data-filter": name, "data-key": name,
          "aria-pressed": "true",
        }, `${label} ${query[name]} ×`)),
      query.phase === "paused" && page?.runs.length
        ? h("button", { type: "button", "data-do": "resume-all", "data-key": "together" }, "Resume all") : null);
  }

  function table() {
    if (!page) return h("p", { class: "empty" }, "Asking for runs …");
    const damaged = page.damaged.length
      ? h("p", { class: "callout bad", role: "alert" },
        `The record of ${page.damaged.length === 1 ? "a run is" : `${page.damaged.length} runs are`} damaged: `,
        page.damaged.slice(0, 5).join(", "), page.damaged.length > 5 ? " …" : "")
      : null;
    if (!page.runs.length) {
      const any = Object.keys(query).length > 0;
      return [damaged, h("div", { class: "empty", "data-key": "empty" },
        h("p", {}, any ? "No run is like that." : "No runs yet."),
        any ? h("p", {}, h("a", { href: "#/runs" }, "Show all runs"))
          : h("p", { class: "dim" }, "Submit one with POST /v1/runs, or start one of a workflow under Workflows."))];
    }
    const head = (name, extra) => h("th", { scope: "col", class: extra }, name);
    return [damaged, h("table", { class: "list runs", "data-key": "runs" },
      h("thead", {}, h("tr", {}, head("Phase"), head("Workflow"), head("Run"), head("Created"), head("Took", "end"), head("Error"), head("Letters", "end"))),
      h("tbody", {}, page.runs.map(row)))];
  }

  function row(run) {
    const fresh = seen.size > 0 && !seen.has(run.run) && !query.before;
    const ended = run.ended ? Date.parse(run.ended) : now();
    const took = run.phase === "deactivated" && !run.ended ? "" : length(ended - Date.parse(run.created));
    return h("tr", { "data-key": run.run, class: fresh ? "fresh" : null },
      h("td", { class: "c-phase" }, phase(run.phase), run.archived ? h("span", { class: "dim" }, " archived") : null),
      h("td", { class: "c-name" }, h("a", { class: "row", href: `#/runs/${run.run}` }, run.workflow)),
      h("td", { class: "c-id" }, short(run.run), run.key ? h("span", { class: "dim", title: "Submitted with this key" }, ` ${run.key}`) : null, run.redrives ? h("span", { class: "dim", title: `It redrives letter ${run.redrives}` }, " redrive") : null),
      h("td", { class: "c-when" }, ago(run.created)),
      h("td", { class: "c-took end" }, took),
      h("td", { class: "c-error" }, run.code
        ? h("a", { class: "code", href: `#/runs${app.query({ ...query, code: run.code, before: null })}` }, run.code) : h("span", { class: "dim" }, "–")),
      h("td", { class: "c-letters end" }, run.letters
        ? h("a", { class: "count bad", href: `#/runs/${run.run}`, title: "Dead letters that wait" }, count(run.letters)) : h("span", { class: "dim" }, "–")));
  }

  /// How many of all are shown, where they are counted.
  function counted() {
    if (!tally || Object.keys(query).some((name) => name !== "phase" && name !== "before")) return null;
    const all = query.phase ? tally.phases[query.phase] ?? 0 : Object.values(tally.phases).reduce((sum, n) => sum + n, 0);
    return h("span", { class: "dim" }, `${count(page.runs.length)} of ${many(all, "run", "runs")}`);
  }

  function pages() {
    if (!page || (!page.next && !query.before)) return null;
    return h("nav", { class: "pages", "aria-label": "Pages" },
      h("button", { type: "button", "data-do": "newer", disabled: !query.before, "aria-keyshortcuts": "p" }, "Newer"),
      query.before ? h("a", { href: `#/runs${app.query({ ...query, before: null })}` }, "Newest") : null,
      counted(),
      h("button", { type: "button", "data-do": "older", disabled: !page.next, "aria-keyshortcuts": "n" }, "Older"));
  }

  const ticking = setInterval(draw, 5_000);
  signal.addEventListener("abort", () => clearInterval(ticking));
  draw();
  return {
    title: () => "Runs",
    open: (route) => open(route.query),
    keys: { n: older, p: fewer, r: () => open(query) },
  };
}
