// Actions: how often each is called, fails and is tried again, and how its guards stand.

import { get } from "./api.js";
import { h, show } from "./dom.js";
import { ago, count, length, many, now, percent, phase } from "./words.js";

const LOOK = 2_000;
/// The most actions and codes that are shown.
const MOST = 200;
const CODES = 6;

export function actions(root, app, signal) {
  let found = null;
  let refusal = null;

  async function load() {
    try {
      [found, refusal] = [await get("/v1/actions", signal), null];
      app.live("live");
    } catch (error) {
      if (signal.aborted) return;
      refusal = error;
      app.live("waiting");
    }
    draw();
  }

  function draw() {
    if (signal.aborted) return;
    const heading = h("h1", { class: "unseen" }, "Actions");
    if (refusal) return show(root, heading, app.refused(refusal));
    if (!found) return show(root, heading, h("p", { class: "empty" }, "Asking for actions …"));
    if (!found.actions.length) return show(root, heading, h("p", { class: "empty" }, "No action was called in the last day."));
    show(root, heading,
      h("p", { class: "dim note" }, "The last hour and day: all nodes of the store. Codes of failures: this node, since it started. Guards: the whole store."),
      h("div", { class: "cards" }, found.actions.slice(0, MOST).map(card)),
      found.actions.length > MOST ? h("p", { class: "dim" }, `and ${count(found.actions.length - MOST)} more`) : null);
  }

  load();
  const looking = setInterval(() => document.hidden || load(), LOOK);
  signal.addEventListener("abort", () => clearInterval(looking));
  return { title: () => "Actions", open: () => {}, keys: { r: load } };
}

function card(action) {
  const codes = Object.entries(action.failures ?? {}).sort((a, b) => b[1] - a[1]);
  const { hour, day, nodes } = action.recent;
  return h("article", { class: "card", "data-key": action.action },
    h("h2", {}, action.action),
    h("div", { class: "rates" },
      rate("Retry rate, last hour", hour.retry_rate, `${count(hour.retries)} of ${many(hour.attempts, "attempt", "attempts")}`, "odd"),
      rate("Error rate, last hour", hour.error_rate, `${count(hour.failed)} of ${many(hour.attempts, "attempt", "attempts")}`, "bad")),
    windows([["Last hour", hour], ["Last day", day]]),
    nodes.length > 1 ? h("details", {}, h("summary", {}, many(nodes.length, "node", "nodes")),
      windows(nodes.flatMap((node) => [[`${node.node}, hour`, node.hour], [`${node.node}, day`, node.day]]))) : null,
    codes.length ? h("p", { class: "codes" }, codes.slice(0, CODES).map(([code, n]) =>
      h("span", { class: "chip", "data-key": code }, h("code", {}, code), ` ${count(n)}`)),
    codes.length > CODES ? h("span", { class: "dim" }, `and ${codes.length - CODES} more codes`) : null) : null,
    action.guards ? guards(action.guards) : null);
}

/// Attempts, their failures, and how long they took.
function windows(rows) {
  const took = (seconds) => (seconds === null ? "–" : length(seconds * 1_000));
  return h("div", { class: "scroll" }, h("table", { class: "windows" },
    h("thead", {}, h("tr", {}, ["", "Attempts", "/min", "Failed", "p50", "p90", "p99"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map(([name, of]) => h("tr", { "data-key": name },
      h("th", { scope: "row" }, name), h("td", {}, count(of.attempts)), h("td", {}, of.attempts_per_minute.toFixed(of.attempts_per_minute < 10 ? 1 : 0)),
      h("td", {}, percent(of.error_rate)), ["p50", "p90", "p99"].map((name) => h("td", {}, took(of.took_seconds[name]))))))));
}

function rate(name, share, said, tone) {
  return h("div", { class: "rate" },
    h("span", { class: "dim" }, name), h("b", {}, percent(share ?? 0)),
    h("span", { class: `meter ${tone}`, "aria-hidden": "true" }, h("i", { style: { width: `${100 * Math.min(1, share ?? 0)}%` } })),
    h("span", { class: "dim" }, said));
}

function guards(guards) {
  if (guards.damaged) return h("p", { class: "callout bad" }, "What is kept of its guards is damaged.");
  const { breaker, running, unpaced_at, tokens_millionths, errors, alerts_millionths } = guards;
  const fact = (name, value) => value && h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const state = breaker?.state?.replace("_", " ");
  const more = {
    closed: breaker?.in_a_row ? `${many(breaker.in_a_row, "failure", "failures")} in a row` : null,
    open: breaker?.until ? ["until ", ago(breaker.until)] : null,
    "half open": many(breaker?.successes ?? 0, "probe has", "probes have") + " succeeded",
  }[state];
  return h("dl", { class: "facts guards" },
    fact("Breaker", breaker && [phase(state), more ? h("span", { class: "dim" }, " ", more) : null]),
    fact("In progress", running !== undefined && count(running)),
    fact("Rate limit", unpaced_at && Date.parse(unpaced_at) > now() ? ["free again ", ago(unpaced_at)] : null),
    fact("Retry budget", tokens_millionths !== undefined && tokens_millionths !== null && `${(tokens_millionths / 1_000_000).toFixed(2)} tokens`),
    fact("Error budget", errors?.calls ? `${count(errors.failures)} of ${many(errors.calls, "outcome", "outcomes")} failed` : null),
    fact("Alerts", alerts_millionths?.length ? alerts_millionths.map((share) => h("span", { class: "chip bad", "data-key": String(share) }, `${percent(share / 1_000_000)} burnt`)) : null));
}
