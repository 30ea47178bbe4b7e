// What is asked of the service: answers, refusals, streams, and the token that it may want.

import { h } from "./dom.js";

const KEPT = "retrial-token";
/// How long a stream that broke waits before it is opened again, in milliseconds.
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;

/// The service said no, or nothing.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

/// The answer to a GET, as JSON.
export async function get(path, signal) {
  return (await ask(path, { headers: { accept: "application/json" }, signal })).json();
}

/// The answer to a POST with a JSON body.
export async function post(path, body) {
  return send("POST", path, JSON.stringify(body ?? {}), "application/json");
}

/// The answer to a request that brings a text.
export async function send(method, path, body, type) {
  const headers = { accept: "application/json", "content-type": type };
  return (await ask(path, { method, headers, body })).json();
}

async function ask(path, options) {
  let wrong = false;
  for (;;) {
    const token = sessionStorage.getItem(KEPT);
    const headers = { ...options.headers };
    if (token) headers.authorization = `Bearer ${token}`;
    let response;
    try {
      response = await fetch(path, { ...options, headers, credentials: "omit", redirect: "error" });
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new Refused(0, { title: "The service can't be reached", detail: "" });
    }
    if (response.ok) return response;
    if (response.status === 401) {
      await token_asked(wrong || token !== null, token);
      wrong = true;
      continue;
    }
    let problem = { title: `${response.status} ${response.statusText}` };
    try {
      problem = await response.json();
    } catch { /* A proxy's page says no more than the status. */ }
    throw new Refused(response.status, problem);
  }
}

let asking = null;

/// Asks for the token, once for all who want it. Kept for this tab, until it is closed.
function token_asked(wrong, tried) {
  if (sessionStorage.getItem(KEPT) !== tried) return Promise.resolve();
  asking ??= new Promise((done) => {
    const field = h("input", { type: "password", name: "token", id: "token", required: true, autocomplete: "off", spellcheck: "false" });
    const dialog = h("dialog", { id: "token-dialog", "aria-labelledby": "token-title" },
      h("form", {},
        h("h2", { id: "token-title" }, "This service wants a token"),
        wrong ? h("p", { class: "bad" }, "That token was refused.") : null,
        h("label", { for: "token" }, "Bearer token"),
        field,
        h("p", { class: "dim" }, "It is kept in this tab until the tab is closed."),
        h("div", { class: "buttons" }, h("button", { class: "main" }, "Go on"))));
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEPT, field.value.trim());
      dialog.remove();
      asking = null;
      done();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

/// Reads server-sent events until `signal` fires or `on` gives false, opening the stream again
/// where it breaks and going on after the last event that had a number. Rests while nobody looks.
/// `live` gets the state of the stream: `live`, `waiting` or `done`.
export async function follow(path, { on, live, signal }) {
  let last = null;
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    await visible(signal);
    const unseen = new AbortController();
    const hide = () => document.hidden && unseen.abort();
    document.addEventListener("visibilitychange", hide, { signal });
    try {
      const headers = { accept: "text/event-stream" };
      if (last !== null) headers["last-event-id"] = last;
      const response = await ask(path, { headers, signal: AbortSignal.any([signal, unseen.signal]) });
      live("live");
      for await (const event of events(response.body)) {
        wait = FIRST_WAIT;
        if (event.id !== null) last = event.id;
        if (event.kind === "closing") break;
        if (on(event.kind, JSON.parse(event.data)) === false) return live("done");
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
    if (unseen.signal.aborted) continue;
    live("waiting");
    await sleep(wait, signal);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { kind: "message", data: [], id: null };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (event.data.length) yield { ...event, data: event.data.join("\n") };
        event = { kind: "message", data: [], id: null };
        continue;
      }
      const [, field, text] = /^([a-z]*): ?(.*?)\r?$/.exec(line) ?? [];
      if (field === "event") event.kind = text;
      if (field === "data") event.data.push(text);
      if (field === "id") event.id = text;
    }
  }
}

function visible(signal) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

export function sleep(time, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, time);
    signal?.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}
