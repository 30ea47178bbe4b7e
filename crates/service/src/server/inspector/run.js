// One run: its graph, its tasks over time, what failed, why each retry happened; as it goes on.

import { follow, get, post } from "./api.js";
import { clicks, h, often, show } from "./dom.js";
import { graph, legend } from "./graph.js";
import { PAGE, failure, span, tasks, timeline } from "./timeline.js";
import { ago, clock, count, cut, length, many, now, phase, words } from "./words.js";

/// The newest events that are shown.
const EVENTS = 60;
/// The results that are shown at once.
const VALUES = 50;
const OVER = ["completed", "failed", "cancelled"];

export function run(root, app, signal) {
  let id = null;
  let run = null;
  let refusal = null;
  let events = [];
  let from = 0;
  let narrow = false;
  /// The input and the results, once they were asked for.
  let values = null;

  const again = often(400, async () => {
    try {
      [run, refusal] = [await get(`/v1/runs/${id}`, signal), null];
    } catch (error) {
      if (signal.aborted) return;
      refusal = error;
    }
    draw();
  });

  clicks(root, {
    again,
    copy: () => navigator.clipboard?.writeText(id).then(() => app.tell("The run's id is copied."), () => {}),
    step: (element) => look_at(element.dataset.step),
    reveal: () => reveal(null),
    "more-values": () => reveal(values.next),
    "more-tasks": () => { from += PAGE; draw(); },
    "less-tasks": () => { from = Math.max(0, from - PAGE); draw(); },
    pause: () => command("pause", { title: "Hold this run's retries?", word: "Pause", reason: true }),
    resume: () => command("resume", {}),
    release: () => command("release", { title: "Let the held tasks go on?", word: "Release", reason: true }),
    cancel: () => command("cancel", { title: "Cancel this run?", word: "Cancel the run", reason: true, bad: true }),
  }, signal);
  root.addEventListener("keydown", (event) => {
    const step = event.target.closest?.("[data-do=step]");
    if (step && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      look_at(step.dataset.step);
    }
  }, { signal });
  const wide = new ResizeObserver(([box]) => {
    const was = narrow;
    narrow = box.contentRect.width < 700;
    if (was !== narrow && run) draw();
  });
  wide.observe(root);
  signal.addEventListener("abort", () => wide.disconnect());

  async function command(name, asked) {
    const given = asked.title ? await app.confirm(asked) : {};
    if (!given) return;
    try {
      await post(`/v1/runs/${id}/${name}`, given);
      again();
    } catch (error) {
      app.tell(error.message, true);
    }
  }

  function look_at(step) {
    const all = tasks(run.steps);
    const at = all.findIndex((one) => one.step.step === step);
    if (at < 0) return app.tell(`No task of ${cut(step, 40)} has begun.`);
    from = Math.floor(at / PAGE) * PAGE;
    draw();
    const details = [...root.querySelectorAll("details.task")].find((one) => one.dataset.task === all[at].key);
    details.open = true;
    details.querySelector("summary").focus();
    details.scrollIntoView({ block: "nearest" });
  }

  async function reveal(after) {
    try {
      const page = await get(`/v1/runs/${id}/values?limit=${VALUES}${after ? `&after=${after}` : ""}`, signal);
      values = { ...page, results: [...(after ? values.results : []), ...page.results] };
    } catch (error) {
      if (signal.aborted) return;
      app.tell(error.message, true);
    }
    draw();
  }

  async function open(route) {
    id = route.rest[0];
    try {
      run = await get(`/v1/runs/${id}`, signal);
      draw();
      await follow(`/v1/runs/${id}/events?from=${Math.max(0, run.version - EVENTS)}`, {
        signal,
        live: app.live,
        on: (event, data) => {
          if (event === "end") {
            again();
            return false;
          }
          if (event === "compacted") return;
          if (event === "failed") return void (app.tell(data.detail, true));
          events.push(data);
          events = events.slice(-EVENTS);
          if (data.number >= run.version) again();
          else draw();
        },
      });
    } catch (error) {
      if (signal.aborted) return;
      refusal = error;
      draw();
    }
  }

  function draw() {
    if (signal.aborted) return;
    if (!run) {
      show(root, back(), refusal ? app.refused(refusal) : h("p", { class: "empty" }, "Asking for the run …"));
      return;
    }
    app.named();
    const all = tasks(run.steps);
    show(root, back(), header(), refusal ? app.refused(refusal) : null, last_error(), waits(),
      section("Graph", graph(run.steps, narrow), legend(run.steps)),
      section("Attempts and delays", timeline(all, span(run), from), more(all)),
      queue(), given(), history());
  }

  function back() {
    return h("p", { class: "back" }, h("a", { href: "#/runs" }, "← Runs"));
  }

  function section(title, ...parts) {
    if (!parts[0]) return null;
    return h("section", { "data-key": title }, h("h2", {}, title), parts);
  }

  function header() {
    const ended = run.ended ? Date.parse(run.ended) : now();
    const fact = (name, value) => value && h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const held = OVER.includes(run.phase) ? [] : run.steps.flatMap((step) => (step.tasks ?? []).filter((task) => task.phase === "quarantined"));
    const button = (name, word, bad) => h("button", { type: "button", "data-do": name, "data-key": name, class: bad ? "bad" : null }, word);
    return h("header", { class: "run-head" },
      h("div", { class: "title" }, h("h1", {}, run.workflow), phase(run.phase)),
      h("div", { class: "buttons" },
        run.phase === "running" ? button("pause", "Pause") : null,
        run.phase === "paused" ? button("resume", "Resume") : null,
        held.length ? button("release", "Release") : null,
        OVER.includes(run.phase) ? null : button("cancel", "Cancel", true)),
      held.length ? h("p", { class: "callout bad", role: "alert" }, `In quarantine, since attempts in a row lost their node: `, quarantine(held)) : null,
      run.paused ? h("p", { class: "callout odd" }, "Retries are paused: ", run.paused) : null,
      h("dl", { class: "facts" },
        fact("Run", [h("code", {}, run.run), " ", h("button", { type: "button", class: "quiet", "data-do": "copy", "aria-label": "Copy the run's id" }, "copy")]),
        fact("Created", ago(run.created)),
        fact(run.ended ? "Took" : "For", length(ended - Date.parse(run.created))),
        fact("Events", count(run.version)),
        fact("Cost", run.cost_millionths && String(run.cost_millionths / 1_000_000)),
        fact("Archived", run.archived && ago(run.archived)),
        fact("Redrives", run.redrives && h("a", { href: `#/letters/${run.redrives}` }, run.redrives)),
        fact("Dead letters", letters())));
  }

  function quarantine(all) {
    const some = all.slice(0, 5).map((task) => `${task.task} (${many(task.lost_attempts, "attempt", "attempts")})`);
    return some.join(", ") + (all.length > 5 ? ` and ${count(all.length - 5)} more` : "");
  }

  function letters() {
    const named = (letter) => h("a", { href: `#/letters/${letter}` }, letter.split("/").slice(1).join("/"));
    const whole = (run.letters ?? []).slice(0, 5).map((letter, n) => [n ? ", " : "", named(letter)]);
    const damaged = run.damaged_letters?.length
      ? h("span", { class: "callout bad", role: "alert" }, `${many(run.damaged_letters.length, "letter is", "letters are")} damaged: `, run.damaged_letters.slice(0, 5).map((letter, n) => [n ? ", " : "", named(letter)])) : null;
    return whole.length || damaged ? [whole, damaged] : null;
  }

  function last_error() {
    const error = run._last_error;
    if (!error) return null;
    return h("section", { class: "callout bad", "data-key": "last-error", id: "last-error" },
      h("h2", {}, h("code", {}, "_last_error")),
      failure(error),
      h("p", { class: "dim" }, `At ${error.node_id}, action ${error.action_id}, attempt ${error.attempt}, `, ago(error.timestamp)));
  }

  function waits() {
    if (!run.waiting_for?.length) return null;
    return h("p", { class: "callout odd", "data-key": "waits" }, "It waits for a node that has ",
      run.waiting_for.map((need, n) => [n ? ", " : "", h("b", {}, need.action)]), ".");
  }

  function more(all) {
    if (all.length <= PAGE) return null;
    return h("nav", { class: "pages", "aria-label": "Tasks" },
      h("button", { type: "button", "data-do": "less-tasks", disabled: from === 0 }, "Earlier"),
      h("span", { class: "dim" }, `${count(from + 1)} to ${count(Math.min(from + PAGE, all.length))} of ${count(all.length)} tasks, those in trouble first`),
      h("button", { type: "button", "data-do": "more-tasks", disabled: from + PAGE >= all.length }, "Later"));
  }

  function queue() {
    if (!run.queue?.length) return null;
    const rows = run.queue.slice(0, 20);
    const cell = (value) => h("td", {}, value ?? h("span", { class: "dim" }, "–"));
    return section("In the queue", h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "In the queue" },
      h("table", { class: "list plain" },
        h("thead", {}, h("tr", {}, ["Step", "Status", "Retries used", "Allowed", "Backoff", "Because of", "Due", "Times out"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, rows.map((row) => h("tr", { "data-key": `${row.step}/${row.item}` },
          cell(row.item ? `${row.step}[${row.item}]` : row.step), cell(row.status), cell(row.attempt_number),
          cell(row.max_retries ?? "unlimited"), cell(row.backoff_kind), cell(row.retry_kind),
          cell(row.scheduled_at && ago(row.scheduled_at)), cell(row.timeout_at && ago(row.timeout_at))))))),
    run.queue.length > rows.length ? h("p", { class: "dim" }, `${count(rows.length)} of ${count(run.queue.length)} rows`) : null);
  }

  /// What went into the run and what came out of it.
  function given() {
    const button = (name, word) => h("button", { type: "button", "data-do": name, "data-key": name }, word);
    const value = (name, of) => [h("h3", {}, name), h("pre", { tabindex: 0 }, JSON.stringify(of, null, 2))];
    return section("Input and results",
      h("p", { class: "dim" }, "As they are stored; the audit trail notes who reveals them. ", button("reveal", values ? "Reveal again" : "Reveal")),
      values && value("Input", values.input),
      values?.results.map((one) => value(one.item || fans_out(one.step) ? `${one.step}[${one.item}]` : one.step, one.result)),
      values && !values.results.length ? h("p", { class: "dim" }, "No task has a result yet.") : null,
      values?.next ? button("more-values", "More results") : null);
  }

  function fans_out(step) {
    return (run.steps.find((one) => one.step === step)?.tasks?.length ?? 0) > 1;
  }

  function history() {
    if (!events.length) return null;
    return section(`Events`, h("ol", { class: "events" }, events.slice().reverse().map((event) =>
      h("li", { "data-key": String(event.number) },
        h("span", { class: "dim number" }, String(event.number)), clock(event.at),
        h("b", {}, words(event.event)), h("span", { class: "what" }, summary(event))))),
    run.version > events.length ? h("p", { class: "dim" }, `the newest ${count(events.length)} of ${count(run.version)}`) : null);
  }

  const ticking = setInterval(() => run && !OVER.includes(run.phase) && draw(), 1_000);
  signal.addEventListener("abort", () => clearInterval(ticking));
  return { title: () => (run ? `${run.workflow} · ${run.phase}` : "Run"), open, keys: { r: again } };
}

/// An event's most telling fields.
function summary(event) {
  const place = event.step && (event.item === undefined ? event.step : `${event.step}[${event.item}]`);
  const error = event.error && `${event.error.code} ${cut(event.error.message, 120)}`;
  const parts = [
    place,
    event.attempt && `attempt ${event.attempt}`,
    error,
    event.event === "attempt_failed" && (event.will_retry ? "will be tried again" : "will not be tried again"),
    event.retry_delay !== undefined && event.event === "retry_scheduled" && `in ${length(event.retry_delay * 1_000)}, because of ${event.reason}`,
    event.event === "routed" && `${event.from} → ${event.to}, after a ${event.cause}`,
    event.reason_text,
    event.tasks > 1 && many(event.tasks, "task", "tasks"),
  ];
  return parts.filter(Boolean).join(" · ");
}
