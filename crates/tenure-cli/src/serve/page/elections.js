// Elections: who leads, in which term, for how long yet; and what was before.

import { terms } from "./draw.js";
import { Facts, clock, count, h, json, put, reshape, shape, span, words } from "./text.js";

const sign = ({ leader }) => (leader ? (leader.lease ? "lease" : "led") : "vacant");

export function elections(app) {
  const { state } = app;
  const table = state.tables.elections;
  return {
    id: "elections",
    label: "Elections",
    empty: "no elections",
    states: [
      { id: "led", label: "led" },
      { id: "lease", label: "leased" },
      { id: "vacant", label: "vacant" },
      { id: "late", label: "late", shape: "suspect" },
    ],
    rows: () => table.ordered(),
    has: (row, wanted) => table.has(row, wanted),
    state: (row) => (late(app, row.data) ? [sign(row.data), "late"] : sign(row.data)),
    tone: (row) => (late(app, row.data) ? "late" : sign(row.data)),
    columns: [
      { id: "state", label: "", fill: (cell, { data }) => (late(app, data) ? reshape(cell, "suspect", "late") : reshape(cell, sign(data))) },
      { id: "name", label: "election", by: (row) => row.sort, fill: (cell, { data }) => put(cell, data.name) },
      { id: "leader", label: "leader", by: (row) => row.data.leader?.node ?? "", fill: (cell, { data }) => put(cell, data.leader?.node ?? "–") },
      { id: "term", label: "term", down: true, by: (row) => row.data.term ?? 0, fill: (cell, { data }) => put(cell, data.term == null ? "–" : count(data.term)) },
      { id: "held", label: "for", title: "how long it has led", by: (row) => -(row.data.leader?.since_ms ?? 0), fill: (cell, { data }, now) => put(cell, data.leader ? span(now - data.leader.since_ms) : "") },
      {
        id: "left",
        label: "left ≈",
        title: "if it were not renewed any more, as far as this page knows",
        make: (cell) => cell.append(h("span", { class: "meter" }, h("i")), h("span", { class: "value" })),
        fill: (cell, { data }) => remains(app, cell, data),
      },
      { id: "waiting", label: "waiting", title: "candidates that wait", down: true, by: (row) => row.data.waiting, fill: (cell, { data }) => put(cell, data.waiting ? count(data.waiting) : "·") },
    ],
    detail: (row) => detail(app, row),
  };
}

/** Its session should have been renewed by now. */
function late(app, data) {
  return app.linked && data.leader != null && (app.state.left(data) ?? 1) < 0;
}

function remains(app, cell, data) {
  const left = app.linked ? app.state.left(data) : null;
  const share = left == null ? 0 : Math.min(1, Math.max(0, left / data.ttl_ms));
  cell.firstChild.firstChild.style.transform = `scaleX(${share.toFixed(3)})`;
  put(cell.lastChild, left == null ? (data.leader ? "–" : "") : left < 0 ? "late" : span(left));
}

/** One election: its leader, who waits, its terms. */
function detail(app, row) {
  const canvas = h("canvas", { class: "wide", "aria-hidden": "true" });
  const about = new Facts();
  const payload = h("pre", { hidden: true });
  const actions = h("div", { class: "actions" });
  const waiting = h("div");
  const title = h("h3", { hidden: true }, "terms");
  const history = h("ol", { class: "history" });
  const trouble = h("p", { class: "trouble", hidden: true });
  let more = null;
  let asked = null;

  const load = async () => {
    const { term, leader, waiting: candidates } = row.data;
    const now = JSON.stringify([term, leader?.session, candidates]);
    if (asked === now) return;
    asked = now;
    try {
      const found = await app.live.call("GET", `/v1/elections/${encodeURIComponent(row.key)}`);
      if (asked !== now) return;
      more = found;
      trouble.hidden = true;
      render();
      app.panel.loaded();
    } catch (error) {
      asked = null;
      put(trouble, error.message);
      trouble.hidden = false;
    }
  };
  const render = () => {
    actions.replaceChildren(...buttons(app, row, more));
    payload.hidden = more.payload == null;
    put(payload, payload.hidden ? "" : published(more.payload));
    waiting.replaceChildren(...queue(app, more.candidates ?? []));
    title.hidden = !more.history?.length;
    history.replaceChildren(...[...(more.history ?? [])].reverse().map((term, i, all) => past(app, term, all[i - 1] ?? more.leader)).flat());
  };
  const refresh = () => {
    const { data } = row;
    const now = app.state.now();
    const left = app.linked ? app.state.left(data) : null;
    about.show([
      ["leader", data.leader ? data.leader.node : "nobody", data.leader ? () => app.go("members", data.leader.node) : null],
      ["term", data.term == null ? "" : count(data.term)],
      ["since", data.leader ? `${clock(data.leader.since_ms, now)}, ${span(now - data.leader.since_ms)} ago` : ""],
      ["left ≈", left == null ? "" : left < 0 ? `late, ttl ${span(data.ttl_ms)}` : `${span(left)} of ${span(data.ttl_ms)}`],
      ["kind", data.leader?.lease ? "lease" : ""],
      ["session", data.leader?.session],
    ]);
    if (app.linked) load();
  };
  return {
    title: row.data.name,
    loads: true,
    sign: () => (late(app, row.data) ? ["suspect", "late"] : [sign(row.data), sign(row.data)]),
    body: [canvas, about.element, payload, actions, trouble, waiting, title, history],
    refresh,
    tick: (width) => {
      refresh();
      terms(canvas, width, 10, more?.history ?? [], row.data.leader, app.state.now());
    },
  };
}

/** What a leader has published: text, which may be JSON. */
function published(text) {
  try {
    return json(JSON.parse(text));
  } catch {
    return text;
  }
}

function queue(app, candidates) {
  if (!candidates.length) return [];
  const item = ({ node, priority }) =>
    h("button", { class: "link", onclick: () => app.go("members", node) }, priority ? `${node} · ${priority}` : node);
  return [h("h3", {}, `waiting ${count(candidates.length)}`), h("div", { class: "links" }, ...candidates.slice(0, 50).map(item))];
}

/** A term that ended: how long nobody led after it; who led, how long, why it ended. */
function past(app, term, next) {
  const gap = next ? next.since_ms - term.until_ms : 0;
  const vacant = h("li", { class: "gap", title: "nobody led" }, shape("vacant", "nobody led for"), gap < 1000 ? `${count(gap)} ms` : span(gap));
  const led = h(
    "li",
    {},
    h("b", {}, String(term.term)),
    h("span", { class: "who" }, term.node),
    h("span", { class: "why" }, term.cause ? words(term.cause) : words(term.end)),
    h("time", { datetime: new Date(term.until_ms).toISOString(), title: `${clock(term.since_ms)} – ${clock(term.until_ms)}` }, clock(term.until_ms, app.state.now())),
    h("span", { class: "long" }, span(term.until_ms - term.since_ms)),
  );
  return gap > 0 ? [vacant, led] : [led];
}

/** What an operator can do. */
function buttons(app, row, more) {
  const { data } = row;
  if (app.role !== "operate" || !data.leader) return [];
  const path = `/v1/elections/${encodeURIComponent(data.name)}`;
  const leader = data.leader.node;
  const rest = (more?.candidates ?? []).map(({ node }) => node).filter((node) => node !== leader);
  const heir = rest.length ? "the next candidate leads" : "nobody waits: nobody leads until somebody stands";
  const ask = {
    name: "Ask to resign",
    title: `Ask ${leader} to resign?`,
    what: [`It leads ${data.name}.`, `When it has finished its work it resigns; then ${heir}.`],
    done: `${leader} was asked`,
    act: () => app.live.call("POST", `${path}/ask`, { to: null }),
  };
  const hand = {
    name: "Hand over",
    title: `Hand over ${data.name}?`,
    what: [`${leader} is asked to make way for`],
    choose: rest,
    done: `${leader} was asked`,
    act: (to) => app.live.call("POST", `${path}/ask`, { to }),
  };
  const depose = {
    name: "Depose",
    danger: true,
    title: `Depose ${leader}?`,
    what: [`${data.name}, term ${data.term}, is taken from it at once, in the midst of its work. Then ${heir}.`],
    done: `${leader} was deposed`,
    act: () => app.live.call("POST", `${path}/depose`),
  };
  // The holder of a lease hears nothing: it can't be asked.
  const wanted = data.leader.lease ? [depose] : rest.length ? [ask, hand, depose] : [ask, depose];
  return wanted.map((action) => app.button(action));
}
