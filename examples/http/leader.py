#!/usr/bin/env python3
"""Works while this process leads, with nothing but Python's standard library.

    ./leader.py NAME

`Lease` is the part to copy. Work goes in steps: each asks `lease.remaining()` whether there is time for it, and gives `lease.term` to
whatever it writes to, which should refuse every term smaller than one it has seen. That also protects against a process that was
stopped between the question and the step.

    TENURE_URL    where the daemon is, usually http://127.0.0.1:4040
    TENURE_TOKEN  the bearer token, if it wants one
    TTL_MS        how long the lease lives without being refreshed, usually 15000
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request


# The longest that one step of the work may take, in seconds.
STEP_TIME = 0.2


def now():
    """Seconds on the clock that goes on while the machine sleeps. Never the wall clock, which can be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Unknown(Exception):
    """There was no answer: it may have happened, or may happen yet."""


class Lease:
    """An office of a cluster, held by one program at a time."""

    def __init__(self, name, url, token=None, ttl=15.0):
        self.url = f"{url}/locks/{urllib.parse.quote(name, safe='')}"
        self.token, self.ttl = token, ttl
        # Nobody else may be called so: two with one name would be one holder.
        self.holder = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"
        self.term = None
        self.until = 0.0
        self.lost = threading.Event()
        self.closed = threading.Event()

    def remaining(self):
        """Seconds for which nobody else can lead. When it is 0, no work may go on."""
        return 0.0 if self.lost.is_set() else max(0.0, self.until - now())

    def claim(self):
        """Waits until this process leads. False if it was closed before."""
        while not self.closed.is_set():
            try:
                # The lease counts from before it was asked for: the answer may take long.
                asked = now()
                status, answer = self._ask("POST", "/claim", {"holder": self.holder, "ttl_ms": int(self.ttl * 1000)})
                if status == 200:
                    self._held(asked)
                    self.term = answer["term"]
                    self.lost.clear()
                    threading.Thread(target=self._keep, args=(self.term,), daemon=True).start()
                    return True
                if status != 409 and status < 500:
                    raise RuntimeError(f"refused with {status}: {answer.get('detail')}")
            except Unknown:
                pass
            self.closed.wait(0.5)
        return False

    def release(self):
        """Gives it up. All work must have ended. In its own term only, so that a late request takes nothing from a successor."""
        self.closed.set()
        if self.term is not None:
            try:
                self._ask("DELETE", "", {"holder": self.holder, "term": self.term})
            except Unknown:
                pass  # Then its ttl ends it.

    def _held(self, asked):
        # A tenth of the ttl for clocks that differ in speed.
        self.until = asked + self.ttl * 0.9

    def _keep(self, term):
        pause = self.ttl / 3
        while not self.closed.wait(pause):
            asked = now()
            if asked >= self.until:
                break
            try:
                status, _ = self._ask("POST", "/refresh", {"holder": self.holder, "term": term})
            except Unknown:
                # It holds until its time is over, and is asked again.
                pause = self.ttl / 10
                continue
            if status == 409:
                break
            if status == 200:
                self._held(asked)
                pause = self.ttl / 3
        if not self.closed.is_set():
            self.lost.set()

    def _ask(self, method, path, body):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.ttl / 3) as response:
                return response.status, json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as error:
            try:
                return error.code, json.loads(error.read() or b"{}")
            except ValueError:
                return error.code, {}
        except (OSError, ValueError) as error:
            raise Unknown(str(error)) from error


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} NAME")
    url = os.environ.get("TENURE_URL", "http://127.0.0.1:4040")
    ttl = int(os.environ.get("TTL_MS", "15000")) / 1000
    lease = Lease(sys.argv[1], url, os.environ.get("TENURE_TOKEN"), ttl)
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, lambda *_: lease.closed.set())
    while lease.claim():
        print(f"leads in term {lease.term}", flush=True)
        while not lease.lost.is_set() and not lease.closed.is_set():
            if lease.remaining() > STEP_TIME:
                time.sleep(0.1)  # The work: a step that takes less than STEP_TIME.
            else:
                lease.lost.wait(0.1)  # No time is left for a step: it is lost, or refreshed after all.
        if lease.lost.is_set():
            print(f"lost in term {lease.term}", flush=True)
    lease.release()


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(str(error))
