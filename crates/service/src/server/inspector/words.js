// How times, lengths and phases are said.

import { h } from "./dom.js";

/// The store's time minus this machine's, in milliseconds: machines may disagree by any amount.
let ahead = 0;

/// An answer told the store's time.
export function store_time(text) {
  const at = Date.parse(text);
  if (!Number.isNaN(at)) ahead = at - Date.now();
}

export function now() {
  return Date.now() + ahead;
}

/// `840 ms`, `2.4 s`, `3 min 12 s`, `2 h 5 min`, `3 d 4 h`.
export function length(ms) {
  const t = Math.max(0, ms);
  if (t < 1) return t === 0 ? "0 ms" : "< 1 ms";
  if (t < 1_000) return `${Math.round(t)} ms`;
  if (t < 59_950) return `${(t / 1_000).toFixed(t < 9_950 ? 1 : 0)} s`;
  const two = (whole, one, part, other) => (part ? `${whole} ${one} ${part} ${other}` : `${whole} ${one}`);
  const s = Math.round(t / 1_000);
  if (s < 3_600) return two(Math.floor(s / 60), "min", s % 60, "s");
  const m = Math.round(s / 60);
  if (m < 1_440) return two(Math.floor(m / 60), "h", m % 60, "min");
  const hours = Math.round(m / 60);
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

/// A time as how long ago it was, or when it will be; whole where one points at it.
export function ago(text) {
  const at = Date.parse(text);
  const past = now() - at;
  const near = Math.abs(past) < 1_000;
  const said = near ? "now" : past > 0 ? `${rough(past)} ago` : `in ${rough(-past)}`;
  return h("time", { datetime: text, title: whole(text) }, said);
}

/// The largest part of a length.
function rough(ms) {
  const [n, unit] = length(ms).split(" ");
  return `${unit === "s" ? Math.floor(Number(n)) : n} ${unit}`;
}

/// A time as a date and a time of day, in the reader's zone.
export function whole(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return String(text);
  const two = (n) => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day} ${time}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/// A time of day.
export function clock(text) {
  return h("time", { datetime: text, title: whole(text) }, whole(text).slice(11));
}

export function count(n) {
  return Number(n).toLocaleString("en");
}

export function many(n, one, more) {
  return `${count(n)} ${n === 1 ? one : more}`;
}

export function percent(share) {
  return `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;
}

/// The first part of an id, the whole where one points at it.
export function short(id) {
  return h("code", { class: "id", title: id }, id.slice(0, 18));
}

export function cut(text, most) {
  const all = [...String(text)];
  return all.length > most ? `${all.slice(0, most - 1).join("")}…` : String(text);
}

/// The tone of each phase of a run, a step or a task, and of each status of a letter.
const TONES = {
  running: "busy", active: "busy", "half open": "odd",
  completed: "good", succeeded: "good", redriven: "good", closed: "good",
  failed: "bad", open: "bad",
  paused: "odd", quarantined: "bad", waiting: "odd", queued: "odd",
  cancelled: "calm", deactivated: "calm", unreachable: "calm", skipped: "calm", discarded: "calm",
};

/// A shape for each tone, so that colour is never alone.
const SHAPES = {
  busy: "M8 2.5a5.5 5.5 0 1 0 5.5 5.5",
  good: "M3 8.5l3.2 3.2L13 4.8",
  bad: "M4 4l8 8M12 4l-8 8",
  odd: "M5.5 3.5v9M10.5 3.5v9",
  calm: "M3.5 8h9",
};

export function tone(phase) {
  return TONES[phase] ?? "calm";
}

export function mark(phase) {
  return h("svg:svg", { class: `mark ${tone(phase)}`, viewBox: "0 0 16 16", width: 12, height: 12, "aria-hidden": "true", focusable: "false" },
    h("svg:path", { d: SHAPES[tone(phase)] }));
}

/// A phase as a shape, a colour and a word.
export function phase(name) {
  return h("span", { class: `phase ${tone(name)}` }, mark(name), h("span", {}, words(name)));
}

/// A name of several words.
export function words(name) {
  return name.replaceAll("_", " ");
}

/// A failure's class as a chip.
export function kind(retryable) {
  return h("span", { class: `chip ${retryable ? "odd" : "bad"}` }, retryable ? "retryable" : "permanent");
}
