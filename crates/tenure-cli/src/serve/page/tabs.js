// The views to choose from, each with what one must know of it.

import { serverRate } from "./state.js";
import { count, h, put, rate, shape } from "./text.js";

export class Tabs {
  constructor(element, app) {
    this.app = app;
    this.revisions = {};
    this.canvas = h("canvas", { class: "pulse", "aria-hidden": "true" });
    this.tabs = new Map(app.views.map((view, i) => [view.id, this.tab(view, i)]));
    this.tabs.get("events").button.append(h("span", { class: "pulse-box" }, this.canvas));
    element.append(...[...this.tabs.values()].map((tab) => tab.button));
    element.addEventListener("keydown", (event) => this.key(event));
  }

  tab(view, i) {
    const big = h("span", { class: "big" });
    const small = h("span", { class: "small" });
    const button = h(
      "button",
      { role: "tab", id: `tab-${view.id}`, class: `tab ${view.id}`, "aria-controls": `view-${view.id}`, "aria-selected": "false", tabindex: -1, onclick: () => this.app.go(view.id) },
      h("span", { class: "label" }, view.spec.label, h("kbd", { "aria-hidden": "true" }, String(i + 1))),
      h("span", { class: "values" }, big, small),
    );
    return { button, big, small, signs: new Map() };
  }

  select(id) {
    for (const [each, { button }] of this.tabs) {
      button.setAttribute("aria-selected", each === id);
      button.tabIndex = each === id ? 0 : -1;
    }
  }

  /** Arrows go from tab to tab. */
  key(event) {
    const ids = [...this.tabs.keys()];
    const at = ids.indexOf(this.app.shown);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: ids.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const id = ids[(to + ids.length) % ids.length];
    this.app.go(id);
    this.tabs.get(id).button.focus();
  }

  /** Shows how many of a state there are beside a tab's number; none is not shown. */
  sign(tab, state, number, label) {
    let sign = tab.signs.get(state);
    if (!sign) {
      const text = h("span", {});
      sign = { element: h("span", { class: `count ${state}` }, shape(state, label), text), text };
      tab.signs.set(state, sign);
      tab.small.append(sign.element);
    }
    sign.element.hidden = !number;
    put(sign.text, count(number));
  }

  refresh(all) {
    const { tables } = this.app.state;
    if (this.changed("members", tables.members)) this.members(tables.members);
    if (this.changed("elections", tables.elections)) this.elections(tables.elections);
    // Rates change with time alone.
    if (all || this.changed("kinds", tables.kinds)) this.servers(tables);
    if (this.changed("registries", tables.registries)) this.registries(tables.registries);
  }

  changed(id, { revision }) {
    if (this.revisions[id] === revision) return false;
    this.revisions[id] = revision;
    return true;
  }

  members({ rows }) {
    const states = { live: 0, suspect: 0, gone: 0 };
    for (const { data } of rows.values()) states[data.state] = (states[data.state] ?? 0) + 1;
    const tab = this.tabs.get("members");
    put(tab.big, count(states.live));
    this.sign(tab, "suspect", states.suspect, "suspect");
    this.sign(tab, "gone", states.gone, "gone");
  }

  elections({ rows }) {
    let vacant = 0;
    for (const { data } of rows.values()) if (!data.leader) vacant += 1;
    const tab = this.tabs.get("elections");
    put(tab.big, count(rows.size - vacant));
    this.sign(tab, "vacant", vacant, "nobody leads");
  }

  servers({ kinds, servers }) {
    const tab = this.tabs.get("servers");
    const now = this.app.state.now();
    let [all, more, waiting, dead, speed] = [0, false, 0, 0, 0];
    for (const { data } of kinds.rows.values()) {
      all += data.servers;
      more ||= data.servers_more;
      dead += data.dead_letters;
    }
    for (const row of servers.rows.values()) {
      waiting += row.data.waiting;
      speed += serverRate(row, now);
    }
    put(tab.big, count(all) + (more ? "+" : ""));
    this.sign(tab, "busy", waiting, "messages wait");
    this.sign(tab, "dead", dead, "dead letters");
    tab.rate ??= tab.small.appendChild(h("span", { class: "rate" }));
    put(tab.rate, speed >= 0.05 ? `${rate(speed)}/s` : "");
  }

  registries({ rows }) {
    let names = 0;
    for (const { data } of rows.values()) names += data.names ?? 0;
    put(this.tabs.get("registries").big, count(names));
  }
}
