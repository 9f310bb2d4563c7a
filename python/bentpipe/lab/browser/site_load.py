"""One load of a user-supplied site in Chromium behind an access: requests and screenshots over time."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bentpipe.lab.access import resolve_shared_path
from bentpipe.lab.browser import chromium
from bentpipe.lab.browser.privileges import browser_home, require_sandbox
from bentpipe.lab.browser.site_process import Plan as VisitPlan
from bentpipe.lab.process import folder_name, remove
from bentpipe.lab.shell import InterruptedLab, run_lab
from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.lab.process_plans import LabPlan

__all__ = ["HAR", "InterruptedVisit", "SiteLoad", "address", "visit"]

HAR = "load.har"
RESULT_FILE = "visit.json"
"""File with the result of a load, beside its HAR file."""

FILM = "film"
"""Directory of the screenshots."""


@dataclass(frozen=True)
class SiteLoad:
    """Result of a load. Times are in ms since the start of the navigation."""

    url: str
    access: str
    folder: Path
    error: str
    """Reason of a failed load; empty on success."""
    marks: Mapping[str, float]
    """Times of ``first byte``, ``first contentful paint``, ``DOM content loaded`` and ``loaded``."""
    requests: Sequence[Mapping[str, Any]]
    """Requests in order, as :func:`bentpipe.lab.browser.har_export.row` returns them."""
    start_s: float
    """Start of the navigation in s since 1970."""
    left_s: float
    """End of the observation in s since 1970."""
    film: Sequence[tuple[int, Path]]
    """Screenshots with their times in ms."""
    reasons: Sequence[str]
    """Missed deadlines of the lab; empty if it met them."""
    warning: str
    """Error after the load; empty without one."""

    @property
    def bytes(self) -> int:
        """Bytes of all bodies."""
        return sum(int(one["bytes"]) for one in self.requests)

    @property
    def protocols(self) -> Mapping[str, int]:
        """Number of requests by protocol."""
        found: dict[str, int] = {}
        for one in self.requests:
            if one["protocol"]:
                found[one["protocol"]] = found.get(one["protocol"], 0) + 1
        return found


class InterruptedVisit(InterruptedLab):
    """Interrupt (Ctrl-C) during a load; ``visit`` is the saved partial result."""

    def __init__(self, result: dict[str, Any], visit: SiteLoad) -> None:
        super().__init__(result)
        self.visit = visit


def address(url: str) -> str:
    """Return ``url`` if it is a valid HTTP URL.

    Raises:
        ScenarioError: it is not.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise ScenarioError([("URL", f'found "{url}", expected one such as "https://my.site/"')])
    return url


def visit(
    url: str,
    access: str,
    out: Path,
    *,
    overrides: Sequence[tuple[str, object]] = (),
    pep: str | None = None,
    timeout_s: float = 300.0,
    spki: str | None = None,
    check: bool = False,
    without_sandbox: bool = False,
    seed: int | None = None,
) -> SiteLoad:
    """Load ``url`` behind ``access`` and save its HAR file, screenshots and result in ``out``.

    The partial result of a failed load is saved too.

    Args:
        url: URL with http or https; ``localhost`` is this machine, on the server side of the path.
        access: preset or scenario file.
        out: directory; an existing result is replaced.
        overrides: dotted keys and values of the access, as ``--set`` gives them.
        pep: proxy as for :func:`bentpipe.lab.access.resolve_path`.
        timeout_s: timeout of the load in s.
        spki: key of a certificate that no authority signed.
        check: measure the path first.
        without_sandbox: load the site outside the sandbox of Chromium.
        seed: seed of the random values of the path; None: the first of the access.

    Raises:
        ScenarioError: the access or URL is wrong, or the directory has other files.
        bentpipe.lab.browser.chromium.ChromiumError: Chromium or its sandbox is missing, or the load never started.
        bentpipe.lab.shell.LabError: the lab could not be set up.
        InterruptedVisit: Ctrl-C after the start of the browser.
        bentpipe.lab.shell.InterruptedLab: Ctrl-C before it; nothing is saved, and an existing result stays.
    """
    address(url)
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / RESULT_FILE).exists())):
        raise ScenarioError(
            [("--out", f"{out} exists and is not a result of browse, expected a new directory")]
        )
    path = resolve_shared_path(access, overrides, pep=pep, has_uplink=True)
    path = path if seed is None else path.with_seed(seed)
    program = chromium.find()
    sandbox = require_sandbox(without=without_sandbox)
    folder, home = folder_name("bp-"), browser_home("bp-")
    try:
        for one in (folder, home):
            one.mkdir(mode=0o700)
        plan = VisitPlan(url, str(folder), str(home), str(program), timeout_s, sandbox, spki)
        (folder / "plan.json").write_text(json.dumps(asdict(plan)), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "bentpipe.lab.browser.site_process",
            str(folder / "plan.json"),
            "{server}",
        ]
        lab: LabPlan = {
            "lab": path.lab,
            "proxies": list(path.proxies),
            "commands": [{"name": "browser", "command": command, "output": str(folder / "out"),
                      "errors": str(folder / "errors")}],
            "has_uplink": True,
            "forwards_localhost": True,
            "check": check,
        }  # fmt: skip
        interrupted = False
        try:
            result = run_lab(lab)
        except InterruptedLab as end:
            if not (folder / RESULT_FILE).exists():
                raise
            result, interrupted = end.result, True
        if not (folder / RESULT_FILE).exists():
            lines = (folder / "errors").read_text(errors="replace").strip().splitlines()
            raise chromium.ChromiumError(f"{url} was not loaded{': ' + lines[-1] if lines else ''}")
        found = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8")) | {
            "access": access,
            "seed": path.lab["seed"],
            "reasons": result.get("reasons", []),
        }
        _save(folder, out, found)
        load = _read(out, found)
        if interrupted:
            raise InterruptedVisit(result, load)
        return load
    finally:
        for one in (folder, home):
            remove(one)


def _save(folder: Path, out: Path, found: Mapping[str, Any]) -> None:
    """Copy the files of a load into ``out``, the result file last."""
    (out / RESULT_FILE).unlink(missing_ok=True)
    shutil.rmtree(out / FILM, ignore_errors=True)
    (out / FILM).mkdir(parents=True)
    for ms in found["film_ms"]:
        shutil.copyfile(folder / f"film-{ms:06d}.jpg", out / FILM / f"{ms:06d}.jpg")
    write_atomic(out / HAR, (folder / HAR).read_bytes())
    write_atomic(out / RESULT_FILE, json.dumps(found, indent=1).encode())


def _read(out: Path, found: Mapping[str, Any]) -> SiteLoad:
    timings = found["timings"]
    navigation = timings.get("navigation") or {}
    marks = {
        "first byte": navigation.get("responseStart"),
        "first contentful paint": next(
            (
                one["startTime"]
                for one in timings.get("paints", ())
                if one["name"] == "first-contentful-paint"
            ),
            None,
        ),
        "DOM content loaded": navigation.get("domContentLoadedEventEnd"),
        "loaded": navigation.get("loadEventEnd"),
    }
    return SiteLoad(
        url=found["url"],
        access=found["access"],
        folder=out,
        error=chromium.meaning(found["error"]),
        marks={name: float(ms) for name, ms in marks.items() if ms},
        requests=found["requests"],
        start_s=float(timings.get("time_origin_ms") or found["start_s"] * 1e3) / 1e3,
        left_s=found["left_s"],
        film=[(ms, out / FILM / f"{ms:06d}.jpg") for ms in dict.fromkeys(found["film_ms"])],
        reasons=found["reasons"],
        warning=found["warning"],
    )
