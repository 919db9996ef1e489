// Servers, by kind: how much waits, how fast it goes, what died; dead letters.

import { line } from "./draw.js";
import { serverAge, serverRate } from "./state.js";
import { Facts, clock, count, h, json, put, rate, reshape, span } from "./text.js";

const sign = (data) => (data.stopped ? "stopped" : data.dead_letters ? "dead" : data.locked ? "locked" : data.waiting ? "busy" : "idle");
const pathOf = ({ kind, id }) => `/v1/servers/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`;

export function servers(app) {
  const table = app.state.tables.servers;
  const shut = new Set();
  return {
    id: "servers",
    label: "Servers",
    empty: "no servers",
    states: [
      { id: "busy", label: "busy" },
      { id: "locked", label: "locked" },
      { id: "stopped", label: "stopped" },
      { id: "dead", label: "dead letters" },
    ],
    rows: () => table.ordered(),
    has: (row, wanted) => table.has(row, wanted),
    state: ({ data }) => [data.waiting && "busy", data.locked && "locked", data.stopped && "stopped", data.dead_letters && "dead"].filter(Boolean),
    tone: (row) => (row.group ? "group" : sign(row.data)),
    arrange: (rows, chosen) => grouped(rows, app.state.tables, shut, chosen),
    enter(row) {
      if (!row.group) return false;
      if (!shut.delete(row.data.kind)) shut.add(row.data.kind);
      row.revision += 1;
      return true;
    },
    columns: [
      {
        id: "state",
        label: "",
        fill: (cell, row) =>
          row.group ? reshape(cell, shut.has(row.data.kind) ? "shut" : "open", shut.has(row.data.kind) ? "closed" : "open") : reshape(cell, sign(row.data)),
      },
      { id: "name", label: "server", by: (row) => row.sort, fill: (cell, { group, data }) => put(cell, group ? data.kind : data.id) },
      { id: "note", label: "", fill: (cell, { group, data }) => put(cell, group ? sizeOf(data) : data.stopped || (data.locked ? "locked" : "")) },
      {
        id: "depth",
        label: "waiting",
        down: true,
        by: (row) => row.data.waiting,
        make: (cell) => cell.append(h("span", { class: "meter" }, h("i")), h("span", { class: "value" })),
        fill: (cell, row) => {
          const waiting = row.group ? row.members.reduce((sum, { data }) => sum + data.waiting, 0) : row.data.waiting;
          // Queues hold from one to a million messages: the bar grows with the logarithm.
          cell.firstChild.firstChild.style.transform = `scaleX(${Math.min(1, Math.log10(1 + waiting) / 5).toFixed(3)})`;
          cell.firstChild.style.visibility = waiting ? "" : "hidden";
          put(cell.lastChild, waiting ? count(waiting) : "·");
        },
      },
      {
        id: "rate",
        label: "a second",
        title: "messages applied",
        down: true,
        by: (row, now) => serverRate(row, now),
        fill: (cell, row, now) => {
          const speed = row.group ? row.members.reduce((sum, member) => sum + serverRate(member, now), 0) : serverRate(row, now);
          put(cell, speed >= 0.05 ? rate(speed) : "·");
        },
      },
      {
        id: "age",
        label: "oldest",
        title: "how long the first has waited",
        down: true,
        by: serverAge,
        fill: (cell, row, now) => {
          const age = row.group ? row.members.reduce((most, member) => Math.max(most, serverAge(member, now)), 0) : serverAge(row, now);
          put(cell, age ? span(age) : "·");
        },
      },
      { id: "applied", label: "applied", down: true, by: (row) => row.data.applied, fill: (cell, { group, data }) => put(cell, group ? "" : count(data.applied)) },
      { id: "dead", label: "dead", title: "dead letters", down: true, by: (row) => row.data.dead_letters, fill: (cell, { data }) => put(cell, data.dead_letters ? count(data.dead_letters) : "·") },
    ],
    detail: (row) => (row.group ? null : detail(app, row)),
  };
}

const sizeOf = (kind) =>
  `${count(kind.servers)}${kind.servers_more ? "+" : ""} · ${count(kind.consumers)} consumer${kind.consumers === 1 ? "" : "s"}`;

/** A row for each kind, with what all its servers come to, and below it those that are wanted. */
function grouped(rows, { kinds, servers: table }, shut, chosen) {
  const wanted = Map.groupBy(rows, (row) => row.data.kind);
  const all = chosen ? Map.groupBy(table.ordered(), (row) => row.data.kind) : wanted;
  const arranged = [];
  for (const kind of kinds.ordered()) {
    const shown = wanted.get(kind.key) ?? [];
    if (chosen && !shown.length) continue;
    kind.group = true;
    kind.members = all.get(kind.key) ?? [];
    arranged.push(kind);
    if (!shut.has(kind.key)) for (const row of shown) arranged.push(row);
  }
  return arranged;
}

/** One server: its queue, its rate, its dead letters. */
function detail(app, row) {
  const canvas = h("canvas", { class: "wide", "aria-hidden": "true" });
  const about = new Facts();
  const actions = h("div", { class: "actions" });
  const letters = new Letters(app, row);
  let allowed = null;
  const refresh = () => {
    const { data } = row;
    const now = app.state.now();
    about.show([
      ["kind", data.kind],
      ["waiting", count(data.waiting)],
      ["oldest", row.oldestSince == null ? "" : span(serverAge(row, now))],
      ["rate", `${rate(serverRate(row, now))} a second`],
      ["applied", count(data.applied)],
      ["locked", data.locked ? "by work that runs" : ""],
      ["stopped", data.stopped],
      ["died", data.died ? count(data.died) : ""],
      ["schema", data.schema == null ? "" : String(data.schema)],
    ]);
    // Buttons are made anew only when they are others: one may have the focus.
    const wanted = `${app.role} ${data.locked}`;
    if (allowed !== wanted) {
      allowed = wanted;
      actions.replaceChildren(...buttons(app, row));
    }
    letters.refresh();
  };
  return {
    title: row.data.id,
    sign: () => [sign(row.data), sign(row.data)],
    body: [canvas, about.element, actions, letters.element],
    refresh,
    tick: (width) => {
      refresh();
      line(canvas, width, 48, row.samples ?? [], app.state.now());
    },
  };
}

/** The dead letters of a server. */
class Letters {
  constructor(app, row) {
    Object.assign(this, { app, row, known: null });
    this.title = h("h3", {});
    this.items = h("ol", { class: "letters" });
    this.more = h("button", { class: "plain", hidden: true, onclick: () => this.load(this.next) }, "More");
    this.trouble = h("p", { class: "trouble", hidden: true });
    this.element = h("div", { class: "dead-letters" }, this.title, this.trouble, this.items, this.more);
  }

  /** Asks for them when their number is another. */
  refresh() {
    const { dead_letters: dead } = this.row.data;
    put(this.title, dead ? `dead letters ${count(dead)}` : "");
    const wanted = `${dead} ${this.app.role}`;
    if (this.known === wanted || !this.app.linked) return;
    this.known = wanted;
    if (dead) this.load();
    else this.show([], null);
  }

  async load(after) {
    try {
      const more = after == null ? "" : `&after=${after}`;
      const page = await this.app.live.call("GET", `${pathOf(this.row.data)}/dead-letters?limit=50${more}`);
      this.trouble.hidden = true;
      this.show(page.items, page.next, after != null);
    } catch (error) {
      put(this.trouble, error.message);
      this.trouble.hidden = false;
    }
  }

  show(letters, next, append = false) {
    const items = letters.map((letter) => this.item(letter));
    if (append) this.items.append(...items);
    else this.items.replaceChildren(...items);
    this.next = next;
    this.more.hidden = next == null;
  }

  item(letter) {
    const last = letter.attempts.at(-1);
    const tried = letter.attempts.length;
    return h(
      "li",
      {},
      h("p", { class: "number" }, h("b", {}, `#${letter.number}`), h("span", {}, letter.is_call ? "call" : "cast"), h("time", {}, clock(letter.died_ms, this.app.state.now()))),
      last ? h("p", { class: "error" }, last.error) : null,
      h(
        "details",
        {},
        h("summary", {}, `${tried} attempt${tried === 1 ? "" : "s"}, message`),
        ...letter.attempts.map((attempt) => h("p", { class: "attempt" }, h("time", {}, clock(attempt.at_ms)), h("span", {}, attempt.node), attempt.error)),
        h("pre", {}, json(letter.message)),
      ),
      this.app.role === "operate" ? h("div", { class: "actions" }, ...this.actions(letter).map((action) => this.app.button(action))) : null,
    );
  }

  actions({ number }) {
    const { id, kind } = this.row.data;
    const path = `${pathOf(this.row.data)}/dead-letters/${number}`;
    return [
      {
        name: "Replay",
        title: `Replay dead letter ${number}?`,
        what: [`It goes to the end of the queue of ${id} (${kind}), and is handled again.`],
        done: `dead letter ${number} was replayed`,
        act: () => this.app.live.call("POST", `${path}/replay`),
      },
      {
        name: "Drop",
        danger: true,
        title: `Drop dead letter ${number}?`,
        what: [`The message to ${id} (${kind}) is deleted, and never handled.`],
        done: `dead letter ${number} was dropped`,
        act: () => this.app.live.call("DELETE", path),
      },
    ];
  }
}

/** What an operator can do. */
function buttons(app, { data }) {
  if (app.role !== "operate") return [];
  const path = pathOf(data);
  const unlock = {
    name: "Unlock",
    danger: true,
    title: `Unlock ${data.id}?`,
    what: ["The work that holds it loses its claim: what it would still commit is refused. The queue goes on."],
    done: `${data.id} was unlocked`,
    act: () => app.live.call("POST", `${path}/unlock`),
  };
  const remove = {
    name: "Delete",
    danger: true,
    title: `Delete ${data.id} (${data.kind})?`,
    what: [
      `Its state, ${count(data.waiting)} waiting message${data.waiting === 1 ? "" : "s"} and ${count(data.dead_letters)} dead letter${data.dead_letters === 1 ? "" : "s"} are deleted. It can't be undone.`,
    ],
    done: `${data.id} was deleted`,
    act: () => app.live.call("DELETE", path),
  };
  return (data.locked ? [unlock, remove] : [remove]).map((action) => app.button(action));
}
