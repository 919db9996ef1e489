// A view: a filter, the states that can be chosen, and a list.

import { List } from "./list.js";
import { count, h, put, shape } from "./text.js";

/** A list that is sorted by what changes all the time is put in order this often. */
const SORT_MS = 1000;

/**
 * `spec`: { id, label, empty, columns, tone, states: [{ id, label }], state(row), rows() or table, has(row, words), enter(row), open(row, focus) }.
 * `state(row)` is the id of a state, or several.
 */
export class View {
  constructor(spec, app) {
    Object.assign(this, { spec, app, id: spec.id, words: [], only: null, sort: null, sorted: [], sortedAt: 0 });
    this.list = new List({
      id: spec.id,
      label: spec.label,
      columns: spec.columns,
      tone: spec.tone,
      empty: spec.empty,
      open: (row, focus) => (spec.enter?.(row) ? this.refresh() : app.open(this, row, focus)),
      moved: (row) => app.moved(this, row),
      sorted: (column) => this.sortBy(column),
    });
    this.filter = h("input", {
      type: "search",
      placeholder: "filter",
      "aria-label": `Filter ${spec.label.toLowerCase()}`,
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.filtered(),
    });
    this.chips = new Map(spec.states.map((state) => [state.id, this.chip(state)]));
    this.shown = h("output", { class: "shown" });
    this.element = h(
      "section",
      { id: `view-${spec.id}`, class: "view", role: "tabpanel", "aria-labelledby": `tab-${spec.id}`, hidden: true },
      h(
        "div",
        { class: "bar" },
        h("label", { class: "filter" }, this.filter, h("kbd", { "aria-hidden": "true" }, "/")),
        h("div", { class: "chips", role: "group", "aria-label": "Only" }, ...[...this.chips.values()].map((chip) => chip.element)),
        this.shown,
      ),
      this.list.element,
    );
  }

  chip({ id, label, shape: sign = id }) {
    const number = h("b", {}, "0");
    const element = h(
      "button",
      { class: `chip ${sign}`, "aria-pressed": "false", onclick: () => this.choose(id) },
      shape(sign, ""),
      h("span", {}, label),
      number,
    );
    return { element, number };
  }

  /** Shows rows of one state only, or of all again. */
  choose(id) {
    this.only = this.only === id ? null : id;
    for (const [each, chip] of this.chips) chip.element.setAttribute("aria-pressed", each === this.only);
    this.list.element.scrollTop = 0;
    this.refresh();
  }

  filtered() {
    this.words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.list.element.scrollTop = 0;
    this.refresh();
  }

  sortBy(column) {
    if (this.sort?.column !== column) this.sort = { column, down: column.down ?? false };
    else if (this.sort.down === (column.down ?? false)) this.sort = { column, down: !this.sort.down };
    else this.sort = null;
    this.sortedAt = 0;
    this.list.mark(this.sort);
    this.refresh();
  }

  /** All rows in the order that is wished. */
  ordered(now) {
    const rows = this.spec.rows();
    if (!this.sort) return rows;
    const { column, down } = this.sort;
    if (Date.now() - this.sortedAt < SORT_MS && this.sorted.length === rows.length) return this.sorted;
    this.sortedAt = Date.now();
    const keyed = rows.map((row) => [column.by(row, now), row]);
    keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    if (down) keyed.reverse();
    this.sorted = keyed.map(([, row]) => row);
    return this.sorted;
  }

  /** Shows what the state is now. */
  refresh() {
    const now = this.app.state.now();
    const counts = new Map();
    const rows = this.ordered(now).filter((row) => {
      if (row.removed) return false;
      const states = [this.spec.state(row)].flat();
      for (const state of states) counts.set(state, (counts.get(state) ?? 0) + 1);
      if (this.only && !states.includes(this.only)) return false;
      return !this.words.length || this.spec.has(row, this.words);
    });
    for (const [id, chip] of this.chips) put(chip.number, count(counts.get(id) ?? 0));
    const arranged = this.spec.arrange?.(rows, this.only || this.words.length > 0) ?? rows;
    put(this.shown, this.only || this.words.length ? count(rows.length) : "");
    this.list.show(arranged, now);
  }

  /** Time went on. */
  tick() {
    this.list.now = this.app.state.now();
    this.list.render(true);
  }
}
