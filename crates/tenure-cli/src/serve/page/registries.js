// Registries, and the names in them.

import { List } from "./list.js";
import { Facts, count, h, put, reshape, span } from "./text.js";

/** How many names are asked for at once. */
const PAGE = 200;
/** A busy registry changes all the time: its names are asked for again at most this often. */
const AGAIN_MS = 2000;

export function registries(app) {
  const table = app.state.tables.registries;
  return {
    id: "registries",
    label: "Registry",
    empty: "no registries",
    states: [],
    rows: () => table.ordered(),
    has: (row, wanted) => table.has(row, wanted),
    state: () => [],
    tone: ({ data }) => (data.leader ? "led" : "vacant"),
    columns: [
      { id: "state", label: "", fill: (cell, { data }) => reshape(cell, data.leader ? "led" : "vacant") },
      { id: "name", label: "registry", by: (row) => row.sort, fill: (cell, { data }) => put(cell, data.name) },
      { id: "leader", label: "leader", by: (row) => row.data.leader ?? "", fill: (cell, { data }) => put(cell, data.leader ?? "–") },
      { id: "epoch", label: "epoch", down: true, by: (row) => row.data.epoch, fill: (cell, { data }) => put(cell, count(data.epoch ?? 0)) },
      { id: "names", label: "names", down: true, by: (row) => row.data.names, fill: (cell, { data }) => put(cell, count(data.names ?? 0)) },
      { id: "position", label: "position", title: "how far its log is", down: true, by: (row) => row.data.position, fill: (cell, { data }) => put(cell, count(data.position ?? 0)) },
    ],
    detail: (row) => detail(app, row),
  };
}

function detail(app, row) {
  const about = new Facts();
  const names = new Names(app, row);
  const refresh = () => {
    const { data } = row;
    about.show([
      ["leader", data.leader ?? "nobody", data.leader ? () => app.go("members", data.leader) : null],
      ["epoch", count(data.epoch ?? 0)],
      ["names", count(data.names ?? 0)],
      ["position", count(data.position ?? 0)],
    ]);
    names.refresh();
  };
  return {
    title: row.data.name,
    sign: () => (row.data.leader ? ["led", "led"] : ["vacant", "vacant"]),
    body: [about.element, names.element],
    refresh,
    tick: () => {
      refresh();
      names.tick();
    },
  };
}

/** The names of a registry, a page at a time as one scrolls. */
class Names {
  constructor(app, row) {
    Object.assign(this, { app, row, rows: [], next: null, known: null, askedAt: 0, turn: 0 });
    this.list = new List({
      id: "names",
      label: `Names in ${row.key}`,
      empty: "no names",
      open: ({ data }) => app.go("members", data.node),
      columns: [
        { id: "name", label: "name", fill: (cell, { data }) => put(cell, data.name) },
        { id: "node", label: "node", fill: (cell, { data }) => put(cell, data.node) },
        { id: "held", label: "for", fill: (cell, { data }, now) => put(cell, span(now - data.since_ms)) },
      ],
    });
    this.prefix = h("input", { type: "search", placeholder: "begins with", "aria-label": "Names that begin with", autocomplete: "off", spellcheck: "false", oninput: () => this.load() });
    this.trouble = h("p", { class: "trouble", hidden: true });
    this.element = h("div", { class: "names-box" }, h("label", { class: "filter" }, this.prefix), this.trouble, this.list.element);
    this.list.element.addEventListener("scroll", () => this.scrolled(), { passive: true });
  }

  /** Asks again when something changed, unless one has scrolled on. */
  refresh() {
    const { names, position } = this.row.data;
    const wanted = `${names} ${position}`;
    if (this.known === wanted || this.rows.length > PAGE || !this.app.linked || Date.now() - this.askedAt < AGAIN_MS) return;
    this.known = wanted;
    this.load();
  }

  tick() {
    this.list.now = this.app.state.now();
    this.list.render(true);
  }

  scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.list.element;
    if (this.next != null && scrollHeight - scrollTop - clientHeight < 600) this.load(this.next);
  }

  async load(after) {
    this.turn += 1;
    const { turn } = this;
    this.askedAt = Date.now();
    this.next = null;
    const wanted = new URLSearchParams({ prefix: this.prefix.value, limit: PAGE });
    if (after != null) wanted.set("after", after);
    try {
      const page = await this.app.live.call("GET", `/v1/registries/${encodeURIComponent(this.row.key)}/names?${wanted}`);
      if (turn !== this.turn) return;
      const found = page.items.map((data) => ({ key: data.name, revision: 0, data }));
      this.rows = after == null ? found : this.rows.concat(found);
      this.next = page.next;
      this.trouble.hidden = true;
      this.list.show(this.rows, this.app.state.now());
    } catch (error) {
      this.known = null;
      put(this.trouble, error.message);
      this.trouble.hidden = false;
    }
  }
}
