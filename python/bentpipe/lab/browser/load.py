"""One load of a page: started, awaited, and its timings read."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bentpipe.lab.browser.chromium import Chromium, ChromiumError, Site, flags
from bentpipe.lab.browser.devtools import DevTools, Event
from bentpipe.lab.browser.privileges import command_prefix

__all__ = ["SETTLE_S", "Load", "Wanted", "attached", "load", "navigate"]

TIMINGS = """(() => {
  const plain = e => JSON.parse(JSON.stringify(e));
  const [navigation] = performance.getEntriesByType("navigation");
  return JSON.stringify({
    time_origin_ms: performance.timeOrigin,
    navigation: navigation ? plain(navigation) : null,
    resources: performance.getEntriesByType("resource").map(plain),
    paints: performance.getEntriesByType("paint").map(plain),
  });
})()"""
"""The whole of Navigation Timing and Resource Timing."""

NO_ICON = base64.b64encode(b"<!doctype html><link rel=icon href=data:,>").decode()
"""A page for which no icon is fetched."""

OPEN = (
    'Promise.allSettled(%s.map(u => fetch(u, {mode: "no-cors", credentials: "include"}))).then(r => r.length)'
)

KEPT = {
    "Network.requestWillBeSent", "Network.responseReceived", "Network.responseReceivedExtraInfo",
    "Network.requestWillBeSentExtraInfo", "Network.loadingFinished", "Network.loadingFailed",
    "Network.requestServedFromCache", "Network.dataReceived",
}  # fmt: skip
"""Events that a HAR file is made of."""

LINGER_S = 5.0
"""From the load event until loadEventEnd has to stand in the timings: the handlers of the page in between."""

SETTLE_S = 0.5
"""From the browser's answering to its first request. Before, it still starts processes of its own, and pages of 0.1 s
took 20 to 30 ms longer on two idle processors; after 1.5 s it is as after 0.5."""

START_S = float(os.environ.get("BENTPIPE_BROWSER_START_S", "30"))
"""For a browser to start, on a busy machine; $BENTPIPE_BROWSER_START_S instead."""


@dataclass(frozen=True)
class Wanted:
    """What is loaded, and how."""

    url: str
    mode: str
    site: Site
    opened: tuple[str, ...] = ()
    """A connection to each of these hosts is opened before the load."""
    timeout_s: float = 300.0
    tls12: bool = False
    """TLS 1.2 is the newest that is offered."""


@dataclass
class Load:
    """What came of it. Times are of the browser: ``time_origin_ms`` since 1970, the others since then, ms."""

    finished: bool = False
    error: str = ""
    """Why the document did not come (a net::ERR_...), or what cut the load off; empty when it finished."""
    timings: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    start_s: float = 0.0
    """When the page was asked for, since 1970."""
    wall: dict[str, float] = field(default_factory=dict)
    """Seconds that the browser took to ``start``, to ``settle``, to ``open`` connections, to ``load``, to ``quit``."""
    quit_by_itself: bool = True


def load(
    program: Path, wanted: Wanted, profile: Path, log: Path, *, sandbox: bool, netlog: Path | None
) -> Load:
    """Starts a browser, loads the page, reads the timings, ends the browser.

    Raises:
        ChromiumError: the browser did not start, or hung: it has been killed then.
    """
    began = time.monotonic()
    words = flags(wanted.mode, wanted.site, profile, sandbox=sandbox, netlog=netlog)
    prefix = command_prefix()
    if wanted.tls12:
        words.insert(0, "--ssl-version-max=tls1.2")
    browser = Chromium(program, words, profile, log, prefix=prefix)
    done = Load()
    try:
        tools = DevTools(browser)
        session = attached(tools, log)
        tools.call("Page.enable", session)
        tools.call("Network.enable", session, maxTotalBufferSize=0, maxResourceBufferSize=0)
        tools.call("Network.setCacheDisabled", session, cacheDisabled=True)
        done.wall["start"] = time.monotonic() - began
        done.wall["settle"] = SETTLE_S
        time.sleep(SETTLE_S)
        if wanted.opened:
            began = time.monotonic()
            _open(tools, session, wanted)
            done.wall["open"] = time.monotonic() - began
        began = time.monotonic()
        navigate(tools, session, wanted.url, wanted.timeout_s, done)
        done.wall["load"] = time.monotonic() - began
        began = time.monotonic()
        tools.call("Browser.close")
        done.quit_by_itself = browser.end()
        done.wall["quit"] = time.monotonic() - began
    finally:
        browser.kill()
    return done


def attached(tools: DevTools, log: Path) -> str:
    """The session of the browser's first page."""
    try:
        targets = tools.call("Target.getTargets", timeout=START_S)["targetInfos"]
    except ChromiumError as error:
        said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        tail = f"; it said: {said[-1]}" if said else ""
        raise ChromiumError(f"{error}{tail}") from None
    page = next((one["targetId"] for one in targets if one["type"] == "page"), None)
    if page is None:
        page = tools.call("Target.createTarget", url="about:blank")["targetId"]
    session: str = tools.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
    return session


def _open(tools: DevTools, session: str, wanted: Wanted) -> None:
    """Opens connections in the name of the page, which is answered from here: nothing of it is fetched."""
    until = time.monotonic() + min(wanted.timeout_s, 60.0)
    tools.call(
        "Fetch.enable", session, patterns=[{"urlPattern": f"{wanted.url}*", "requestStage": "Request"}]
    )
    tools.call("Runtime.enable", session)
    # Navigation is answered only once its response is there, which comes from here: it is not awaited.
    tools.call("Runtime.evaluate", session, expression=f"location.href = {json.dumps(wanted.url)}; 0")
    while True:
        event = tools.event(until)
        if event is None:
            raise ChromiumError("the browser did not ask for the page that opens connections")
        if event["method"] == "Fetch.requestPaused":
            head = [{"name": "Content-Type", "value": "text/html"}]
            request = event["params"]["requestId"]
            answer = {"requestId": request, "responseCode": 200, "responseHeaders": head, "body": NO_ICON}
            tools.call("Fetch.fulfillRequest", session, **answer)
        if event["method"] == "Page.loadEventFired":
            break
    tools.call("Fetch.disable", session)
    urls = [f"{wanted.site.origin(host)}/.ok" for host in wanted.opened]
    tools.call(
        "Runtime.evaluate", session, timeout=max(1.0, until - time.monotonic()),
        expression=OPEN % json.dumps(urls), awaitPromise=True,
    )  # fmt: skip
    tools.call("Runtime.disable", session)


def navigate(
    tools: DevTools,
    session: str,
    url: str,
    timeout_s: float,
    done: Load,
    each: Callable[[Event], None] | None = None,
) -> None:
    """Loads ``url`` and fills ``done``; ``each`` sees every event at once.

    Raises:
        ChromiumError: the page crashed, or the browser has ended; ``done`` has what came before.
    """

    def take(event: Event) -> None:
        if each is not None:
            each(event)
        if event["method"] in KEPT:
            done.events.append(event)

    tools.forget()
    done.start_s = time.time()
    until = time.monotonic() + timeout_s
    # Answered only when the response is there; what matters comes as events.
    tools.start("Page.navigate", session, url=url)
    document = None
    while True:
        event = tools.event(until)
        if event is None:
            done.error = f"not finished within {timeout_s:g} s"
            _read(tools, session, done, document)
            return
        method, about = event["method"], event.get("params", {})
        take(event)
        if document is None and method == "Network.requestWillBeSent":
            document = about["requestId"]
        if method == "Network.loadingFailed" and about["requestId"] == document:
            done.error = about.get("errorText", "failed")
            return
        if method in ("Inspector.targetCrashed", "Target.targetCrashed"):
            raise ChromiumError("the page crashed")
        if method == "Page.loadEventFired":
            break
    _read(tools, session, done, document)
    navigation = done.timings.get("navigation") or {}
    done.finished = bool(navigation.get("loadEventEnd"))
    if not done.finished:
        done.error = f"loadEventEnd did not come within {LINGER_S:g} s of the load event"
    for event in tools.rest():
        take(event)


def _answered(events: Sequence[Event]) -> set[str]:
    """What a response has come to. Before, a document has no timings, and a browser holds back who asks for them."""
    return {one["params"]["requestId"] for one in events if one["method"] == "Network.responseReceived"}


def _read(tools: DevTools, session: str, done: Load, document: str | None) -> None:
    """Reads the timings; again until loadEventEnd is there, where the page has finished."""
    if document not in _answered(done.events):
        return
    until = time.monotonic() + LINGER_S
    while True:
        result = tools.call("Runtime.evaluate", session, expression=TIMINGS, returnByValue=True)["result"]
        done.timings = json.loads(result["value"])
        navigation = done.timings["navigation"] or {}
        if done.error or navigation.get("loadEventEnd") or time.monotonic() > until:
            return
        time.sleep(0.005)
