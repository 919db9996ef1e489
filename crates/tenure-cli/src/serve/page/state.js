// What the page knows of the cluster: tables that are told by the daemon, and what only time tells (heartbeats, rates).

/** How far back the page shows. */
export const WINDOW_MS = 5 * 60_000;
/** The time that one bar of the pulse stands for. */
export const PULSE_MS = 3000;
/** How many events are kept. */
const EVENTS = 500;
/** The time over which a rate is taken. */
const RATE_MS = 10_000;
/** The time between two samples of a server. */
const SAMPLE_MS = 2_000;

/** A name so that numbers in it sort as numbers. */
const natural = (name) => name.replace(/\d+/g, (digits) => digits.padStart(15, "0"));

/** Rows by key, in the order of their names. */
class Table {
  constructor(key, search, took = () => {}) {
    Object.assign(this, { key, search, took });
    this.rows = new Map();
    this.order = [];
    this.added = [];
    this.removed = false;
    this.generation = 0;
    /** Grows when rows come or go. */
    this.shape = 0;
    /** Grows with every change. */
    this.revision = 0;
  }

  set(items, now, settled) {
    for (const data of items) {
      const key = this.key(data);
      let row = this.rows.get(key);
      const before = row?.data;
      if (!row) {
        row = { key, sort: natural(key), revision: 0, flash: 0, data };
        this.rows.set(key, row);
        this.added.push(row);
        this.shape += 1;
      }
      row.data = data;
      row.found = null;
      row.revision += 1;
      row.generation = this.generation;
      this.took(row, before, now, settled);
    }
    this.revision += 1;
  }

  remove(keys) {
    for (const key of keys) {
      const row = this.rows.get(key);
      if (!row) continue;
      this.rows.delete(key);
      row.removed = true;
      this.removed = true;
      this.shape += 1;
    }
    this.revision += 1;
  }

  /** Everything is told anew from here on. */
  begin() {
    this.generation += 1;
  }

  /** Everything was told: what was not is no more. */
  settle() {
    this.remove([...this.rows.values()].filter((row) => row.generation !== this.generation).map((row) => row.key));
  }

  /** All rows, by name. */
  ordered() {
    if (this.removed) this.order = this.order.filter((row) => !row.removed);
    if (this.added.length > 32) {
      this.order = [...this.rows.values()].sort((a, b) => (a.sort < b.sort ? -1 : a.sort > b.sort ? 1 : 0));
    } else {
      for (const row of this.added) if (!row.removed) this.order.splice(this.place(row), 0, row);
    }
    this.added = [];
    this.removed = false;
    return this.order;
  }

  place(row) {
    let [low, high] = [0, this.order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.order[middle].sort < row.sort) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Whether a row has all these words somewhere. */
  has(row, words) {
    row.found ??= this.search(row.data).join("\n").toLowerCase();
    return words.every((word) => row.found.includes(word));
  }
}

const labels = (map) => Object.entries(map ?? {}).map(([name, value]) => `${name}=${value}`);

/** A member's heartbeats and changes of state, as far as the page saw them. */
function tookMember(row, before, now) {
  const { data } = row;
  row.beats ??= [];
  row.turns ??= [];
  // Of who is gone, the time is that of its end.
  if (data.state === "live" || data.state === "suspect") beat(row, data.last_seen_ms, now);
  if (before && data.state !== before.state) row.turns.push({ at: data.changed_at_ms, state: data.state });
  while (row.turns.length && row.turns[0].at < now - WINDOW_MS) row.turns.shift();
}

function beat(row, at, now) {
  if (at > (row.beats.at(-1) ?? 0)) row.beats.push(at);
  while (row.beats.length && row.beats[0] < now - WINDOW_MS) row.beats.shift();
}

/** A row whose leader changed lights up. */
function tookElection(row, before, now, settled) {
  const [is, was] = [row.data.leader?.session, before?.leader?.session];
  if (settled && before && (is !== was || row.data.term !== before.term)) row.flash = now;
}

/** What a server has applied, over time: its newest sample, and older ones at some distance. */
function tookServer(row, before, now) {
  row.samples ??= [];
  // How long the first has waited is told when something changes: it goes on waiting.
  row.oldestSince = row.data.oldest_ms == null ? null : now - row.data.oldest_ms;
  const previous = row.samples.at(-2);
  if (previous && now - previous.at < SAMPLE_MS) row.samples.pop();
  row.samples.push({ at: now, applied: row.data.applied, waiting: row.data.waiting });
  while (row.samples.length > 2 && row.samples[0].at < now - WINDOW_MS) row.samples.shift();
}

/** How many messages a second a server applied lately. */
export function serverRate(row, now) {
  const samples = row.samples ?? [];
  const last = samples.at(-1);
  if (!last || now - last.at > RATE_MS) return 0;
  let first = last;
  for (let i = samples.length - 1; i >= 0 && samples[i].at > now - RATE_MS; i -= 1) first = samples[i];
  const seconds = Math.max(now - first.at, 1000) / 1000;
  return Math.max(0, last.applied - first.applied) / seconds;
}

/** How long the first message of a server has waited. */
export const serverAge = (row, now) => (row.oldestSince == null ? 0 : Math.max(0, now - row.oldestSince));

export const serverKey = (kind, id) => `${kind}\u0000${id}`;

/** Everything the page knows. */
export class State {
  constructor() {
    this.tables = {
      members: new Table(
        (data) => data.node,
        (data) => [data.node, data.state, data.cause ?? "", data.address ?? "", data.version ?? "", data.session, ...labels(data.labels)],
        tookMember,
      ),
      elections: new Table(
        (data) => data.name,
        (data) => [data.name, data.leader?.node ?? "", data.leader?.session ?? ""],
        tookElection,
      ),
      kinds: new Table((data) => data.kind, (data) => [data.kind]),
      servers: new Table(
        (data) => serverKey(data.kind, data.id),
        (data) => [data.kind, data.id, data.stopped ? "stopped" : "", data.locked ? "locked" : ""],
        tookServer,
      ),
      registries: new Table((data) => data.name, (data) => [data.name, data.leader ?? ""]),
    };
    this.events = [];
    /** How many events of a sort there were in each short time: what the pulse draws. */
    this.pulse = new Map();
    /** When the daemon was not heard. */
    this.gaps = [];
    this.settled = false;
    /** How far the daemon's clock is ahead of ours. */
    this.skew = 0;
  }

  /** The time, as the daemon's clock has it. */
  now() {
    return Date.now() + this.skew;
  }

  begin() {
    this.settled = false;
    this.events = [];
    this.pulse.clear();
    for (const table of Object.values(this.tables)) table.begin();
  }

  take(event, data) {
    const now = this.now();
    if (event === "ready") {
      for (const table of Object.values(this.tables)) table.settle();
      this.settled = true;
      this.trimPulse();
    } else if (event === "happened") {
      this.happened(data);
    } else if (event === "beats") {
      this.beats(data, now);
    } else if (this.tables[event]) {
      this.tables[event].set(data.set ?? [], now, this.settled);
      const gone = data.gone ?? [];
      this.tables[event].remove(event === "servers" ? gone.map(([kind, id]) => serverKey(kind, id)) : gone);
    }
  }

  happened(data) {
    this.eventNumber = (this.eventNumber ?? 0) + 1;
    const found = `${data.sort}\n${data.subject}\n${data.text}`.toLowerCase();
    this.events.unshift({ key: `event ${this.eventNumber}`, revision: 0, data, found });
    if (this.events.length > EVENTS) this.events.length = EVENTS;
    const from = data.at_ms - (data.at_ms % PULSE_MS);
    const counts = this.pulse.get(from) ?? {};
    counts[data.sort] = (counts[data.sort] ?? 0) + 1;
    this.pulse.set(from, counts);
    if (this.settled) this.trimPulse();
  }

  trimPulse() {
    for (const old of this.pulse.keys()) if (old < this.now() - WINDOW_MS - PULSE_MS) this.pulse.delete(old);
  }

  /** Heartbeats: nothing else of these rows is another. What they look like is drawn with the time. */
  beats({ members = [], elections = [] }, now) {
    for (const [node, at, renewals] of members) {
      const row = this.tables.members.rows.get(node);
      if (!row) continue;
      row.data.last_seen_ms = at;
      row.data.renewals = renewals;
      beat(row, at, now);
    }
    for (const [name, at] of elections) {
      const row = this.tables.elections.rows.get(name);
      if (row) row.data.last_seen_ms = at;
    }
  }

  /** The daemon is not heard any more, or is again. */
  heard(yes) {
    const last = this.gaps.at(-1);
    if (!yes && (!last || last.to)) this.gaps.push({ from: this.now(), to: null });
    if (yes && last && !last.to) last.to = this.now();
    while (this.gaps.length && this.gaps[0].to && this.gaps[0].to < this.now() - WINDOW_MS) this.gaps.shift();
  }

  /** How long a leader's session would last if it were not renewed any more. It is renewed, so this is a guess. */
  left(election) {
    const { leader, ttl_ms: ttl, last_seen_ms: seen } = election;
    if (!leader || ttl == null) return null;
    const member = this.tables.members.rows.get(leader.node)?.data;
    const beat = member?.session === leader.session ? Math.max(member.last_seen_ms, seen ?? 0) : seen;
    return beat == null ? null : ttl - (this.now() - beat);
  }
}
