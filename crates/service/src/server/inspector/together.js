// Doing the same to everything that a filter shows: counted first, then one after the other.

import { get } from "./api.js";
import { many } from "./words.js";

/// The entries of one page of what is counted.
const PAGE = 500;

/// Every entry of a list, page after page. `place` is the parameter that names where a page begins.
async function every(path, parameters, list, place, signal) {
  const found = [];
  for (let next = null; ;) {
    const query = new URLSearchParams({ ...parameters, limit: String(PAGE), ...(next ? { [place]: next } : {}) });
    const page = await get(`${path}?${query}`, signal);
    found.push(...page[list]);
    next = page.next;
    if (!next) return found;
  }
}

/// Counts what the parameters select, asks, and calls `act` with each entry and what was given. One
/// that is refused stops no other.
export async function together(app, signal, { path, parameters, list, place, one, more, word, done, reason, bad, act }) {
  let chosen;
  try {
    chosen = await every(path, parameters, list, place, signal);
  } catch (error) {
    if (!signal.aborted) app.tell(error.message, true);
    return;
  }
  if (!chosen.length) return app.tell(`No ${one} is like that.`);
  const given = await app.confirm({ title: `${word} ${many(chosen.length, one, more)}?`, word, reason, bad });
  if (!given) return;
  let refused = null;
  let count = 0;
  for (const entry of chosen) {
    if (signal.aborted) return;
    try {
      await act(entry, given);
      count += 1;
    } catch (error) {
      refused = error;
    }
  }
  app.tell(`${many(count, one, more)} ${done}.`);
  if (refused) app.tell(`${many(chosen.length - count, one, more)} not: ${refused.message}`, true);
}
