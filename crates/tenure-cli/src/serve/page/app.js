// The page: what is told is shown once a frame, keys and views are here.

import { askToken, button } from "./actions.js";
import { pulse, repaint } from "./draw.js";
import { elections } from "./elections.js";
import { events } from "./events.js";
import { Live } from "./live.js";
import { members } from "./members.js";
import { Panel } from "./panel.js";
import { registries } from "./registries.js";
import { servers } from "./servers.js";
import { State } from "./state.js";
import { Tabs } from "./tabs.js";
import { h, put, shape, span } from "./text.js";
import { View } from "./view.js";

/** How often what only time changes is drawn. */
const TICK_MS = 500;
const LEGEND = { live: "live, led", lease: "leased", suspect: "suspect, late", gone: "gone, dead letters", vacant: "nobody leads", busy: "messages wait", locked: "locked", stopped: "stopped" };

const byId = (id) => document.getElementById(id);

/** What an address says; it may be written by hand. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

class App {
  constructor() {
    this.state = new State();
    this.role = "read";
    this.linked = false;
    this.button = (action) => button(action, (words) => this.tell(words));
    this.views = [members, elections, servers, registries, events].map((make) => new View(make(this), this));
    byId("views").append(...this.views.map((view) => view.element));
    this.tabs = new Tabs(byId("tabs"), this);
    this.panel = new Panel(byId("detail"), { close: () => this.close() });
    this.live = new Live({
      who: (who) => this.met(who),
      begin: () => this.state.begin(),
      event: (event, data) => this.take(event, data),
      link: (link) => this.link(link),
      token: askToken,
      skew: (ms) => (this.state.skew = ms),
    });
    this.keys();
    this.themes();
    this.follow();
    addEventListener("popstate", () => this.follow());
    setInterval(() => this.tick(), TICK_MS);
    new ResizeObserver(() => this.pulse()).observe(this.tabs.canvas.parentElement);
    for (const [state, words] of Object.entries(LEGEND)) byId("legend").append(h("dt", {}, shape(state, "")), h("dd", {}, words));
    this.live.run();
  }

  // What is told.

  met({ role, node, cluster, version }) {
    if (this.role !== role) {
      this.role = role;
      this.later();
    }
    put(byId("cluster"), cluster);
    put(byId("node"), node);
    document.title = `${cluster} · tenure`;
    this.version ??= version;
    const fresh = byId("fresh");
    fresh.hidden = this.version === version;
    put(fresh, `${version}: reload`);
  }

  take(event, data) {
    this.state.take(event, data);
    if (event !== "beats") this.later();
  }

  link(link) {
    this.linked = link === "live";
    this.state.heard(link !== "reconnecting");
    put(byId("link"), link);
    byId("link").className = `link ${link}`;
    document.body.classList.toggle("stale", link === "reconnecting");
    if (this.linked) document.body.classList.remove("unknown");
    this.later(true);
    this.pulse();
  }

  tell(words) {
    put(byId("told"), words);
    byId("told").classList.add("shown");
    clearTimeout(this.telling);
    this.telling = setTimeout(() => {
      byId("told").classList.remove("shown");
      put(byId("told"), "");
    }, 4000);
  }

  // What is shown.

  /** Shows it in the next frame, together with all that comes until then. */
  later(all = false) {
    this.all ||= all;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.tabs.refresh(this.all);
      this.view.refresh();
      if (this.all) this.view.tick();
      this.all = false;
      this.panel.refresh();
      if (!this.waited) return;
      this.find(this.waited);
    });
  }

  tick() {
    if (document.hidden) return;
    const gap = this.state.gaps.at(-1);
    byId("link").dataset.since = gap && !gap.to ? span(this.state.now() - gap.from) : "";
    this.later(true);
    this.panel.tick();
    this.pulse();
  }

  pulse() {
    pulse(this.tabs.canvas, this.tabs.canvas.parentElement.clientWidth, 34, this.state);
  }

  get view() {
    return this.views.find((view) => view.id === this.shown) ?? this.views[0];
  }

  select(id) {
    if (this.shown === id) return;
    this.shown = id;
    for (const view of this.views) view.element.hidden = view.id !== id;
    this.view.list.element.id = "list";
    for (const view of this.views) if (view.id !== id) view.list.element.removeAttribute("id");
    this.tabs.select(id);
    this.panel.close();
    this.view.refresh();
    this.later(true);
  }

  /** Goes to a row of a view. */
  go(id, key) {
    history.pushState(null, "", key === undefined ? `#${id}` : `#${id}/${encodeURIComponent(key)}`);
    this.follow();
  }

  /** Shows what the address says. */
  follow() {
    const [id, key] = location.hash.slice(1).split("/");
    const known = this.views.some((view) => view.id === id);
    this.select(known ? id : "members");
    this.waited = known && key ? decoded(key) : null;
    this.later();
  }

  /** Opens the row that the address names, once it is there. */
  find(key) {
    const { view } = this;
    if (this.panel.row?.key === key && this.panel.view === view) {
      this.waited = null;
      return;
    }
    let row = view.list.find(key);
    if (!row && (view.only || view.words.length)) {
      view.only = null;
      view.filter.value = "";
      view.choose(null);
      view.filtered();
      row = view.list.find(key);
    }
    if (row) this.open(view, row, false);
    if (row || this.state.settled) this.waited = null;
  }

  open(view, row, focus) {
    if (!view.spec.detail) return;
    this.panel.show(view, row, focus);
    if (this.panel.row === row) this.address(`${view.id}/${encodeURIComponent(row.key)}`);
  }

  /** Another row is the active one: if one was open, now it is this. */
  moved(view, row) {
    if (!this.panel.opened) return;
    clearTimeout(this.moving);
    this.moving = setTimeout(() => this.open(view, row, false), 80);
  }

  close() {
    clearTimeout(this.moving);
    if (!this.panel.opened) return false;
    this.panel.close();
    this.address(this.shown);
    this.view.list.element.focus({ preventScroll: true });
    return true;
  }

  address(hash) {
    history.replaceState(null, "", `#${hash}`);
  }

  // Keys and themes.

  keys() {
    byId("ask-help").addEventListener("click", () => byId("help").showModal());
    byId("fresh").addEventListener("click", () => location.reload());
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      this.view.list.element.focus();
    });
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.target.matches("input, select, textarea")) this.typed(event);
      else if (this.pressed(event.key)) event.preventDefault();
    });
  }

  /** A key in a filter. */
  typed(event) {
    if (event.target !== this.view.filter) return;
    const { filter, list } = this.view;
    if (event.key === "Escape" && filter.value) {
      filter.value = "";
      this.view.filtered();
    } else if (event.key === "Escape" || event.key === "Enter") {
      list.element.focus();
    } else if (event.key === "ArrowDown") {
      list.element.focus();
      list.step(1);
    } else {
      return;
    }
    event.preventDefault();
  }

  /** A key anywhere else. Whether it meant something. */
  pressed(key) {
    const { list, filter } = this.view;
    const digit = "12345".indexOf(key);
    // Where nothing has the focus, the keys of the list are the list's.
    if (document.activeElement === document.body && list.press(key)) {
      list.element.focus({ preventScroll: true });
      return true;
    }
    if (key === "j" || key === "k") {
      list.element.focus({ preventScroll: true });
      list.step(key === "j" ? 1 : -1);
    } else if (key === "/") {
      filter.focus();
      filter.select();
    } else if (key === "?") {
      byId("help").showModal();
    } else if (key === "t") {
      byId("theme").click();
    } else if (key === "Escape") {
      return this.close();
    } else if (digit >= 0) {
      this.go(this.views[digit].id);
      this.view.list.element.focus({ preventScroll: true });
    } else {
      return false;
    }
    return true;
  }

  themes() {
    const root = document.documentElement;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const set = (theme) => {
      if (theme) root.dataset.theme = theme;
      repaint();
      this.later(true);
    };
    set(localStorage.getItem("tenure-theme"));
    dark.addEventListener("change", () => set(null));
    byId("theme").addEventListener("click", () => {
      const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
      const next = now === "dark" ? "light" : "dark";
      localStorage.setItem("tenure-theme", next);
      set(next);
    });
  }
}

new App();
