"use strict";
// Draws the page from its data. Texts of the world reach the document as text alone.

const page = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}
function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}
function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

// ---- Time, in nanoseconds.

const plain = (number, digits) => String(Number(number.toFixed(digits)));
function length(ns) {
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${plain(ns / 1e3, 3)} µs`;
  if (ns < 1e9) return `${plain(ns / 1e6, 3)} ms`;
  return moment(ns, 3);
}
function moment(ns, digits = 9) {
  const seconds = ns / 1e9;
  if (seconds < 60) return `${plain(seconds, digits)} s`;
  const [whole, rest] = [Math.floor(seconds / 60), plain(seconds % 60, digits)];
  const two = (text) => (Number(text) < 10 ? `0${text}` : text);
  if (whole < 60) return `${whole}:${two(rest)}`;
  return `${Math.floor(whole / 60)}:${two(String(whole % 60))}:${two(rest)}`;
}
const STEPS = [15e9, 30e9, 60e9, 120e9, 300e9, 600e9, 1800e9, 3600e9, 7200e9, 21600e9, 86400e9];
function step(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const tens = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least);
  return tens <= 10e9 ? tens : (STEPS.find((n) => n >= least) ?? tens);
}

// ---- What can be shown, chosen and found.

const KINDS = [
  { kind: "attempt", name: "attempts", on: true }, { kind: "delay", name: "delays", on: true },
  { kind: "due", name: "due, not started", on: true }, { kind: "arrival", name: "arrivals", on: true },
  { kind: "dead", name: "node dead", on: true }, { kind: "still", name: "node paused", on: true },
  { kind: "window", name: "fault on", on: true }, { kind: "event", name: "events", on: true },
  { kind: "fault", name: "strikes", on: true }, { kind: "clock", name: "clock jumps", on: true },
  { kind: "input", name: "inputs", on: true }, { kind: "message", name: "messages", on: false },
  { kind: "disk", name: "disk calls", on: false }, { kind: "note", name: "notes", on: false },
];
const ENDS = { well: "well", badly: "badly", called_off: "called off", open: "not known" };
const NAMES = { attempt: "Attempt", delay: "Delay before", due: "Due, not started:", arrival: "Arrival of" };
const isShown = Object.fromEntries(KINDS.map(({ kind, on }) => [kind, on]));

const items = [
  ...page.spans.map((span) => ({ ...span, shape: "span" })),
  ...page.bars.map((bar) => ({ ...bar, shape: "bar", to: bar.until })),
  ...page.marks.map((mark) => ({ ...mark, shape: "mark", from: mark.at, until: mark.at })),
];
const byEvent = new Map();
for (const item of items) {
  item.until ??= page.until;
  const details = (item.details ?? []).map(({ name, value }) => `${name} ${value}`);
  const number = item.shape === "mark" && item.number !== null ? `#${item.number}` : "";
  const run = page.runs[item.run]?.id ?? "";
  item.words = [item.kind, item.name, number, run, ...details].join(" ").toLowerCase();
  if (number) byEvent.set(`${item.run}#${item.number}`, item);
}
const inTime = items.slice().sort((a, b) => a.from - b.from || a.lane - b.lane);
const proofs = new Set();
for (const { proof } of page.findings) {
  for (const { run, number } of proof) proofs.add(byEvent.get(`${run}#${number}`));
}
const isProof = (item) =>
  proofs.has(item) || (item.shape === "bar" && item.kind !== "delay" && item.kind !== "due" &&
    item.numbers.some((number) => proofs.has(byEvent.get(`${item.run}#${number}`))));
for (const item of items) item.isProof = isProof(item);

// ---- Lanes: how high each is, and which row of it each bar has.

const ROW = 19, STRIP = 14, PAD = 4, TOP = 34, LOW = 18;
let run = "", lanes = [], height = 0;
const passes = (item) => isShown[item.kind] && (run === "" || item.run == null || item.run === Number(run));

function layOut() {
  const rows = page.lanes.map(() => []), before = new Map();
  for (const item of inTime) {
    if (item.shape !== "bar" || !passes(item)) continue;
    // What follows in a task stays in its row, where that is free.
    const ends = rows[item.lane], task = `${item.lane} ${item.run} ${item.name.replace(/ \d+$/, "")}`;
    let row = before.get(task) ?? -1;
    if (!(ends[row] <= item.from)) row = ends.findIndex((end) => end <= item.from);
    if (row < 0) row = ends.length;
    ends[row] = item.until;
    item.row = row;
    before.set(task, row);
  }
  const marked = new Set(items.filter((item) => item.shape === "mark" && passes(item)).map((item) => item.lane));
  let y = TOP;
  lanes = page.lanes.map((lane, at) => {
    const strip = marked.has(at) ? STRIP : 0;
    const high = Math.max(strip + rows[at].length * ROW + 2 * PAD, LOW);
    const top = y;
    y += high;
    return { ...lane, top, high, bars: top + PAD + strip };
  });
  height = y + 6;
}

// ---- Drawing.

const view = { from: 0, until: page.until };
let chosen = null, hits = [], isHit = new Set(), drawn = [], waiting = false;

let measured = 0; // To ask while drawing would lay the page out again each time.
const measure = () => { measured = Math.max($("chart").clientWidth, 200); };
const width = () => measured;
const gutter = () => (width() < 600 ? 78 : 132);
const scale = () => (width() - gutter() - 8) / (view.until - view.from);
const x = (at) => gutter() + (at - view.from) * scale();

function redraw() {
  if (!waiting) requestAnimationFrame(() => { waiting = false; draw(); });
  waiting = true;
}

function draw() {
  measure();
  const chart = $("chart"), right = width();
  chart.setAttribute("height", height);
  chart.setAttribute("viewBox", `0 0 ${right} ${height}`);
  chart.dataset.from = view.from;
  chart.dataset.until = view.until;
  drawn = [];
  const clip = shape("clipPath", { id: "plot" },
    shape("rect", { x: gutter(), y: 0, width: right - gutter(), height }));
  const plot = shape("g", { "clip-path": "url(#plot)" });
  drawAxis(plot);
  for (const item of inTime) if (item.shape === "span" && passes(item)) drawSpan(plot, item);
  drawLines(plot);
  const ends = new Map();
  for (const item of inTime) if (item.shape === "bar" && passes(item)) drawBar(plot, item, ends);
  drawMarks(plot);
  chart.replaceChildren(clip, ...drawLanes(right), plot);
}

function drawLanes(right) {
  const most = Math.floor((gutter() - 14) / 6.2);
  return lanes.flatMap((lane, at) => {
    const name = lane.name.length > most ? `${lane.name.slice(0, most - 1)}…` : lane.name;
    const text = shape("text", { x: 8, y: lane.top + 13, class: `lane-name ${lane.kind}` },
      shape("title", {}, lane.name), name);
    if (isHit.has(lane.name)) text.classList.add("hit");
    const band = shape("rect", { x: 0, y: lane.top, width: right, height: lane.high });
    band.setAttribute("class", at % 2 ? "lane" : "lane band");
    if (!(at % 2)) return [band, text];
    band.setAttribute("fill", "none");
    return [band, text];
  });
}

function drawAxis(plot) {
  const every = step(90 / scale());
  const digits = Math.max(0, Math.ceil(9 - Math.log10(every)));
  for (let at = Math.ceil(view.from / every) * every; at <= view.until; at += every) {
    plot.append(shape("line", { x1: x(at), x2: x(at), y1: 20, y2: height, class: "tick" }));
    plot.append(shape("text", { x: x(at) + 3, y: 30, class: "when" }, moment(at, digits)));
  }
}

function drawLines(plot) {
  for (const { at, name } of page.lines) {
    if (at < view.from || at > view.until) continue;
    const near = x(at) > width() - 130;
    plot.append(shape("line", { x1: x(at), x2: x(at), y1: 4, y2: height, class: "line" }));
    plot.append(shape("text", { x: x(at) + (near ? -4 : 4), y: 13, class: "line-name", "text-anchor": near ? "end" : "start" }, name));
  }
  const at = (item, name) =>
    plot.append(shape("line", { x1: x(item.from), x2: x(item.from), y1: 20, y2: height, class: name }));
  if (proofs.size <= 8) for (const item of proofs) if (item && item !== chosen) at(item, "at-proof");
  if (chosen) at(chosen, "at");
}

const matters = (item) => item.isProof || item === chosen || isHit.has(item);
const isOut = (item) => item.until < view.from || item.from > view.until;
function classes(item, ...names) {
  if (item.isProof) names.push("proof");
  if (isHit.has(item)) names.push("hit");
  if (item === chosen) names.push("chosen");
  return names.join(" ");
}
function put(plot, item, node, left, top, wide, high) {
  node.append(shape("title", {}, titleOf(item)));
  plot.append(node);
  drawn.push({ item, left, top, right: left + wide, bottom: top + high });
}

function drawSpan(plot, item) {
  if (isOut(item)) return;
  const { top, high } = lanes[item.lane];
  const left = Math.max(x(item.from), 0), wide = Math.max(Math.min(x(item.until), width()) - left, 2);
  const node = shape("rect", { x: left, y: top, width: wide, height: high, class: classes(item, "span", item.kind) });
  put(plot, item, node, left, top, wide, high);
}

function drawBar(plot, item, ends) {
  if (isOut(item)) return;
  const thin = item.kind === "delay" || item.kind === "due";
  const high = thin ? 4 : 14, top = lanes[item.lane].bars + item.row * ROW + (thin ? 5 : 0);
  const left = Math.max(x(item.from), -20), wide = Math.max(Math.min(x(item.until), width() + 20) - left, 2);
  // Of what would lie on one another, the first stands for all.
  const key = `${item.lane} ${item.row} ${item.kind} ${item.end}`;
  if (!matters(item) && left + wide <= (ends.get(key) ?? -99) + 1) return;
  ends.set(key, left + wide);
  const looks = thin ? [item.kind] : [item.kind, item.end];
  const node = shape("rect", { x: left, y: top, width: wide, height: high, rx: 2, class: classes(item, "bar", ...looks) });
  put(plot, item, node, left, top, wide, high);
  const end = { badly: "✗ ", called_off: "– ", open: "? " }[item.end] ?? "";
  const words = end + item.name, begins = Math.max(left, gutter());
  if (!thin && left + wide - begins > words.length * 6.4 + 6) {
    plot.append(shape("text", { x: begins + 4, y: top + 11, class: "bar-name" }, words));
  }
}

function drawMarks(plot) {
  const last = new Map();
  for (const item of inTime) {
    if (item.shape !== "mark" || !passes(item) || isOut(item)) continue;
    const at = x(item.from), key = `${item.lane} ${item.kind}`;
    if (!matters(item) && at - (last.get(key) ?? -9) < 1.5) continue;
    last.set(key, at);
    const y = lanes[item.lane].top + PAD + 6;
    put(plot, item, sign(item, at, y), at - 4, y - 5, 8, 10);
  }
}
function sign(item, at, y) {
  const name = { class: classes(item, "mark", item.kind) };
  const path = {
    fault: `M${at} ${y - 5}l5 5l-5 5l-5 -5z`, clock: `M${at - 4} ${y - 4}h8l-8 8h8z`,
    input: `M${at - 4} ${y - 4}h8l-4 8z`,
  }[item.kind];
  if (path) return shape("path", { d: path, ...name });
  if (item.kind === "event") return shape("circle", { cx: at, cy: y, r: 3.2, ...name });
  return shape("rect", { x: at - 0.75, y: y - 4, width: 1.5, height: 8, ...name });
}

// ---- Zoom and pan.

function show(from, until) {
  const least = 1000, most = page.until * 1.04;
  const span = Math.min(Math.max(until - from, least), most);
  const start = Math.min(Math.max(from + (until - from - span) / 2, -page.until * 0.02), page.until * 1.02 - span);
  view.from = start;
  view.until = start + span;
  redraw();
}
function zoom(factor, around = (view.from + view.until) / 2) {
  show(around - (around - view.from) / factor, around + (view.until - around) / factor);
}
const pan = (by) => show(view.from + by, view.until + by);
const showAll = () => show(-page.until * 0.02, page.until * 1.02);
// What happened in runs, which may be a small part of the world's time.
function showBusy() {
  const busy = items.filter((item) => item.shape === "bar" || item.kind === "event");
  if (!busy.length) return showAll();
  const from = Math.min(...busy.map((item) => item.from)), until = Math.max(...busy.map((item) => item.until));
  const margin = Math.max((until - from) * 0.04, 1e6);
  show(from - margin, until + margin);
}
const timeAt = (clientX) => view.from + (clientX - $("chart").getBoundingClientRect().left - gutter()) / scale();

function reveal(item) {
  if (!isShown[item.kind]) setShown(item.kind, true);
  if (run !== "" && item.run != null && item.run !== Number(run)) setRun("");
  const span = Math.max(Math.min(view.until - view.from, page.until / 8), (item.until - item.from) * 1.5);
  const middle = (item.from + Math.min(item.until, item.from + span)) / 2;
  show(middle - span / 2, middle + span / 2);
  const top = $("chart").getBoundingClientRect().top + lanes[item.lane].top;
  if (top < 0 || top > innerHeight - 60) scrollBy({ top: top - innerHeight / 3 });
}

// ---- Choosing.

function titleOf(item) {
  if (item.shape === "bar") return `${NAMES[item.kind]} ${item.name}`;
  return item.shape === "mark" && item.number !== null ? `#${item.number} ${item.name}` : item.name;
}
function choose(item, moves) {
  chosen = item;
  if (item && moves) reveal(item);
  showPanel();
  for (const button of document.querySelectorAll(".proofs button")) {
    button.classList.toggle("chosen", item !== null && byEvent.get(button.dataset.event) === item);
  }
  redraw();
}
function list(pairs) {
  return el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
function facts(item) {
  const pairs = [["lane", page.lanes[item.lane].name]];
  if (item.shape === "mark") pairs.push(["at", moment(item.at)]);
  else pairs.push(["from", moment(item.from)], ["until", item.to === null ? "not known" : moment(item.until)], ["lasts", length(item.until - item.from)]);
  if (item.kind === "attempt" || item.kind === "arrival") pairs.push(["ended", ENDS[item.end]]);
  const of = page.runs[item.run];
  if (of) pairs.push(["workflow", of.workflow], ["run", of.id]);
  return [...pairs, ...(item.details ?? []).map(({ name, value }) => [name, value])];
}
function showPanel() {
  const panel = $("panel"), item = chosen;
  if (!item) return panel.replaceChildren(el("p", {}, "Choose a bar or a mark to see what it is."));
  panel.replaceChildren(el("h2", {}, titleOf(item)), list(facts(item)));
  if (item.isProof) panel.append(el("p", {}, "It is among what proves a broken promise."));
  const go = (text, to) => {
    const button = el("button", { type: "button", class: "goto" }, text);
    button.addEventListener("click", () => choose(to, true));
    return button;
  };
  if (item.shape === "bar") {
    for (const event of item.numbers.map((n) => byEvent.get(`${item.run}#${n}`)).filter(Boolean)) {
      panel.append(el("h3", {}, titleOf(event)), list(facts(event).slice(1).filter(([name]) => name !== "run" && name !== "workflow")), go(`Go to #${event.number}`, event));
    }
  } else if (item.shape === "mark" && item.number !== null) {
    const steps = [["Event before", -1], ["Event after", 1]];
    const found = steps.map(([text, by]) => [text, byEvent.get(`${item.run}#${item.number + by}`)]);
    panel.append(el("div", { class: "steps" }, ...found.filter(([, to]) => to).map(([text, to]) => go(text, to))));
  }
}
function neighbour(by) {
  const seen = inTime.filter(passes);
  const at = chosen ? seen.indexOf(chosen) + by : seen.findIndex((item) => item.from >= view.from);
  if (seen[at]) choose(seen[at], true);
}

// ---- Search.

let place = -1;
function search(text) {
  const wanted = text.trim().toLowerCase();
  place = -1;
  hits = wanted === "" ? [] : inTime.filter((item) => item.words.includes(wanted));
  const named = wanted === "" ? [] : page.lanes.filter((lane) => lane.name.toLowerCase().includes(wanted));
  isHit = new Set([...hits, ...named.map((lane) => lane.name)]);
  // A lane by itself is found at the first thing in it.
  hits = [...named.map((lane) => inTime.find((item) => page.lanes[item.lane] === lane)).filter(Boolean), ...hits];
  count(wanted);
  redraw();
}
function count(wanted) {
  const where = place < 0 ? "" : `${place + 1} of `;
  $("count").textContent = wanted === "" ? "" : `${where}${hits.length} found`;
}
function nextHit(by) {
  if (hits.length === 0) return;
  place = place < 0 ? (by > 0 ? 0 : hits.length - 1) : (place + by + hits.length) % hits.length;
  choose(hits[place], true);
  count($("query").value.trim());
}

// ---- The rest of the page.

// The findings of one cause have one card.
function showFindings() {
  const causes = Map.groupBy(page.findings, ({ oracle, reason }) => `${oracle} ${reason}`);
  const cards = [...causes.values()].map((found) => {
    const card = el("article", { class: "finding" },
      el("h2", {}, `Broken promise: ${found[0].oracle} `, el("code", {}, found[0].reason)),
      el("p", { class: "promise" }, found[0].promise), ...found.slice(0, 2).flatMap(oneFinding));
    if (found.length > 2) {
      const more = el("button", { type: "button" }, `Show ${found.length - 2} more`);
      more.addEventListener("click", () => more.replaceWith(...found.slice(2).flatMap(oneFinding)));
      card.append(more);
    }
    return card;
  });
  if (page.holds) {
    cards.push(el("article", { class: "held" }, el("h2", {}, "Every promise held"), "Nothing that was judged in this world was broken."));
  }
  $("findings").replaceChildren(...cards);
}
function oneFinding({ text, proof }) {
  const events = proof.map(({ run, number }) => [`${run}#${number}`, byEvent.get(`${run}#${number}`)]);
  const buttons = events.filter(([, item]) => item).map(([key, item]) => {
    const button = el("button", { type: "button", "data-event": key }, titleOf(item));
    button.addEventListener("click", () => choose(item, true));
    return button;
  });
  const proofs = buttons.length ? [el("div", { class: "proofs" }, "Proved by", ...buttons)] : [];
  return [el("p", { class: "found" }, text), ...proofs];
}

// The share of worlds that fail, by how many entries of the history they have in common.
function showBlame() {
  if (!page.blame) return;
  const { points, entry } = page.blame;
  const [wide, high, left, top] = [720, 150, 44, 10];
  const most = Math.max(points.at(-1).after, 1);
  const x = (after) => left + (after / most) * (wide - left - 10);
  const y = (rate) => top + (1 - rate) * high;
  const rate = ({ failing, of }) => failing / Math.max(of, 1);
  const line = (x1, y1, x2, y2, kind) => shape("line", { x1, y1, x2, y2, class: kind });
  const word = (at, height, anchor, text) => shape("text", { x: at, y: height, "text-anchor": anchor }, text);
  const chart = shape("svg", { viewBox: `0 0 ${wide} ${high + top + 24}`, role: "img", "aria-label": "How likely the failure is, by entries of the history" },
    ...[0, 0.5, 1].flatMap((share) => [line(left, y(share), wide - 10, y(share), "axis"), word(left - 6, y(share) + 4, "end", `${share * 100} %`)]),
    word(left, high + top + 18, "start", "the start"), word(wide - 10, high + top + 18, "end", `entry ${most}`),
    shape("polyline", { points: points.map((point) => `${x(point.after)},${y(rate(point))}`).join(" ") }),
    ...points.map((point) => shape("circle", { cx: x(point.after), cy: y(rate(point)), r: 3 },
      shape("title", {}, `after entry ${point.after}, ${moment(point.at)}: ${point.failing} of ${point.of} fail`))));
  const parts = [el("h2", {}, "What made it certain"), chart];
  if (entry) {
    chart.append(line(x(entry.number), top, x(entry.number), high + top, "entry"));
    const go = el("button", { type: "button", class: "goto" }, "Show this time");
    go.addEventListener("click", () => show(entry.at - page.until / 40, entry.at + page.until / 40));
    parts.push(el("p", {}, `After entry ${entry.number}, at ${moment(entry.at)}: `, el("strong", {}, entry.name)), go);
  } else parts.push(el("p", {}, "From the start on: it fails whatever is drawn."));
  $("blame").replaceChildren(...parts);
  $("blame").hidden = false;
}

function setShown(kind, on) {
  isShown[kind] = on;
  $(`kind-${kind}`).checked = on;
  layOut();
  redraw();
}
function setRun(value) {
  run = $("run").value = value;
  layOut();
  redraw();
}
function swatch(kind) {
  const icon = shape("svg", { width: 12, height: 12, "aria-hidden": "true" });
  const bars = { attempt: "attempt well", arrival: "arrival well", delay: "delay", due: "due" };
  if (bars[kind]) icon.append(shape("rect", { y: kind[0] === "d" ? 4 : 1, width: 12, height: kind[0] === "d" ? 4 : 10, rx: 2, class: bars[kind] }));
  else if (["dead", "still", "window"].includes(kind)) icon.append(shape("rect", { width: 12, height: 12, class: kind }));
  else icon.append(sign({ kind }, 6, 6));
  return icon;
}
function build() {
  $("facts").append(...page.facts.map(({ name, value }) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  showFindings();
  showBlame();
  for (const { kind, name, on } of KINDS) {
    const number = items.filter((item) => item.kind === kind).length;
    const box = el("input", { type: "checkbox", id: `kind-${kind}` });
    box.checked = on;
    box.addEventListener("change", () => setShown(kind, box.checked));
    const label = el("label", { for: box.id }, box, swatch(kind), `${name} ${number}`);
    label.hidden = number === 0;
    $("kinds").append(label);
  }
  $("run").append(el("option", { value: "" }, "all"),
    ...page.runs.map((of, at) => el("option", { value: at }, `${of.workflow} ${of.id.slice(0, 8)}`)));
  const head = el("tr", {}, ...["kind", "drawn", "struck"].map((name) => el("th", {}, name)));
  const rows = page.strikes.map(({ kind, drawn: times, struck }) =>
    el("tr", {}, el("td", {}, kind), el("td", { class: "number" }, times), el("td", { class: "number" }, struck || "never")));
  $("strikes").querySelector("table").append(head, ...rows);
  $("strikes").hidden = rows.length === 0;
  $("scenario").querySelector("pre").textContent = page.scenario;
}

// ---- Hands.

function hands() {
  const chart = $("chart");
  $("in").addEventListener("click", () => zoom(2));
  $("out").addEventListener("click", () => zoom(0.5));
  $("all").addEventListener("click", showAll);
  $("run").addEventListener("change", () => setRun($("run").value));
  $("query").addEventListener("input", () => search($("query").value));
  $("before").addEventListener("click", () => nextHit(-1));
  $("search").addEventListener("submit", (event) => { event.preventDefault(); nextHit(1); });
  $("query").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); nextHit(-1); }
  });
  chart.addEventListener("wheel", (event) => {
    event.preventDefault();
    const aside = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (aside) pan((event.deltaX || event.deltaY) / scale());
    else zoom(Math.exp(-event.deltaY / 400), timeAt(event.clientX));
  }, { passive: false });
  dragging(chart);
  document.addEventListener("keydown", keys);
  new ResizeObserver(redraw).observe(chart);
}

function dragging(chart) {
  const fingers = new Map();
  let moved = 0;
  chart.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    fingers.set(event.pointerId, event.clientX);
    moved = fingers.size > 1 ? 99 : 0;
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (before === undefined) return;
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    const by = event.clientX - before;
    fingers.set(event.pointerId, event.clientX);
    moved += Math.abs(by);
    if (moved > 4) chart.classList.add("drags");
    if (other === undefined) { if (moved > 4) pan(-by / scale()); return; }
    const ratio = Math.abs(event.clientX - other) / Math.max(Math.abs(before - other), 1);
    zoom(Math.min(Math.max(ratio, 0.5), 2), timeAt((event.clientX + other) / 2));
  });
  const up = (event) => {
    const was = fingers.delete(event.pointerId);
    if (fingers.size === 0) chart.classList.remove("drags");
    if (was && event.type === "pointerup" && moved <= 4) choose(under(event), false);
  };
  chart.addEventListener("pointerup", up);
  chart.addEventListener("pointercancel", up);
}
// The nearest thing within reach of a finger; of several, the topmost.
function under(event) {
  const box = $("chart").getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  const away = (low, high, at) => Math.max(low - at, at - high, 0);
  let best = null, least = 9;
  for (const { item, left, right, top, bottom } of drawn) {
    const far = Math.hypot(away(left, right, px), away(top, bottom, py));
    if (far < least || (far === least && best)) [best, least] = [item, far];
  }
  return best;
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inField = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) && event.target.type !== "checkbox";
  if (event.key === "Escape") { choose(null); return $("query").blur(); }
  if (inField) return;
  const onChart = event.target === $("chart"), span = view.until - view.from;
  const does = {
    "+": () => zoom(2), "=": () => zoom(2), "-": () => zoom(0.5), 0: showAll, "/": () => $("query").focus(),
    ...(onChart && {
      ArrowLeft: () => pan(-span / 8), ArrowRight: () => pan(span / 8),
      ArrowUp: () => neighbour(-1), ArrowDown: () => neighbour(1),
    }),
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}

build();
hands();
layOut();
measure();
showPanel();
showBusy();
