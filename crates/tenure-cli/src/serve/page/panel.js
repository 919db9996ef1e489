// The panel beside the list: one row, opened.

import { h, reshape } from "./text.js";

export class Panel {
  constructor(element, { close }) {
    Object.assign(this, { element, detail: null, row: null, view: null });
    this.sign = h("span", { class: "sign" });
    this.title = h("h2", { tabindex: -1 });
    this.gone = h("p", { class: "note gone-note", hidden: true }, "gone");
    this.body = h("div", { class: "content" });
    element.append(h("div", { class: "top" }, this.sign, this.title, h("button", { class: "plain icon", "aria-label": "Close", title: "Close (Esc)", onclick: close }, "×")), this.gone, this.body);
    new ResizeObserver(() => this.tick()).observe(this.body);
  }

  get opened() {
    return this.detail !== null;
  }

  show(view, row, focus) {
    if (this.row !== row || this.view !== view) {
      const detail = view.spec.detail(row);
      if (!detail) return;
      Object.assign(this, { detail, row, view });
      this.title.textContent = detail.title;
      this.element.ariaBusy = detail.loads ?? false;
      this.body.replaceChildren(...detail.body);
      this.body.scrollTop = 0;
    }
    this.element.hidden = false;
    document.body.classList.add("opened");
    this.refresh();
    this.tick();
    if (focus) this.title.focus({ preventScroll: true });
  }

  /** What it asked the daemon for has come. */
  loaded() {
    this.element.ariaBusy = false;
  }

  close() {
    this.element.hidden = true;
    document.body.classList.remove("opened");
    this.body.replaceChildren();
    Object.assign(this, { detail: null, row: null, view: null });
  }

  refresh() {
    if (!this.detail) return;
    reshape(this.sign, ...this.detail.sign());
    this.gone.hidden = !this.row.removed;
    if (!this.row.removed) this.detail.refresh();
  }

  tick() {
    if (this.detail && !this.row.removed) this.detail.tick(this.body.clientWidth - 40);
  }
}
