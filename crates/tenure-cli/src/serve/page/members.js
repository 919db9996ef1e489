// Members, each on a lane of time.

import { lane } from "./draw.js";
import { WINDOW_MS } from "./state.js";
import { Facts, clock, count, h, put, reshape, span, words } from "./text.js";

const RANK = { suspect: 0, gone: 1, live: 2, forgotten: 3 };
const labelled = (labels) => Object.entries(labels ?? {}).map(([name, value]) => `${name}=${value}`).join(" ");
const how = (data) => (data.cause ? words(data.cause) : data.state);

export function members(app) {
  const { state } = app;
  const table = state.tables.members;
  const draw = (canvas, row, now, width, height) => lane(canvas, Math.max(40, width), height, row, state.gaps, now);
  return {
    id: "members",
    label: "Members",
    empty: "no members",
    states: [
      { id: "live", label: "live" },
      { id: "suspect", label: "suspect" },
      { id: "gone", label: "gone" },
    ],
    rows: () => table.ordered(),
    has: (row, wanted) => table.has(row, wanted),
    state: (row) => row.data.state,
    tone: (row) => row.data.state,
    columns: [
      { id: "state", label: "", fill: (cell, { data }) => reshape(cell, data.state, how(data)) },
      { id: "name", label: "node", by: (row) => row.sort, fill: (cell, { data }) => put(cell, data.node) },
      {
        id: "lane",
        label: `${WINDOW_MS / 60_000} minutes`,
        make: (cell) => cell.append(h("canvas", { "aria-hidden": "true" })),
        fill: (cell, row, now, width) => draw(cell.firstChild, row, now, width - 16, 24),
      },
      {
        id: "seen",
        label: "seen",
        title: "since its last heartbeat",
        by: (row) => [RANK[row.data.state], row.data.last_seen_ms].join(),
        fill: (cell, { data }, now) => put(cell, app.linked || data.state === "gone" ? span(Math.max(0, now - data.last_seen_ms)) : "–"),
      },
      { id: "up", label: "joined", title: "how long ago", by: (row) => -row.data.joined_at_ms, fill: (cell, { data }, now) => put(cell, span(now - data.joined_at_ms)) },
      { id: "address", label: "address", fill: (cell, { data }) => put(cell, data.address ?? "") },
      { id: "labels", label: "labels", fill: (cell, { data }) => put(cell, labelled(data.labels)) },
    ],
    detail: (row) => detail(app, row, draw),
  };
}

/** One member: what it is, and what it leads. */
function detail(app, row, draw) {
  const canvas = h("canvas", { class: "wide", "aria-hidden": "true" });
  const about = new Facts();
  const leads = h("div", { class: "links" });
  const title = h("h3", {});
  const refresh = () => {
    const { data } = row;
    const now = app.state.now();
    about.show([
        ["state", data.cause ? `${data.state}, ${words(data.cause)}` : data.state],
        ["since", data.state === "live" ? "" : `${span(now - data.changed_at_ms)} ago`],
        ["joined", `${clock(data.joined_at_ms, now)}, ${span(now - data.joined_at_ms)} ago`],
        ["heartbeat", `every ${span(data.ttl_ms / 3)}, ttl ${span(data.ttl_ms)}`],
        ["renewals", data.renewals == null ? "" : count(data.renewals)],
        ["incarnation", String(data.incarnation ?? "")],
        ["session", data.session],
        ["address", data.address],
        ["owner", data.owner],
        ["version", data.version],
        ["labels", labelled(data.labels)],
    ]);
    const led = [];
    for (const election of app.state.tables.elections.rows.values()) if (election.data.leader?.session === data.session) led.push(election);
    put(title, `leads ${count(led.length)}`);
    const shown = led.slice(0, 50).map(({ key }) => key).join("\n");
    if (leads.shown === shown) return;
    leads.shown = shown;
    leads.replaceChildren(...led.slice(0, 50).map(({ key }) => h("button", { class: "link", onclick: () => app.go("elections", key) }, key)));
  };
  return {
    title: row.data.node,
    sign: () => [row.data.state, how(row.data)],
    body: [canvas, about.element, title, leads],
    refresh,
    tick: (width) => {
      refresh();
      draw(canvas, row, app.state.now(), width, 40);
    },
  };
}
