// Words, numbers and elements. What comes from the cluster is untrusted: it only ever becomes text.

const SVG = "http://www.w3.org/2000/svg";
const numbers = new Intl.NumberFormat("en");

/** An element with attributes and children; strings become text. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Sets an element's text, if it is another. */
export function put(element, text) {
  if (element.said !== text) {
    element.said = text;
    element.textContent = text;
  }
}

/** The shape of a state, and its name for who can't see it; without a name it is an ornament beside words. */
export function shape(state, label = state) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `shape ${state}`);
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#${state}`);
  svg.append(use);
  if (!label) {
    svg.setAttribute("aria-hidden", "true");
    return svg;
  }
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  const title = document.createElementNS(SVG, "title");
  title.textContent = label;
  svg.prepend(title);
  return svg;
}

/** Makes the shape in a cell that of another state. */
export function reshape(cell, state, label = state) {
  if (cell.state === state && cell.label === label) return;
  Object.assign(cell, { state, label });
  cell.replaceChildren(shape(state, label));
}

export const count = (number) => numbers.format(number);

/** "0.4 s", "12 s", "3 m 05 s", "2 h 14 m", "5 d 03 h". */
export function span(ms) {
  if (ms < 0) return `−${span(-ms)}`;
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${two(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${two((seconds % 3600) / 60)} m`;
  return `${Math.floor(seconds / 86400)} d ${two((seconds % 86400) / 3600)} h`;
}

/** "0", "0.4", "12", "1,204": a number a second. */
export function rate(value) {
  if (value < 0.05) return "0";
  return value < 9.95 ? value.toFixed(1) : count(Math.round(value));
}

/** The time of day; with the day if it is another. */
export function clock(ms, now = Date.now()) {
  const two = (number) => String(number).padStart(2, "0");
  const date = new Date(ms);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date(now).toDateString()) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

export const moment = (ms) => new Date(ms).toISOString();

/** "handed_over" as words. */
export const words = (name) => name.replaceAll("_", " ");

/** Labels and values. What did not change is left alone: it may have the focus, or be selected. */
export class Facts {
  constructor() {
    this.element = h("dl", { class: "facts" });
    this.known = new Map();
  }

  /** Shows pairs of label and text, in this order; with a third, the text can be followed. Those without text are left out. */
  show(pairs) {
    for (const [label, text, go] of pairs) {
      let fact = this.known.get(label);
      if (!fact) {
        fact = this.fact(label, go !== undefined);
        this.known.set(label, fact);
        this.element.append(fact.label, fact.value);
      }
      const shown = text != null && text !== "";
      fact.label.hidden = !shown;
      fact.value.hidden = !shown;
      fact.go = go;
      put(fact.text, text ?? "");
    }
  }

  fact(label, linked) {
    const fact = { label: h("dt", {}, label), value: h("dd") };
    fact.text = linked ? h("button", { class: "link", onclick: () => fact.go?.() }) : fact.value;
    if (linked) fact.value.append(fact.text);
    return fact;
  }
}

/** Any JSON, for reading; never more than a screen can take. */
export function json(value) {
  const text = JSON.stringify(value, null, 2) ?? "";
  return text.length > 20_000 ? `${text.slice(0, 20_000)}\n…` : text;
}
