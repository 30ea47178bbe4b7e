// A run's tasks over time: attempts as bars, delays as lines, and each attempt told in words.

import { h } from "./dom.js";
import { ago, clock, count, kind, length, many, now, phase, whole } from "./words.js";

/// The most tasks that are drawn at once, and the most attempts of one task that are listed.
export const PAGE = 40;
const TOLD = 60;

/// Every task of a run, those in trouble first where there are many.
export function tasks(steps) {
  const all = steps.flatMap((step) => step.tasks.map((task) => ({ step, task, key: `${step.step}/${task.item}` })));
  const trouble = ({ task }) => (task.phase === "failed" ? 0 : task.phase === "running" ? 1 : task.attempts > 1 ? 2 : 3);
  return all.length > PAGE ? all.sort((a, b) => trouble(a) - trouble(b)) : all;
}

/// The stretch of time that the tasks take up.
export function span(run) {
  const start = Date.parse(run.created);
  let end = run.ended ? Date.parse(run.ended) : now();
  for (const step of run.steps) {
    for (const task of step.tasks) if (task.due && !run.ended) end = Math.max(end, Math.min(Date.parse(task.due), now() + (now() - start) * 0.25 + 1_000));
  }
  return { start, end: Math.max(end, start + 1) };
}

export function timeline(list, at, from) {
  const page = list.slice(from, from + PAGE);
  const fan = new Set(list.filter(({ task }) => task.item > 0).map(({ step }) => step.step));
  return h("div", { class: "timeline" },
    axis(at),
    page.map(({ step, task, key }) => row(step, task, key, at, fan.has(step.step))));
}

function axis({ start, end }) {
  const width = end - start;
  const steps = 5;
  const marks = [];
  for (let n = 0; n <= steps; n += 1) {
    marks.push(h("span", { class: n === 0 ? "first" : n === steps ? "last" : null, style: { left: `${(100 * n) / steps}%` } }, n === 0 ? "0" : length((width * n) / steps)));
  }
  return h("div", { class: "axis", "aria-hidden": "true" }, h("span", {}), h("div", {}, marks));
}

function row(step, task, key, at, fanned) {
  const failed = (task.history ?? []).some((attempt) => attempt.error);
  const name = fanned ? `${step.step}[${task.item}]` : step.step;
  return h("details", { class: "task", "data-key": key, "data-task": key, open: failed && !fanned },
    h("summary", {},
      h("span", { class: "who" }, h("span", { class: "name" }, name), phase(task.phase),
        task.attempts > 1 ? h("span", { class: "dim" }, many(task.attempts, "attempt", "attempts")) : null),
      lane(task, at)),
    told(step, task));
}

function lane(task, { start, end }) {
  const width = end - start;
  const share = (time) => Math.min(100, Math.max(0, (100 * (time - start)) / width));
  const piece = (name, a, b, title) => h("i", { class: name, title, style: { left: `min(${share(a)}%, 100% - 3px)`, width: `${Math.max(0, share(b) - share(a))}%` } });
  const bars = [];
  for (const attempt of (task.history ?? []).slice(-200)) {
    const began = Date.parse(attempt.started);
    const over = attempt.ended ? Date.parse(attempt.ended) : null;
    const [tone, word] = attempt.error ? ["bad", `failed: ${attempt.error.code}`] : over ? ["good", "succeeded"] : task.phase === "running" ? ["busy", "running"] : ["calm", "called off"];
    const last = over ?? (task.phase === "running" ? now() : began);
    bars.push(piece(`bar ${tone}`, began, last, `Attempt ${attempt.attempt} ${word}, ${length(last - began)}`));
    if (attempt.retry && over) {
      const due = over + attempt.retry.delay * 1_000;
      bars.push(piece("delay", over, due, `Waits ${length(attempt.retry.delay * 1_000)}`));
    }
  }
  return h("span", { class: "lane", "aria-hidden": "true" }, bars);
}

function told(step, task) {
  const kept = task.history ?? [];
  const lines = kept.slice(-TOLD);
  const hidden = kept.length - lines.length;
  return h("div", { class: "told-task" },
    h("p", { class: "dim" }, "Action ", h("b", {}, step.action),
      task.cost_millionths ? `, cost ${task.cost_millionths / 1_000_000}` : null,
      task.compacted ? `, ${many(task.compacted, "older attempt is", "older attempts are")} compacted` : null,
      hidden > 0 ? `, ${count(hidden)} more attempts before these` : null),
    task.compacted && task.first_error
      ? h("p", { class: "dim" }, "The first failed with ", failure(task.first_error)) : null,
    lines.length ? h("ol", { class: "attempts" }, lines.map(attempt)) : h("p", { class: "dim" }, "No attempt has started."),
    task.due && task.phase === "waiting" ? h("p", {}, "Next attempt ", ago(task.due), ".") : null,
    task.gave_up ? h("p", { class: "gave-up" }, h("b", {}, "Given up: "), task.gave_up, ".") : null);
}

function attempt(one) {
  const began = Date.parse(one.started);
  const took = one.ended ? length(Date.parse(one.ended) - began) : null;
  const word = one.error ? "failed" : one.ended ? "succeeded" : "running";
  return h("li", { "data-key": String(one.attempt), class: one.error ? "bad" : one.ended ? "good" : "busy" },
    h("div", { class: "line" },
      h("b", {}, `Attempt ${one.attempt}`), " ", h("span", { class: "word" }, word),
      took ? h("span", { class: "dim" }, ` after ${took}`) : null,
      h("span", { class: "dim when" }, " at ", clock(one.started))),
    one.error ? failure(one.error) : null,
    one.retry ? h("div", { class: "why", title: whole(one.ended) },
      h("span", { "aria-hidden": "true" }, "↻ "),
      `Retry after ${length(one.retry.delay * 1_000)}, because of ${why(one.retry.kind)}: ${one.error?.code ?? ""}`,
      one.error?.retry_after !== undefined ? ` (the endpoint asked for ${length(one.error.retry_after * 1_000)})` : null) : null);
}

function why(retry) {
  return { failure: "a failure", timeout: "a timeout", lease_lost: "a lost lease" }[retry] ?? retry;
}

export function failure(error) {
  return h("div", { class: "failure" },
    h("code", { class: "code" }, error.code), error.type ? h("span", { class: "dim" }, ` ${error.type} `) : " ",
    kind(error.class ? error.class === "retryable" : error.retryable), " ",
    h("span", { class: "message" }, error.message),
    error.stack_trace ? h("details", {}, h("summary", {}, "Stack trace"), h("pre", {}, error.stack_trace)) : null);
}
