// A workflow's graph: steps in columns by what they come after, coloured by phase and told in words.

import { h } from "./dom.js";
import { cut, many, tone, words } from "./words.js";

/// A graph with more steps is not drawn.
const MOST = 150;
const WIDE = 172;
const NARROW = 148;
const HEIGHT = 46;

/// The graph, or nothing where there is nothing to see. `narrow`: from top to bottom.
export function graph(steps, narrow) {
  if (steps.length < 2) return null;
  if (steps.length > MOST) {
    return h("p", { class: "dim" }, `${steps.length} steps are too many to draw; they are listed below.`);
  }
  const box = narrow ? NARROW : WIDE;
  const { places, edges, width, height } = layout(steps, narrow, box);
  return h("div", { class: "graph", tabindex: 0, role: "region", "aria-label": "Graph" },
    h("svg:svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": many(steps.length, "step", "steps") },
      h("svg:defs", {},
        h("svg:marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
          h("svg:path", { d: "M0 0.8L7 4L0 7.2z" }))),
      edges.map((edge) => line(edge, places, narrow, box)),
      steps.map((step) => node(step, places.get(step.step), box))));
}

function node(step, { x, y }, box) {
  const made = step.tasks.reduce((sum, task) => sum + (task.attempts ?? 0), 0);
  const said = [words(step.phase), step.compensates && `undoes ${step.compensates}`, step.tasks.length > 1 ? many(step.tasks.length, "task", "tasks") : null,
    made > step.tasks.length ? many(made, "attempt", "attempts") : null].filter(Boolean).join(" · ");
  const colour = step.phase === "waiting" ? "calm" : tone(step.phase);
  return h("svg:g", { class: `step ${colour}`, tabindex: 0, role: "button", "data-do": "step", "data-step": step.step, "data-key": `n ${step.step}`, "aria-label": `${step.step}: ${said}` },
    h("svg:title", {}, `${step.step} (${step.action}): ${said}`),
    h("svg:rect", { class: "box", x, y, width: box, height: HEIGHT, rx: 6 }),
    h("svg:rect", { class: "bar", x, y: y + 6, width: 3, height: HEIGHT - 12, rx: 1.5 }),
    h("svg:text", { class: "name", x: x + 12, y: y + 19 }, cut(step.step, Math.floor(box / 9.2))),
    h("svg:text", { class: "said", x: x + 12, y: y + 35 }, cut(said, Math.floor(box / 7.4))));
}

function line({ from, to, by, through }, places, narrow, box) {
  // A place between steps is where a long edge passes, not a box.
  const stops = [from, ...through, to].map((name, n, all) => {
    const { x, y } = places.get(name);
    const [enter, leave] = narrow ? [[x + box / 2, y - 2], [x + box / 2, y + HEIGHT]] : [[x - 2, y + HEIGHT / 2], [x + box, y + HEIGHT / 2]];
    return n === 0 ? [leave] : n === all.length - 1 ? [enter] : [enter, leave];
  }).flat();
  let d = `M${stops[0].join(" ")}`;
  for (let n = 1; n < stops.length; n += 1) {
    const [[x1, y1], [x2, y2]] = [stops[n - 1], stops[n]];
    if (n % 2 === 0) {
      d += `L${x2} ${y2}`;
      continue;
    }
    const bend = Math.max(20, (narrow ? Math.abs(y2 - y1) : Math.abs(x2 - x1)) / 2);
    d += narrow ? `C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}` : `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  return h("svg:path", { class: `edge ${by}`, d, "marker-end": "url(#tip)", "data-key": `e ${by} ${from} ${to}` });
}

/// Where each step stands: one column (or row) after the last that it follows. An edge that leads
/// back is drawn and moves nothing.
function layout(steps, narrow, box) {
  const names = new Set(steps.map((step) => step.step));
  const edges = [];
  for (const step of steps) {
    for (const from of step.after ?? []) if (names.has(from)) edges.push({ from, to: step.step, by: "after" });
    for (const to of step.transitions_to ?? []) if (names.has(to)) edges.push({ from: step.step, to, by: "route" });
  }
  const next = new Map(steps.map((step) => [step.step, []]));
  for (const edge of edges) next.get(edge.from).push(edge.to);
  const level = new Map();
  for (const name of order(steps.map((step) => step.step), next)) {
    const mine = level.get(name.of) ?? 0;
    level.set(name.of, mine);
    for (const to of next.get(name.of)) {
      if (!name.back.has(to)) level.set(to, Math.max(level.get(to) ?? 0, mine + 1));
    }
  }
  const levels = [];
  for (const step of steps) (levels[level.get(step.step)] ??= []).push(step.step);
  const hops = [];
  for (const edge of edges) {
    edge.through = [];
    let last = edge.from;
    for (let n = level.get(edge.from) + 1; n < level.get(edge.to); n += 1) {
      const between = `\u0000${edge.by} ${edge.from} ${edge.to} ${n}`;
      edge.through.push(between);
      levels[n].push(between);
      hops.push({ from: last, to: between });
      last = between;
    }
    hops.push({ from: last, to: edge.to });
  }
  return { edges, ...place(levels, hops, narrow, box) };
}

/// The steps so that each comes before what follows it, with the edges of each that lead back.
function order(names, next) {
  const state = new Map();
  const sorted = [];
  const backs = new Map(names.map((name) => [name, new Set()]));
  for (const root of names) {
    if (state.has(root)) continue;
    const path = [{ name: root, at: 0 }];
    state.set(root, "open");
    while (path.length) {
      const top = path[path.length - 1];
      const to = next.get(top.name)[top.at++];
      if (to === undefined) {
        state.set(top.name, "done");
        sorted.push(top.name);
        path.pop();
      } else if (state.get(to) === "open") {
        backs.get(top.name).add(to);
      } else if (!state.has(to)) {
        state.set(to, "open");
        path.push({ name: to, at: 0 });
      }
    }
  }
  return sorted.reverse().map((of) => ({ of, back: backs.get(of) }));
}

function place(levels, edges, narrow, box) {
  const [along, across] = narrow ? [HEIGHT + 34, box + 16] : [box + 48, HEIGHT + 16];
  const places = new Map();
  const rank = new Map();
  const most = Math.max(...levels.map((names) => names.length));
  levels.forEach((names, n) => {
    // Each near the middle of those that lead to it, so that edges cross less.
    const middle = (name) => {
      const before = edges.filter((edge) => edge.to === name && rank.has(edge.from)).map((edge) => rank.get(edge.from));
      return before.length ? before.reduce((a, b) => a + b) / before.length : Number.MAX_SAFE_INTEGER;
    };
    const sorted = names.map((name, at) => ({ name, by: middle(name), at })).sort((a, b) => a.by - b.by || a.at - b.at);
    sorted.forEach(({ name }, at) => {
      rank.set(name, at);
      const [u, v] = [4 + n * along, 4 + (at + (most - names.length) / 2) * across];
      places.set(name, narrow ? { x: v, y: u } : { x: u, y: v });
    });
  });
  const [long, wide] = [8 + levels.length * along - (narrow ? 34 : 48), 8 + most * across - 16];
  return { places, width: narrow ? wide : long, height: narrow ? long : wide };
}

/// What the lines mean, where both kinds are drawn.
export function legend(steps) {
  if (!steps.some((step) => step.transitions_to?.length)) return null;
  return h("p", { class: "legend" }, h("span", { class: "key after" }), "comes after ", h("span", { class: "key route" }), "transition");
}
