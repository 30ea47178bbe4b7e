// Uploaded workflows: their text, and runs of them.

import { get, post, send } from "./api.js";
import { clicks, h, show } from "./dom.js";
import { ago, count, many, short } from "./words.js";

const PAGE = 50;
const TYPES = { toml: "application/toml", json: "application/json", ir: "text/plain" };

export function workflows(root, app, signal) {
  let name = null;
  let list = null;
  let found = null;
  let refusal = null;
  let wrong = null;
  let after = null;

  clicks(root, {
    again: () => load(),
    start: () => start(),
    more: () => app.go("workflows", { after: list.next }),
    check: () => upload(true),
    upload: () => upload(false),
  }, signal);

  function open(route) {
    name = route.rest[0] ?? null;
    after = route.query.after ?? null;
    [found, refusal, wrong] = [null, null, null];
    scrollTo(0, 0);
    draw();
    load();
  }

  async function load() {
    const wanted = name;
    try {
      const answer = await get(name === null ? `/v1/workflows${app.query({ after, limit: PAGE })}` : `/v1/workflows/${encodeURIComponent(name)}`, signal);
      if (wanted !== name) return;
      [list, found, refusal] = name === null ? [answer, null, null] : [list, answer, null];
      app.live("live");
    } catch (error) {
      if (signal.aborted || wanted !== name) return;
      refusal = error;
    }
    draw();
  }

  async function start() {
    wrong = null;
    let input;
    try {
      const text = root.querySelector("#input").value.trim();
      input = text ? JSON.parse(text) : {};
    } catch (error) {
      wrong = { title: "The input is no JSON", detail: error.message };
      return draw();
    }
    try {
      const { run } = await post("/v1/runs", { workflow: name, input });
      app.tell(["Started run ", h("a", { href: `#/runs/${run}` }, short(run)), "."]);
    } catch (error) {
      wrong = error.problem;
    }
    draw();
  }

  async function upload(only_check) {
    const value = (id) => root.querySelector(`#${id}`).value;
    const [called, format, text] = [value("upload-name").trim(), value("upload-format"), value("upload-text")];
    wrong = null;
    try {
      if (only_check) {
        const answer = await post("/v1/workflows/validate", { definition: text, format, ...(called ? { name: called } : {}) });
        wrong = answer.valid ? null : { title: "It makes no sense", diagnostics: answer.diagnostics };
        if (answer.valid) app.tell(answer.lint?.length ? `It makes sense, with ${many(answer.lint.length, "remark", "remarks")}.` : "It makes sense.");
      } else {
        await send("PUT", `/v1/workflows/${encodeURIComponent(called)}`, text, TYPES[format]);
        app.tell(`${called} is uploaded.`);
        return app.go(`workflows/${encodeURIComponent(called)}`, {});
      }
    } catch (error) {
      wrong = error.problem ?? { title: error.message };
    }
    draw();
  }

  function draw() {
    if (signal.aborted) return;
    app.named();
    if (name === null) show(root, h("h1", { class: "unseen" }, "Workflows"), refusal ? app.refused(refusal) : names(), form());
    else show(root, h("p", { class: "back" }, h("a", { href: "#/workflows" }, "← Workflows")), refusal ? app.refused(refusal) : text());
  }

  function names() {
    if (!list) return h("p", { class: "empty" }, "Asking for workflows …");
    if (!list.workflows.length) return h("p", { class: "empty" }, "No workflow is uploaded. Runs can bring their own definition.");
    return [h("table", { class: "list plain", "data-key": "names" },
      h("thead", {}, h("tr", {}, ["Workflow", "Format", "Revision", "Uploaded"].map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", {}, list.workflows.map((one) => h("tr", { "data-key": one.name },
        h("td", { class: "c-name" }, h("a", { class: "row", href: `#/workflows/${encodeURIComponent(one.name)}` }, one.name)),
        h("td", {}, one.format), h("td", {}, count(one.revision)), h("td", {}, one.at ? ago(one.at) : ""))))),
    list.next || after
      ? h("nav", { class: "pages", "data-key": "pages", "aria-label": "Pages" },
        after ? h("a", { href: "#/workflows" }, "First") : null,
        h("button", { type: "button", "data-do": "more", disabled: !list.next }, "More"))
      : null];
  }

  function form() {
    return h("details", { class: "form", "data-key": "form" }, h("summary", {}, "Upload one"),
      h("label", { class: "field" }, h("span", {}, "Name"), h("input", { id: "upload-name", "data-keep": "", maxlength: 200, autocomplete: "off", spellcheck: "false" })),
      h("label", { class: "field" }, h("span", {}, "Format"), h("select", { id: "upload-format", "data-keep": "" },
        Object.keys(TYPES).map((format) => h("option", { value: format }, format)))),
      h("label", { class: "field tall" }, h("span", {}, "Text"), h("textarea", { id: "upload-text", "data-keep": "", rows: 12, spellcheck: "false" })),
      problem(),
      h("div", { class: "buttons" }, h("button", { type: "button", "data-do": "check" }, "Check"), h("button", { type: "button", class: "main", "data-do": "upload" }, "Upload")));
  }

  function problem() {
    if (!wrong) return null;
    return h("div", { class: "callout bad", role: "alert" }, h("b", {}, wrong.title ?? "Refused"), wrong.detail ? `: ${wrong.detail}` : null,
      wrong.diagnostics?.length ? h("ul", {}, wrong.diagnostics.slice(0, 20).map((one) =>
        h("li", {}, h("code", {}, `${one.line}:${one.column}`), one.field ? [" ", h("code", {}, one.field)] : null, ` ${one.message}`, one.help ? h("span", { class: "dim" }, ` ${one.help}`) : null))) : null);
  }

  function text() {
    if (!found) return h("p", { class: "empty" }, "Asking for the workflow …");
    return [
      h("header", { class: "run-head" }, h("div", { class: "title" }, h("h1", {}, found.name)),
        h("dl", { class: "facts" },
          h("div", {}, h("dt", {}, "Format"), h("dd", {}, found.format)),
          h("div", {}, h("dt", {}, "Revision"), h("dd", {}, count(found.revision))),
          found.at ? h("div", {}, h("dt", {}, "Uploaded"), h("dd", {}, ago(found.at))) : null,
          h("div", {}, h("dt", {}, "Runs"), h("dd", {}, h("a", { href: `#/runs${app.query({ workflow: found.name })}` }, "show"))))),
      h("section", {}, h("h2", {}, "Start a run"),
        h("label", { class: "field tall" }, h("span", {}, "Input, JSON"), h("textarea", { id: "input", "data-keep": "", rows: 4, spellcheck: "false", placeholder: "{}" })),
        problem(),
        h("div", { class: "buttons" }, h("button", { type: "button", class: "main", "data-do": "start" }, "Start"))),
      h("section", {}, h("h2", {}, "Text"), h("pre", { tabindex: 0 }, found.text)),
    ];
  }

  return { title: () => name ?? "Workflows", open, keys: { r: load } };
}
