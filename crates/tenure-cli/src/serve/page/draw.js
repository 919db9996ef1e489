// Drawings: a member's lane, the pulse of the cluster, a server's line, the terms of an election.

import { PULSE_MS, WINDOW_MS } from "./state.js";

const NAMES = ["ink", "soft", "faint", "line", "accent", "warn", "bad", "panel"];
let colours = null;

/** The colours of the present theme. */
function paint() {
  if (colours) return colours;
  const probe = document.createElement("i");
  document.body.append(probe);
  colours = Object.fromEntries(
    NAMES.map((name) => {
      probe.style.color = `var(--${name})`;
      return [name, getComputedStyle(probe).color];
    }),
  );
  probe.remove();
  return colours;
}

/** The theme changed. */
export function repaint() {
  colours = null;
}

/** A clean canvas of this size, with units as in CSS. */
function prepare(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    Object.assign(canvas, { width: w, height: h });
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/** Strokes over the time in which the daemon was not heard: nothing is known of it. */
function hatch(pen, gaps, x, height, now) {
  pen.strokeStyle = paint().faint;
  pen.lineWidth = 1;
  for (const { from, to } of gaps) {
    const [left, right] = [Math.max(0, x(from)), x(to ?? now)];
    if (right <= left) continue;
    pen.clearRect(left, 0, right - left, height);
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, height);
    pen.clip();
    pen.beginPath();
    for (let at = left - height; at < right; at += 5) {
      pen.moveTo(at, height);
      pen.lineTo(at + height, 0);
    }
    pen.stroke();
    pen.restore();
  }
}

/** A member over the last minutes: when it was there, each heartbeat that was seen, when it was late, when it went. */
export function lane(canvas, width, height, row, gaps, now) {
  const pen = prepare(canvas, width, height);
  const colour = paint();
  const x = (at) => width - 4 - ((now - at) / WINDOW_MS) * (width - 4);
  const middle = Math.round(height / 2);
  const { data, beats, turns } = row;
  const there = data.state === "live" || data.state === "suspect";
  pen.fillStyle = colour.line;
  for (let minute = 0; minute <= WINDOW_MS; minute += 60_000) pen.fillRect(Math.round(x(now - minute)), 0, 1, height);
  const end = there ? now : data.changed_at_ms;
  const from = Math.max(data.joined_at_ms, now - WINDOW_MS);
  if (end > from) {
    pen.fillStyle = colour.accent;
    pen.globalAlpha = there ? 0.28 : 0.16;
    pen.fillRect(x(from), middle - 1, x(end) - x(from), 2);
    pen.globalAlpha = 1;
  }
  if (data.joined_at_ms > now - WINDOW_MS) {
    pen.fillStyle = colour.accent;
    pen.fillRect(x(data.joined_at_ms), middle - 6, 2, 12);
  }
  late(pen, row, there, now, x, middle);
  pen.fillStyle = colour.accent;
  for (const beat of beats) if (beat >= data.joined_at_ms || there) pen.fillRect(x(beat), middle - 4, 1.25, 8);
  hatch(pen, gaps, x, height, now);
  for (const { at, state } of turns) if (state !== "live") sign(pen, state, x(at), middle);
  if (!there && !turns.length) sign(pen, "gone", x(data.changed_at_ms), middle);
}

/** Where a heartbeat was missing for more than half of the ttl, until it came or the member went. */
function late(pen, { data, beats, turns }, there, now, x, middle) {
  pen.fillStyle = paint().warn;
  const went = turns.filter(({ state }) => state === "gone").map(({ at }) => at);
  const ends = there ? [...beats, now] : beats;
  for (let i = 1; i < ends.length; i += 1) {
    const due = ends[i - 1] + data.ttl_ms / 2 + 500;
    const end = went.find((at) => at >= ends[i - 1] && at <= ends[i]) ?? ends[i];
    if (end > due) pen.fillRect(x(due), middle - 1, x(end) - x(due), 2);
  }
}

function sign(pen, state, x, y) {
  const { warn, bad, panel } = paint();
  pen.lineWidth = 2;
  pen.fillStyle = panel;
  pen.fillRect(x - 6, y - 6, 12, 12);
  if (state === "suspect") {
    pen.fillStyle = warn;
    pen.beginPath();
    pen.moveTo(x, y - 4.5);
    pen.lineTo(x + 5, y + 4);
    pen.lineTo(x - 5, y + 4);
    pen.fill();
    return;
  }
  pen.strokeStyle = bad;
  pen.beginPath();
  pen.moveTo(x - 3.5, y - 3.5);
  pen.lineTo(x + 3.5, y + 3.5);
  pen.moveTo(x + 3.5, y - 3.5);
  pen.lineTo(x - 3.5, y + 3.5);
  pen.stroke();
}

/** What happened every few seconds: elections upwards, members downwards, operators as a dot. */
export function pulse(canvas, width, height, state) {
  const pen = prepare(canvas, width, height);
  const colour = paint();
  const now = state.now();
  const x = (at) => width - ((now - at) / WINDOW_MS) * width;
  const base = Math.round(height * 0.66);
  const wide = Math.max(1, (PULSE_MS / WINDOW_MS) * width - 1);
  const size = (count, room) => Math.min(room, 2 + Math.log2(1 + count) * room * 0.28);
  pen.fillStyle = colour.line;
  pen.fillRect(0, base, width, 1);
  for (const [from, counts] of state.pulse) {
    const at = x(from);
    const up = (counts.election ?? 0) + (counts.registry ?? 0) + (counts.server ?? 0);
    pen.fillStyle = colour.accent;
    if (up) pen.fillRect(at, base - size(up, base), wide, size(up, base));
    pen.fillStyle = colour.soft;
    if (counts.member) pen.fillRect(at, base + 1, wide, size(counts.member, height - base - 1));
    pen.fillStyle = colour.ink;
    if (counts.operator) pen.fillRect(at + wide / 2 - 2, 0, 4, 4);
  }
  hatch(pen, state.gaps, x, height, now);
}

/** A server: messages waiting, as an area, over the last minutes. */
export function line(canvas, width, height, samples, now) {
  const pen = prepare(canvas, width, height);
  const colour = paint();
  const x = (at) => width - ((now - at) / WINDOW_MS) * width;
  const most = Math.max(4, ...samples.map((sample) => sample.waiting));
  const y = (waiting) => height - 1 - (waiting / most) * (height - 6);
  pen.fillStyle = colour.line;
  pen.fillRect(0, height - 1, width, 1);
  if (!samples.length) return;
  pen.beginPath();
  pen.moveTo(x(samples[0].at), height);
  let level = y(samples[0].waiting);
  pen.lineTo(x(samples[0].at), level);
  for (const sample of samples) {
    pen.lineTo(x(sample.at), level);
    level = y(sample.waiting);
    pen.lineTo(x(sample.at), level);
  }
  pen.lineTo(width, level);
  pen.lineTo(width, height);
  pen.globalAlpha = 0.16;
  pen.fillStyle = colour.accent;
  pen.fill();
  pen.globalAlpha = 1;
  pen.strokeStyle = colour.accent;
  pen.lineWidth = 1.25;
  pen.stroke();
}

/** The last terms of an election, one beside the other, with the time without a leader between them. */
export function terms(canvas, width, height, history, leader, now) {
  const pen = prepare(canvas, width, height);
  const colour = paint();
  const reigns = history.slice(-11).map((term) => ({ from: term.since_ms, to: term.until_ms }));
  if (leader) reigns.push({ from: leader.since_ms, to: now, present: true });
  if (!reigns.length) return;
  // Terms last from milliseconds to months: widths grow with the logarithm.
  const weight = ({ from, to }) => 1 + Math.log10(1 + Math.max(0, to - from));
  const gaps = reigns.map((reign, i) => (i ? Math.min(16, 2 + 3 * Math.log10(1 + Math.max(0, reign.from - reigns[i - 1].to))) : 0));
  const room = width - gaps.reduce((sum, gap) => sum + gap, 0);
  const whole = reigns.reduce((sum, reign) => sum + weight(reign), 0);
  let at = 0;
  reigns.forEach((reign, i) => {
    at += gaps[i];
    const wide = (weight(reign) / whole) * room;
    pen.fillStyle = reign.present ? colour.accent : colour.faint;
    pen.fillRect(at, 0, wide, height);
    at += wide;
  });
}
