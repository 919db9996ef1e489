// A list of any length: rows have one height, and only those in sight are in the document.

import { h } from "./text.js";

export const ROW = 30;
/** Rows kept ready above and below what is in sight. */
const SPARE = 6;

/**
 * `columns`: { id, label, title, by(row), make(cell), fill(cell, row, now, width) }. A column with `by` can be sorted.
 * `tone(row)` is a class for the row, `open(row)` is called for Enter and click, `moved(row)` when another row is the active one.
 */
export class List {
  constructor({ id, label, columns, tone = () => "", open, moved = () => {}, sorted = () => {}, empty }) {
    Object.assign(this, { id, columns, tone, open, moved });
    this.rows = [];
    this.slots = [];
    this.active = null;
    this.heads = columns.map((column) => this.head(column, sorted));
    this.body = h("div", { class: "body", role: "rowgroup" });
    this.nothing = h("p", { class: "nothing", hidden: true }, empty);
    this.element = h(
      "div",
      { class: `list ${id}`, role: "grid", "aria-label": label, tabindex: 0, "aria-colcount": columns.length },
      h("div", { class: "head", role: "row" }, ...this.heads),
      this.body,
      this.nothing,
    );
    this.element.addEventListener("scroll", () => this.render(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.resized()).observe(this.element);
  }

  head(column, sorted) {
    const cell = h("div", { class: `cell ${column.id}`, role: "columnheader", title: column.title });
    if (!column.by) {
      cell.append(column.label || h("span", { class: "unseen" }, column.id));
      return cell;
    }
    cell.append(h("button", { class: "sort", onclick: () => sorted(column) }, column.label));
    return cell;
  }

  resized() {
    this.height = this.element.clientHeight;
    // Canvases of a column have its width: measured once, not for each row.
    this.widths = this.heads.map((head) => head.clientWidth);
    this.render(true);
  }

  /** Marks the column that is sorted by. */
  mark(sort) {
    this.columns.forEach((column, i) => {
      const way = sort?.column === column ? (sort.down ? "descending" : "ascending") : null;
      if (way) this.heads[i].setAttribute("aria-sort", way);
      else this.heads[i].removeAttribute("aria-sort");
    });
  }

  /** Shows these rows. */
  show(rows, now) {
    this.rows = rows;
    this.now = now;
    const height = `${rows.length * ROW}px`;
    if (this.body.style.height !== height) {
      this.body.style.height = height;
      this.element.setAttribute("aria-rowcount", rows.length + 1);
    }
    this.nothing.hidden = rows.length > 0;
    this.render();
  }

  /** Draws what is in sight: rows that changed, or all of them. */
  render(all = false) {
    if (!this.height) return;
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW) - SPARE);
    const last = Math.min(this.rows.length, Math.ceil((top + this.height) / ROW) + SPARE);
    const wanted = Math.ceil(this.height / ROW) + 2 * SPARE + 1;
    while (this.slots.length < wanted) this.slots.push(this.slot());
    for (const slot of this.slots.splice(wanted)) slot.element.remove();
    this.marked = null;
    for (let i = 0; i < wanted; i += 1) {
      const index = first + i;
      const slot = this.slots[index % wanted];
      if (index >= last) this.hide(slot);
      else this.fill(slot, index, all);
    }
    // Only a row that is in the document can be named.
    if (this.marked) this.element.setAttribute("aria-activedescendant", this.marked);
    else this.element.removeAttribute("aria-activedescendant");
  }

  slot() {
    const cells = this.columns.map((column) => {
      const cell = h("div", { class: `cell ${column.id}`, role: "gridcell" });
      column.make?.(cell);
      return cell;
    });
    const element = h("div", { class: "row", role: "row" }, ...cells);
    return { element, cells, row: null, index: -1, revision: -1 };
  }

  hide(slot) {
    if (slot.element.isConnected) slot.element.remove();
    slot.row = null;
  }

  fill(slot, index, all) {
    const row = this.rows[index];
    const { element } = slot;
    const same = slot.row === row;
    if (!element.isConnected) this.body.append(element);
    if (slot.index !== index || !same) {
      slot.index = index;
      element.style.transform = `translateY(${index * ROW}px)`;
      element.setAttribute("aria-rowindex", index + 2);
      element.id = `${this.id}-${index}`;
    }
    const active = row.key === this.active;
    if (slot.active !== active || !same) {
      slot.active = active;
      element.setAttribute("aria-selected", active);
    }
    if (active) this.marked = element.id;
    if (same && slot.revision === row.revision && !all) return;
    if (same && row.flash && row.flash !== slot.flash) this.light(element);
    slot.flash = row.flash;
    slot.row = row;
    slot.revision = row.revision;
    element.className = `row is-${this.tone(row)}`;
    this.columns.forEach((column, i) => column.fill(slot.cells[i], row, this.now, this.widths?.[i] ?? 0));
  }

  light(element) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    element.animate({ backgroundColor: ["var(--glow)", "transparent"] }, { duration: 1800, easing: "ease-out" });
  }

  /** The active row, as long as it is shown. */
  current() {
    return this.rows.findIndex((row) => row.key === this.active);
  }

  activate(index) {
    const row = this.rows[Math.min(Math.max(index, 0), this.rows.length - 1)];
    if (!row) return;
    this.active = row.key;
    this.reveal(this.rows.indexOf(row));
    this.render();
    this.moved(row);
  }

  /** Makes a row active by its key, if it is shown. */
  find(key) {
    this.active = key;
    const index = this.current();
    if (index >= 0) this.reveal(index);
    this.render();
    return this.rows[index];
  }

  reveal(index) {
    const [top, room] = [index * ROW, this.height - ROW];
    const { scrollTop } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + room) this.element.scrollTop = top + ROW - room;
  }

  step(by) {
    const at = this.current();
    this.activate(at < 0 ? (by > 0 ? Math.ceil(this.element.scrollTop / ROW) : this.rows.length - 1) : at + by);
  }

  key(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!this.press(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Does what a key means; whether it meant something. */
  press(key) {
    const page = Math.max(1, Math.floor(this.height / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const row = this.rows[this.current()];
    if (key in steps) this.step(steps[key]);
    else if (key === "Home") this.activate(0);
    else if (key === "End") this.activate(this.rows.length - 1);
    else if (key === "Enter" && row) this.open(row, true);
    else return false;
    return true;
  }

  click(event) {
    const element = event.target.closest(".row");
    const slot = this.slots.find((one) => one.element === element);
    if (!slot?.row) return;
    this.active = slot.row.key;
    this.render();
    this.open(slot.row, false);
  }
}
