"""One load of a page and its timings."""

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
"""Script that returns all entries of Navigation Timing and Resource Timing."""

NO_ICON = base64.b64encode(b"<!doctype html><link rel=icon href=data:,>").decode()
"""Page without a request for an icon, in base64."""

OPEN = (
    'Promise.allSettled(%s.map(u => fetch(u, {mode: "no-cors", credentials: "include"}))).then(r => r.length)'
)

HAR_EVENTS = {
    "Network.requestWillBeSent", "Network.responseReceived", "Network.responseReceivedExtraInfo",
    "Network.requestWillBeSentExtraInfo", "Network.loadingFinished", "Network.loadingFailed",
    "Network.requestServedFromCache", "Network.dataReceived",
}  # fmt: skip
"""Events for a HAR file."""

LINGER_S = 5.0
"""Maximum time in s from the load event to loadEventEnd, in which the handlers of the page run."""

SETTLE_S = 0.5
"""Delay in s between the first answer of the browser and its first request.

Before, the browser still starts processes, and pages of 0.1 s took 20 to 30 ms longer on two idle processors. A delay
of 1.5 s gives the same times as 0.5 s.
"""

START_S = float(os.environ.get("BENTPIPE_BROWSER_START_S", "30"))
"""Time in s for a browser to start on a busy machine; $BENTPIPE_BROWSER_START_S overrides it."""


@dataclass(frozen=True)
class Wanted:
    """Page to load, and settings of the load."""

    url: str
    mode: str
    site: Site
    opened: tuple[str, ...] = ()
    """Hosts to which a connection is opened before the load."""
    timeout_s: float = 300.0
    tls12: bool = False
    """True if TLS 1.2 is the latest offered version."""


@dataclass
class Load:
    """Result of a load. Times are in ms: ``time_origin_ms`` since 1970, the others since ``time_origin_ms``."""

    finished: bool = False
    error: str = ""
    """Error of the document (net::ERR_...), or reason of an abort; empty if the load finished."""
    timings: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    start_s: float = 0.0
    """Start of the navigation in s since 1970."""
    wall: dict[str, float] = field(default_factory=dict)
    """Durations in s of ``start``, ``settle``, ``open`` (connections), ``load`` and ``quit``."""
    quit_by_itself: bool = True


def load(
    program: Path, wanted: Wanted, profile: Path, log: Path, *, sandbox: bool, netlog: Path | None
) -> Load:
    """Start a browser, load the page, read its timings and end the browser.

    Raises:
        ChromiumError: the browser did not start, or hung. It has been killed.
    """
    start = time.monotonic()
    arguments = flags(wanted.mode, wanted.site, profile, sandbox=sandbox, netlog=netlog)
    prefix = command_prefix()
    if wanted.tls12:
        arguments.insert(0, "--ssl-version-max=tls1.2")
    browser = Chromium(program, arguments, profile, log, prefix=prefix)
    done = Load()
    try:
        tools = DevTools(browser)
        session = attached(tools, log)
        tools.call("Page.enable", session)
        tools.call("Network.enable", session, maxTotalBufferSize=0, maxResourceBufferSize=0)
        tools.call("Network.setCacheDisabled", session, cacheDisabled=True)
        done.wall["start"] = time.monotonic() - start
        done.wall["settle"] = SETTLE_S
        time.sleep(SETTLE_S)
        if wanted.opened:
            start = time.monotonic()
            _open(tools, session, wanted)
            done.wall["open"] = time.monotonic() - start
        start = time.monotonic()
        navigate(tools, session, wanted.url, wanted.timeout_s, done)
        done.wall["load"] = time.monotonic() - start
        start = time.monotonic()
        tools.call("Browser.close")
        done.quit_by_itself = browser.end()
        done.wall["quit"] = time.monotonic() - start
    finally:
        browser.kill()
    return done


def attached(tools: DevTools, log: Path) -> str:
    """Attach to the first page of the browser and return the DevTools session."""
    try:
        targets = tools.call("Target.getTargets", timeout=START_S)["targetInfos"]
    except ChromiumError as error:
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        tail = f"; its output: {lines[-1]}" if lines else ""
        raise ChromiumError(f"{error}{tail}") from None
    page = next((one["targetId"] for one in targets if one["type"] == "page"), None)
    if page is None:
        page = tools.call("Target.createTarget", url="about:blank")["targetId"]
    session: str = tools.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
    return session


def _open(tools: DevTools, session: str, wanted: Wanted) -> None:
    """Open connections from the origin of the page, with a local response instead of the page."""
    until = time.monotonic() + min(wanted.timeout_s, 60.0)
    tools.call(
        "Fetch.enable", session, patterns=[{"urlPattern": f"{wanted.url}*", "requestStage": "Request"}]
    )
    tools.call("Runtime.enable", session)
    # The call returns after the response, which this function sends: do not wait for it.
    tools.call("Runtime.evaluate", session, expression=f"location.href = {json.dumps(wanted.url)}; 0")
    while True:
        event = tools.event(until)
        if event is None:
            raise ChromiumError("the browser did not request the page that opens connections")
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
    """Load ``url`` and fill ``done``.

    Args:
        tools: client of the DevTools protocol.
        session: DevTools session of the page.
        url: URL of the page.
        timeout_s: timeout of the load in s.
        done: result of the load.
        each: called with every event as it arrives.

    Raises:
        ChromiumError: the page crashed, or the browser exited. ``done`` has the earlier events.
    """

    def take(event: Event) -> None:
        if each is not None:
            each(event)
        if event["method"] in HAR_EVENTS:
            done.events.append(event)

    tools.forget()
    done.start_s = time.time()
    until = time.monotonic() + timeout_s
    # The call returns only after the response; events are sufficient.
    tools.start("Page.navigate", session, url=url)
    document = None
    while True:
        event = tools.event(until)
        if event is None:
            done.error = f"not finished within {timeout_s:g} s"
            _read_timings(tools, session, done, document)
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
    _read_timings(tools, session, done, document)
    navigation = done.timings.get("navigation") or {}
    done.finished = bool(navigation.get("loadEventEnd"))
    if not done.finished:
        done.error = f"no loadEventEnd within {LINGER_S:g} s of the load event"
    for event in tools.rest():
        take(event)


def _requests_with_response(events: Sequence[Event]) -> set[str]:
    """Return requests with a response. Before, a document has no timings, and a query for them would block."""
    return {one["params"]["requestId"] for one in events if one["method"] == "Network.responseReceived"}


def _read_timings(tools: DevTools, session: str, done: Load, document: str | None) -> None:
    """Read the timings, and repeat until they have loadEventEnd if the page has finished."""
    if document not in _requests_with_response(done.events):
        return
    until = time.monotonic() + LINGER_S
    while True:
        result = tools.call("Runtime.evaluate", session, expression=TIMINGS, returnByValue=True)["result"]
        done.timings = json.loads(result["value"])
        navigation = done.timings["navigation"] or {}
        if done.error or navigation.get("loadEventEnd") or time.monotonic() > until:
            return
        time.sleep(0.005)
