// What happened, the newest first.

import { clock, put, reshape } from "./text.js";

const SIGNS = { member: "live", election: "crown", server: "busy", registry: "name", operator: "hand" };

export function events(app) {
  const { state } = app;
  return {
    id: "events",
    label: "Events",
    empty: "nothing happened yet",
    states: [
      { id: "member", label: "members", shape: "live" },
      { id: "election", label: "elections", shape: "crown" },
      { id: "server", label: "servers", shape: "busy" },
      { id: "registry", label: "registry", shape: "name" },
      { id: "operator", label: "operators", shape: "hand" },
    ],
    rows: () => state.events,
    has: (row, wanted) => wanted.every((word) => row.found.includes(word)),
    state: (row) => row.data.sort,
    tone: (row) => row.data.sort,
    columns: [
      { id: "state", label: "", fill: (cell, { data }) => reshape(cell, SIGNS[data.sort] ?? "forgotten", data.sort) },
      { id: "time", label: "at", fill: (cell, { data }, now) => put(cell, clock(data.at_ms, now)) },
      { id: "subject", label: "what", fill: (cell, { data }) => put(cell, data.subject) },
      { id: "text", label: "happened", fill: (cell, { data }) => put(cell, data.text) },
    ],
    /** There is no more to an event than its row: opening it opens what it is about. */
    enter(row) {
      app.go(...place(state, row.data));
      return true;
    },
  };
}

/** Where the subject of an event is shown. An operator acts on elections and servers. */
function place({ tables }, { sort, subject }) {
  if (sort === "member") return ["members", subject];
  if (sort === "registry") return ["registries", subject];
  if (sort === "election" || tables.elections.rows.has(subject)) return ["elections", subject];
  // A server is told by its id, or with its kind before it.
  const server = [...tables.servers.rows.values()].find(({ data }) => data.id === subject || `${data.kind}/${data.id}` === subject);
  return ["servers", server?.key ?? subject];
}
