// The daemon: one stream of events that mends itself, and single requests.

/** A stream that says nothing for so long is dead: there is a beat every 5 s. */
const SILENCE_MS = 12_000;
/** A single request that takes so long is given up. */
const REQUEST_MS = 15_000;
/** The longest wait between two attempts. */
const BACKOFF_MS = 2_000;
/** Clocks that differ by less are taken for the same: the daemon tells its time in whole seconds. */
const SKEW_MS = 2_000;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** An answer that is none: what the daemon says about it. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `status ${status}`);
    this.status = status;
  }
}

/** The connection. `hooks`: who(answer), begin(), event(name, data), link(state), token(refused) -> text, skew(ms). */
export class Live {
  constructor(hooks) {
    this.hooks = hooks;
  }

  headers() {
    const token = sessionStorage.getItem("tenure-token");
    return token ? { authorization: `Bearer ${token}` } : {};
  }

  /** One request; its answer, or a problem. */
  async call(method, path, body) {
    const headers = this.headers();
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_MS),
      cache: "no-store",
    });
    this.compareClocks(answer);
    const said = await answer.json().catch(() => null);
    if (!answer.ok) throw new Problem(answer.status, said);
    return said;
  }

  compareClocks(answer) {
    const theirs = Date.parse(answer.headers.get("date") ?? "");
    if (Number.isNaN(theirs)) return;
    const skew = theirs + 500 - Date.now();
    this.hooks.skew(Math.abs(skew) < SKEW_MS ? 0 : skew);
  }

  /** For ever: connects, listens, and connects again. */
  async run() {
    this.failures = 0;
    this.hooks.link("connecting");
    for (;;) {
      try {
        this.hooks.who(await this.call("GET", "/v1/whoami"));
        await this.listen();
      } catch (error) {
        if (error.status === 401) {
          const refused = sessionStorage.getItem("tenure-token") !== null;
          sessionStorage.setItem("tenure-token", await this.hooks.token(refused));
          continue;
        }
      }
      this.hooks.link("reconnecting");
      await pause(Math.min(BACKOFF_MS, 200 * 2 ** this.failures) * (0.75 + Math.random() / 2));
      this.failures += 1;
    }
  }

  /** Reads the stream until it ends or falls silent. */
  async listen() {
    const stop = new AbortController();
    let watchdog = setTimeout(() => stop.abort(), SILENCE_MS);
    try {
      const headers = { ...this.headers(), accept: "text/event-stream" };
      const answer = await fetch("/v1/events", { headers, signal: stop.signal, cache: "no-store" });
      if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => null));
      this.hooks.begin();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new Parser((event, data) => this.heard(event, data));
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => stop.abort(), SILENCE_MS);
        parser.feed(value);
      }
    } finally {
      clearTimeout(watchdog);
      stop.abort();
    }
  }

  heard(event, data) {
    this.hooks.event(event, data);
    if (event !== "ready") return;
    this.failures = 0;
    this.hooks.link("live");
  }
}

/** Server-sent events, from pieces of text. */
class Parser {
  constructor(tell) {
    this.tell = tell;
    this.rest = "";
    this.event = "";
    this.data = [];
  }

  feed(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") {
      if (this.data.length) this.tell(this.event || "message", JSON.parse(this.data.join("\n")));
      this.event = "";
      this.data = [];
      return;
    }
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "event") this.event = value;
    else if (field === "data") this.data.push(value);
  }
}
