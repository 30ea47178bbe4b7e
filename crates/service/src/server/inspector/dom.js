// Elements, and how a view becomes its next state.
//
// Whatever comes from the service is text: nothing here reads markup, and only attributes that can
// neither run nor load anything are set.

const SVG = "http://www.w3.org/2000/svg";

const ATTRIBUTES = new Set([
  "class", "id", "title", "role", "type", "name", "value", "placeholder", "for", "tabindex",
  "datetime", "colspan", "scope", "rows", "cols", "maxlength", "autocomplete", "spellcheck", "open",
  "hidden", "disabled", "checked", "selected", "required", "readonly", "inputmode", "lang",
  // SVG
  "viewBox", "width", "height", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "d",
  "text-anchor", "marker-end", "markerWidth", "markerHeight", "refX", "refY", "orient", "focusable",
]);

/// An element: `svg:rect` is one of SVG. Children that are null or false are left out.
export function h(tag, attributes, ...children) {
  const element = tag.startsWith("svg:")
    ? document.createElementNS(SVG, tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") {
      for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    } else if (name === "href") {
      // A link leads within this page.
      if (!String(value).startsWith("#")) throw new Error(`a link that leads away: ${value}`);
      element.setAttribute(name, value);
    } else if (ATTRIBUTES.has(name) || /^(aria|data)-[a-z-]+$/.test(name)) {
      element.setAttribute(name, value === true ? "" : String(value));
    } else {
      throw new Error(`an attribute that is not known: ${name}`);
    }
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/// Makes `live` hold these children, keeping what is the same, with its focus and its place.
/// Children with a `data-key` are known by it. What has `data-keep` is left alone once it is there,
/// and whether details are open is their reader's business.
export function show(live, ...children) {
  const fresh = document.createDocumentFragment();
  add(fresh, children);
  children_of(live, fresh);
}

function children_of(live, fresh) {
  const known = new Map();
  for (const child of live.children) if (key(child)) known.set(key(child), child);
  let at = live.firstChild;
  for (const next of [...fresh.childNodes]) {
    let match = key(next) ? known.get(key(next)) : at;
    if (!match || key(match) !== key(next) || match.nodeName !== next.nodeName) match = null;
    if (!match) {
      live.insertBefore(next, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else live.insertBefore(match, at);
    become(match, next);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function key(node) {
  return node.dataset?.key;
}

function become(live, next) {
  if (live.nodeType === Node.TEXT_NODE) {
    if (live.data !== next.data) live.data = next.data;
    return;
  }
  if (live.nodeType !== Node.ELEMENT_NODE || live.hasAttribute("data-keep")) return;
  for (const { name } of [...live.attributes]) {
    if (name !== "style" && name !== "open" && !next.hasAttribute(name)) live.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    if (name === "style" || name === "open" || live.getAttribute(name) === value) continue;
    live.setAttribute(name, value);
  }
  if (live.style.cssText !== next.style.cssText) live.style.cssText = next.style.cssText;
  children_of(live, next);
}

/// Calls `does[name]` when something with `data-do="name"` within `root` is clicked.
export function clicks(root, does, signal) {
  root.addEventListener("click", (event) => {
    const element = event.target.closest("[data-do]");
    const act = element && root.contains(element) && does[element.dataset.do];
    if (act) act(element, event);
  }, { signal });
}

/// A function that acts once, a little after it was last called.
export function settle(delay, act) {
  let timer = null;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), delay);
  };
}

/// A function that acts at once and then at most so often; the last call is never lost.
export function often(delay, act) {
  let timer = null;
  let again = false;
  const run = () => {
    again = false;
    act();
    timer = setTimeout(() => {
      timer = null;
      if (again) run();
    }, delay);
  };
  return () => (timer === null ? run() : void (again = true));
}
