"""What the dashboard must do, in a real browser: `cases.py CASE URL [FOLDER FOR PICTURES]`, started by the test of the same name."""

import sys
import time

from browser import ask, looking, stage, until
from sight import COMPLAINTS

# A change must be seen within this.
SECOND_MS = 1000
# So often a leader changes. The quickest counts: whatever is slower waited for a busy machine, not for us.
CHANGES = 5
# A node renews its session this often, in seconds.
HEARTBEAT = 5
# The time in which the page's own cost is measured, in seconds.
REST = 3
# A change of leader is two or three rows and two or three events; and heartbeats of a few nodes come with it.
BYTES_A_CHANGE = 4000
# However much there is, no more is in the document: five views with about forty rows each, and the rest of the page.
NODES_MOST = 4000


def leads(url, name, holder):
    """Makes somebody the holder of a lease; the time at which that was answered."""
    ask(url, "POST", f"/locks/{name}/claim", {"holder": holder, "ttl_ms": 60_000})
    return time.monotonic()


def gives_up(url, name, holder):
    ask(url, "DELETE", f"/locks/{name}", {"holder": holder})


def shows(url, folder):
    """It opens, shows who is there and who leads, and every change within a second."""
    leads(url, "office", "holder-0")
    with looking() as look:
        look.open(url)
        for node in ("daemon", "one", "two"):
            look.shows("members", node)
        assert look.page.title() == "page · tenure", look.page.title()
        assert look.page.locator("#tab-members .big").inner_text() == "3"
        look.keys("2")
        look.shows("elections", "job", "one")
        assert look.cell("elections", "job", "term") == "1"
        look.shot(folder, "elections")
        changes_of_leader(url, look)
        # A leader that dies: its office goes over as soon as that is known, and is seen a second after that.
        stage("kill one")
        since = until("another leads", lambda: since_of(url, "job", "two"))
        look.shows("elections", "job", "two")
        delay = look.first_seen("two") - since
        print(f"the successor of a leader that was killed was seen after {delay:.0f} ms")
        assert delay < 5 * SECOND_MS, delay
        look.shot(folder, "killed")
        look.keys("1")
        until("it is shown as gone", lambda: "is-gone" in look.row("members", "one").get_attribute("class"))
        assert look.page.locator("#tab-members .count.gone").inner_text() == "1"
        look.shot(folder, "gone")
        look.keys("5")
        look.shows("events", "job", "two")


def since_of(url, election, node):
    """Since when it is led by this node, in milliseconds since 1970; None if it is not."""
    leader = ask(url, "GET", f"/v1/elections/{election}")["leader"]
    return leader["since_ms"] if leader and leader["node"] == node else None


def changes_of_leader(url, look):
    """From the time that the store has for a change to the time that the page showed it, both by the clock of this machine."""
    look.watch("elections", "leader")
    delays = []
    for number in range(1, CHANGES + 1):
        gives_up(url, "office", f"holder-{number - 1}")
        leads(url, "office", f"holder-{number}")
        look.shows("elections", "office", f"holder-{number}")
        delays.append(look.first_seen(f"holder-{number}") - since_of(url, "office", f"holder-{number}"))
    print(f"changes of leader were seen after {', '.join(f'{delay:.0f}' for delay in delays)} ms")
    assert min(delays) < SECOND_MS, delays
    assert max(delays) < 10 * SECOND_MS, delays


def empty(url, folder):
    """Nothing but the daemon: each view says that there is nothing. What the page may do is written in its headers."""
    with looking() as look:
        answer = look.open(url)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "frame-ancestors 'none'" in policy, policy
        assert "unsafe" not in policy and "*" not in policy and "data:" not in policy, policy
        look.shows("members", "daemon")
        for key, words in (("2", "no elections"), ("3", "no servers"), ("4", "no registries")):
            look.keys(key)
            look.page.locator("main .nothing:visible").get_by_text(words).wait_for()
            look.shot(folder, f"empty-{key}")
        look.keys("5")
        look.shows("events", "daemon", "joined")
        # What is written in an address by hand may be anything.
        for hash in ("#members/%", "#nothing/at/all", "#elections/%00", "#servers/x"):
            look.page.evaluate("(hash) => { location.hash = hash; }", hash)
        look.keys("1")
        look.shows("members", "daemon")


def tour(url, folder):
    """All views, light and dark, wide and narrow: nothing is cut off, everything can be read, and no text is taken for markup."""
    hostile = '<img src=x onerror="document.title=\'taken\'">'
    ask(url, "POST", "/locks/hostile/claim", {"holder": hostile, "ttl_ms": 60_000})
    for scheme in ("light", "dark"):
        with looking(color_scheme=scheme) as look:
            look.open(url)
            look.shows("members", "keeper")
            readable(look, folder, scheme, (1440, 900), closed=True)
            readable(look, folder, scheme, (390, 844), closed=True)
            readable(look, folder, scheme, (1440, 900), closed=False)
            readable(look, folder, scheme, (390, 844), closed=False)
            assert look.page.locator("main img, main script, dialog img").count() == 0
            assert look.page.title() == "page · tenure", look.page.title()


# What is opened in each view.
OPENED = ("members/keeper", "elections/billing", "servers", "registries/users", "events")


def readable(look, folder, scheme, size, closed):
    look.page.set_viewport_size({"width": size[0], "height": size[1]})
    for place in OPENED:
        view = place.split("/")[0]
        look.page.evaluate("(hash) => { location.hash = hash; }", "#" + (view if closed else place))
        if view == "servers" and not closed:
            look.row("servers", "fussy").click()
            until("dead letters", lambda: look.page.locator("#detail .letters li").count() == 2)
        opened = not closed and view != "events"
        look.page.locator("#detail" if opened else f"#view-{view}").wait_for(state="visible")
        if opened and view == "elections":
            look.page.locator("#detail pre").get_by_text("<img").wait_for()
        if opened and view == "registries":
            look.page.locator("#detail .row").get_by_text("<img").wait_for()
        name = f"{view}{'-open' if opened else ''}-{scheme}-{size[0]}"
        look.shot(folder, name)
        found = look.page.evaluate(COMPLAINTS)
        assert not found, (name, found)
        if opened:
            look.keys("Escape")


def restart(url, folder):
    """The daemon dies and comes back: the page says so, and goes on by itself."""
    leads(url, "office", "before")
    with looking() as look:
        look.open(f"{url}/#elections/office")
        look.shows("elections", "office", "before")
        look.page.evaluate("window.same = true")
        look.offline = True
        stage("kill-daemon")
        look.page.wait_for_selector("p.link.reconnecting")
        assert look.page.locator("#link").inner_text() == "reconnecting"
        look.shows("elections", "office", "before")
        stage("kill two")
        until("it says for how long", lambda: look.page.locator("#link").get_attribute("data-since"))
        look.shot(folder, "reconnecting")
        stage("start-daemon")
        look.page.wait_for_selector("p.link.live")
        gives_up(url, "office", "before")
        leads(url, "office", "after")
        look.shows("elections", "office", "after")
        until("the open panel goes on", lambda: "after" in look.page.locator("#detail .facts").inner_text())
        look.keys("1")
        until("what died meanwhile is not live", lambda: "is-live" not in (look.row("members", "two").get_attribute("class") or ""), within=60)
        assert look.page.evaluate("window.same"), "the page was loaded anew"
        look.shot(folder, "back")


def keyboard(url, folder):
    """Everything by keyboard alone."""
    for name in ("alpha", "beta", "gamma"):
        leads(url, name, "keeper")
    with looking() as look:
        look.open(url)
        panel = look.page.locator("#detail")
        focused = lambda: look.page.evaluate("document.activeElement.className + ' ' + document.activeElement.tagName")
        look.keys("Tab")
        assert "skip" in focused(), focused()
        look.keys("Enter")
        assert "list members" in focused(), focused()
        look.keys("2", "Home")
        assert look.row("elections", "alpha").get_attribute("aria-selected") == "true"
        look.keys("j", "ArrowDown", "k", "Enter")
        panel.wait_for(state="visible")
        assert panel.locator("h2").inner_text() == "beta"
        assert "H2" in focused(), focused()
        assert look.page.url.endswith("#elections/beta"), look.page.url
        # The panel follows.
        look.keys("j")
        until("the panel follows", lambda: panel.locator("h2").inner_text() == "gamma")
        look.shot(folder, "panel")
        look.keys("Escape")
        panel.wait_for(state="hidden")
        assert "list elections" in focused(), focused()
        # Filter.
        look.keys("/")
        look.page.keyboard.type("bet")
        until("one row", lambda: look.page.locator("#view-elections .row").count() == 1)
        look.keys("Enter", "j", "Enter")
        assert panel.locator("h2").inner_text() == "beta"
        look.keys("Escape", "/", "Escape", "Escape")
        until("all rows", lambda: look.page.locator("#view-elections .row").count() == 4)
        # Help, and nothing else by the same keys meanwhile.
        look.keys("?")
        look.page.wait_for_selector("#help[open]")
        look.keys("1")
        assert look.page.locator("#view-elections").is_visible()
        look.shot(folder, "help")
        look.keys("Escape")
        look.page.wait_for_selector("#help:not([open])", state="attached")
        for digit, view in enumerate(("members", "elections", "servers", "registries", "events"), 1):
            look.keys(str(digit))
            assert look.page.locator(f"#view-{view}").is_visible(), view
        before = look.page.evaluate("getComputedStyle(document.body).backgroundColor")
        look.keys("t")
        assert look.page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def actions(url, folder):
    """What operators do is asked for once more, and then it is done; dead letters come back."""
    with looking() as look:
        look.open(f"{url}/#elections/job")
        page, dialog = look.page, look.page.locator("#confirm")
        press = lambda name: page.locator("#detail").get_by_role("button", name=name, exact=True).first.click()
        yes = lambda: dialog.locator("button[value=yes]").click()
        leader = lambda: (ask(url, "GET", "/v1/elections/job")["leader"] or {}).get("node")
        look.shows("elections", "job", "one")

        press("Depose")
        assert dialog.locator("h2").inner_text() == "Depose one?"
        look.shot(folder, "depose")
        look.keys("Enter")
        until("the first button is no", lambda: not dialog.is_visible())
        press("Depose")
        look.keys("Escape")
        until("Escape is no", lambda: not dialog.is_visible())
        assert leader() == "one", "nothing was done"
        press("Depose")
        yes()
        look.shows("elections", "job", "two")
        assert leader() == "two"
        until("the history is shown", lambda: "deposed" in page.locator("#detail .history").inner_text())

        until("it stands again", lambda: len(ask(url, "GET", "/v1/elections/job")["candidates"]) > 0)
        page.locator("#detail").get_by_role("button", name="Hand over").wait_for()
        press("Hand over")
        assert dialog.locator("select").input_value() == "one"
        yes()
        look.shows("elections", "job", "one")
        press("Ask to resign")
        yes()
        look.shows("elections", "job", "two")

        look.keys("3")
        look.shows("servers", "picky")
        look.row("servers", "fussy").click()
        letters = page.locator("#detail .letters li")
        until("two dead letters", lambda: letters.count() == 2)
        assert "too large" in letters.first.inner_text()
        look.shot(folder, "dead-letters")
        press("Drop")
        assert "never handled" in dialog.inner_text()
        yes()
        until("one dead letter", lambda: letters.count() == 1)
        stage("lenient")
        press("Replay")
        yes()
        until("none", lambda: letters.count() == 0)
        until("it was handled", lambda: ask(url, "GET", "/v1/servers/picky/fussy")["applied"] > 0)
        press("Delete")
        assert "can't be undone" in dialog.inner_text()
        yes()
        until("it is gone", lambda: page.locator("#detail .gone-note").is_visible())


def roles(url, folder):
    """Without a token nothing is shown; who may only read is offered nothing else."""
    reader, operator = sys.stdin.readline().split()
    for token, offered in ((reader, 0), (operator, 1)):
        with looking() as look:
            addresses = []
            look.page.on("request", lambda request: addresses.append(request.url))
            # The browser tells of every answer 401.
            look.offline = True
            look.page.goto(f"{url}/#elections/job")
            asked = look.page.locator("#token")
            asked.wait_for(state="visible")
            look.shot(folder, "token")
            look.page.keyboard.type("not a token at all")
            look.keys("Enter")
            asked.get_by_text("refused").wait_for()
            look.page.keyboard.type(token)
            look.keys("Enter")
            look.page.wait_for_selector("p.link.live")
            look.offline = False
            offers(look, offered)
            look.shot(folder, f"role-{'operate' if offered else 'read'}")
            # It is asked for once, kept as long as the tab, and written nowhere.
            look.page.reload()
            look.page.wait_for_selector("p.link.live")
            assert not asked.is_visible()
            offers(look, offered)
            assert any("/v1/events" in address for address in addresses), addresses
            assert not [address for address in addresses + [look.page.url] if token in address]
            kept = look.page.evaluate("JSON.stringify([Object.values(localStorage), document.cookie])")
            assert token not in kept, kept


def offers(look, offered):
    """One who may operate is offered to depose a leader; others are not, though they see all there is to it."""
    look.shows("elections", "job", "one")
    look.page.locator("#detail .facts").get_by_text("session").wait_for()
    look.page.locator("#detail[aria-busy=false]").wait_for()
    assert look.page.get_by_role("button", name="Depose").count() == offered
    assert look.page.locator("#detail .actions button").count() >= offered


def many(url, folder):
    """A thousand members and ten thousand elections: only those in sight are in the document, all can be reached, and a change costs what changed."""
    with looking() as look:
        page = look.page
        wire = page.context.new_cdp_session(page)
        received = []
        wire.on("Network.dataReceived", lambda event: received.append(event["dataLength"]))
        wire.send("Network.enable")
        wire.send("Performance.enable")
        since = time.monotonic()
        look.open(f"{url}/#elections")
        until("all elections are known", lambda: page.locator("#tab-elections .big").inner_text() == "10,000", within=60)
        until("all members are known", lambda: page.locator("#tab-members .big").inner_text() == "1,002", within=60)
        whole = sum(received)
        print(f"all was told in {time.monotonic() - since:.1f} s and {whole / 1e6:.2f} MB")
        assert look.nodes() < NODES_MOST, look.nodes()
        look.shot(folder, "many")
        look.keys("End")
        look.shows("elections", "shard-9999")
        assert page.locator("#view-elections [role=grid]").get_attribute("aria-rowcount") == "10001"
        assert page.locator("#view-elections .row").count() < 60
        page.mouse.move(400, 500)
        for _ in range(40):
            page.mouse.wheel(0, -5000)
        until("it was scrolled", lambda: page.locator("#view-elections .row", has_text="shard-9999").count() == 0)
        assert look.nodes() < NODES_MOST, look.nodes()
        changes_cost_little(url, look, wire, received, whole)
        look.keys("/")
        page.keyboard.type("shard-7777")
        until("one row", lambda: page.locator("#view-elections .row").count() == 1)
        look.keys("Escape", "Escape", "1", "End")
        look.shows("members", "node-999")
        look.shot(folder, "many-members")
        look.keys("3", "4", "5", "2")
        assert look.nodes() < NODES_MOST, look.nodes()


def busy(wire):
    """For how many seconds the page has had the processor."""
    return next(metric["value"] for metric in wire.send("Performance.getMetrics")["metrics"] if metric["name"] == "TaskDuration")


def changes_cost_little(url, look, wire, received, whole):
    """Changes, for longer than a heartbeat of who leads ten thousand elections: nothing is told again that did not change."""
    look.keys("Home")
    leads(url, "a-change", "holder-0")
    look.shows("elections", "a-change", "holder-0")
    busy_before = busy(wire)
    look.page.wait_for_timeout(REST * 1000)
    rest = (busy(wire) - busy_before) / REST
    since, bytes_before, busy_before = time.monotonic(), sum(received), busy(wire)
    number = 0
    while time.monotonic() - since < HEARTBEAT + 1:
        number += 1
        gives_up(url, "a-change", f"holder-{number - 1}")
        leads(url, "a-change", f"holder-{number}")
        look.shows("elections", "a-change", f"holder-{number}")
    took = time.monotonic() - since
    told, busied = sum(received) - bytes_before, busy(wire) - busy_before
    print(f"at rest the page takes {rest:.0%} of a processor")
    print(f"{number} changes in {took:.1f} s: {told / number:.0f} bytes and {busied / number * 1000:.1f} ms of the page's time for each; {busied / took:.0%} of a processor")
    assert told < whole / 20, (told, whole)
    assert told / number < BYTES_A_CHANGE, told / number
    assert busied / took < 0.8, (busied, took)


CASES = {case.__name__: case for case in (shows, empty, tour, restart, keyboard, actions, roles, many)}

if __name__ == "__main__":
    wanted, address, *pictures = sys.argv[1:]
    CASES[wanted](address, pictures[0] if pictures else None)
