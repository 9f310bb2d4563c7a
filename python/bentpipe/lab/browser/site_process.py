"""Process of one load of a site on the client side: ``python -m bentpipe.lab.browser.site_process PLAN FAR``.

PLAN is the JSON of a :class:`Plan`. FAR is the address of this machine on the server side. The output files are in the
directory of the plan: ``load.har``, ``film-N.jpg`` (N ms after the start) and ``visit.json`` (result).
"""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bentpipe.interrupts import defer_import
from bentpipe.lab.browser import chromium, har_export
from bentpipe.lab.browser.chromium import ALWAYS, Chromium, ChromiumError
from bentpipe.lab.browser.devtools import DevTools
from bentpipe.lab.browser.load import SETTLE_S, Load, attached, navigate
from bentpipe.lab.browser.privileges import command_prefix, give, prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from bentpipe.lab.browser.devtools import Event

__all__ = ["INTERRUPTED", "OWN", "Plan", "main"]

INTERRUPTED = "it was interrupted"
"""Error of a load that Ctrl-C ended."""

OWN = ("localhost", "127.0.0.1", "::1")
"""Host names of this machine, on the server side of the path; names of its loopback in hosts(5) count too."""

HOSTS = Path("/etc/hosts")

DRAIN_S = 0.3
"""Time in s to read sent events after Ctrl-C."""

LINGER_S = 1.0
"""Time in s after the load event for the last paints and requests."""

FILM: dict[str, Any] = {
    "format": "jpeg",
    "quality": 70,
    "maxWidth": 480,
    "maxHeight": 360,
    "everyNthFrame": 1,
}
"""Parameters of Page.startScreencast of DevTools."""

MOST_PICTURES = 600

WINDOW = "1280,800"
"""Size of the window in CSS pixels, as on a laptop."""


@dataclass
class Plan:
    """Plan of a load."""

    url: str
    directory: str
    home: str
    """Directory for the browser, which the parent process creates and removes."""
    chromium: str
    timeout_s: float
    sandbox: bool
    """True if the sandbox of Chromium is on."""
    spki: str | None = None
    """Key of a certificate that no authority signed, as base64 of its SHA-256."""


def main(words: list[str]) -> int:
    """Load the site of the plan and write the result."""
    signal.signal(signal.SIGINT, _handle_interrupt)
    plan = Plan(**json.loads(Path(words[0]).read_text(encoding="utf-8")))
    folder, far, program = Path(plan.directory), words[1], Path(plan.chromium)
    done, version, warning = Load(), "", ""
    film: list[tuple[float, bytes]] = []
    try:
        version = chromium.version(program)
        _load(plan, program, far, done, film)
    except (ChromiumError, KeyboardInterrupt) as end:
        why = INTERRUPTED if isinstance(end, KeyboardInterrupt) else str(end)
        if done.finished:
            warning = f"no data for the second after the load event: {why}"
        else:
            done.error = done.error or why
    left_s = time.time()
    if not (done.timings.get("navigation") or {}).get("name", "").startswith("http"):
        done.timings = {}  # timings of the initial empty page
    found = har_export.requests(done.events)
    offset = har_export.clock_offset(found, done.timings)
    content = har_export.archive(1, done.events, done.timings, version)
    (folder / "load.har").write_text(json.dumps(content), encoding="utf-8")
    times = []
    for at, picture in film:
        ms = max(0, round((at - done.start_s) * 1e3))
        (folder / f"film-{ms:06d}.jpg").write_bytes(picture)
        times.append(ms)
    record = {
        "url": plan.url, "chromium": version, "finished": done.finished, "error": done.error, "warning": warning,
        "start_s": done.start_s, "left_s": left_s, "timings": done.timings,
        "requests": [har_export.row(one, offset) for one in found], "film_ms": times,
    }  # fmt: skip
    (folder / "visit.json").write_text(json.dumps(record), encoding="utf-8")
    return 0


def _handle_interrupt(number: int, frame: FrameType | None) -> None:
    """End the load at the first signal. Terminal and lab both send one, and the result is not yet written."""
    if defer_import(number, frame):
        return
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _load(plan: Plan, program: Path, far: str, done: Load, film: list[tuple[float, bytes]]) -> None:
    prefix = command_prefix()
    chromium.stay(str(prepare(Path(plan.home))))
    profile = chromium.new_profile(Path(plan.home))
    give(profile)
    log = Path(plan.directory) / "chromium.log"
    browser = Chromium(program, _flags(plan, far, profile), profile, log, prefix=prefix)
    try:
        tools = DevTools(browser)
        session = attached(tools, log)
        for domain in ("Page", "Network"):
            tools.call(f"{domain}.enable", session)
        tools.call("Network.setCacheDisabled", session, cacheDisabled=True)

        def each(event: Event) -> None:
            if event["method"] == "Page.screencastFrame":
                about = event["params"]
                tools.start("Page.screencastFrameAck", session, sessionId=about["sessionId"])
                if len(film) < MOST_PICTURES:
                    film.append((about["metadata"]["timestamp"], base64.b64decode(about["data"])))

        def on_event(event: Event) -> None:
            each(event)
            if event["method"].startswith("Network."):
                done.events.append(event)

        time.sleep(SETTLE_S)
        tools.call("Page.startScreencast", session, **FILM)
        try:
            navigate(tools, session, plan.url, plan.timeout_s, done, each)
            _read_events(tools, time.monotonic() + LINGER_S, on_event)
        except KeyboardInterrupt:
            # The signal may have interrupted the reading of a message.
            with contextlib.suppress(ChromiumError, ValueError):
                _read_events(tools, time.monotonic() + DRAIN_S, on_event)
            raise
        tools.call("Browser.close")
        browser.end()
    finally:
        browser.kill()


def _read_events(tools: DevTools, until: float, each: Callable[[Event], None]) -> None:
    while (event := tools.event(until)) is not None:
        each(event)


def _is_local(host: str) -> bool:
    if host in OWN or host.endswith(".localhost"):
        return True
    try:
        lines = HOSTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    entries = [line.partition("#")[0].lower().split() for line in lines]
    found = [words[0] for words in entries if host in words[1:]]
    return bool(found) and all(one == "::1" or one.startswith("127.") for one in found)


def _flags(plan: Plan, far: str, profile: Path) -> list[str]:
    host = urlsplit(plan.url).hostname or ""
    found: list[Any] = [*ALWAYS, f"--user-data-dir={profile}", f"--window-size={WINDOW}"]
    if not plan.sandbox:
        found.append("--no-sandbox")
    if _is_local(host):
        found.append(f"--host-resolver-rules=MAP {host} {far}")
    if plan.spki is not None:
        found.append(f"--ignore-certificate-errors-spki-list={plan.spki}")
    return [*found, "about:blank"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
