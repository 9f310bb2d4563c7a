"""A site of one's own, loaded once in Chromium behind an access: what was fetched when, what was seen when."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bentpipe.lab.access import outside_pep, resolve_path
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
KEPT = "visit.json"
"""The files of a visit: its requests as a HAR file, and how it went."""

FILM = "film"
"""The folder of its pictures."""


@dataclass(frozen=True)
class SiteLoad:
    """What became of a load. Times are ms since the page was asked for."""

    url: str
    access: str
    folder: Path
    error: str
    """Why the site did not load; empty where it did."""
    marks: Mapping[str, float]
    """``first byte``, ``first content`` (First Contentful Paint), ``content loaded``, ``loaded``: those that came."""
    requests: Sequence[Mapping[str, Any]]
    """In the order in which they were made, as :func:`bentpipe.lab.browser.har_export.row` has them."""
    start_s: float
    """When the page was asked for, since 1970: what the times of ``requests`` count from."""
    left_s: float
    """When the browser was left, since 1970."""
    film: Sequence[tuple[int, Path]]
    """Pictures, each with its time."""
    reasons: Sequence[str]
    """Why the machine did not keep the path's time; nothing where it did."""
    remark: str
    """What went wrong after the load; empty where nothing did."""

    @property
    def bytes(self) -> int:
        """Of all bodies."""
        return sum(int(one["bytes"]) for one in self.requests)

    @property
    def protocols(self) -> Mapping[str, int]:
        """Requests by what they came by."""
        found: dict[str, int] = {}
        for one in self.requests:
            if one["protocol"]:
                found[one["protocol"]] = found.get(one["protocol"], 0) + 1
        return found


class InterruptedVisit(InterruptedLab):
    """Ctrl-C during a load, of which ``visit`` is what came until then; it is kept."""

    def __init__(self, result: dict[str, Any], visit: SiteLoad) -> None:
        super().__init__(result)
        self.visit = visit


def address(url: str) -> str:
    """``url`` if a browser can load it. Raises ScenarioError."""
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
) -> SiteLoad:
    """Loads ``url`` behind ``access`` and keeps in ``out`` its HAR file, its pictures, and how it went.

    A load that fails is kept as far as it came.

    Args:
        url: of http or https; ``localhost`` is this machine, at the path's far end.
        access: a preset, or a scenario file.
        out: folder; a visit that is there is replaced.
        overrides: dotted keys and values of the access, as ``--set`` gives them.
        pep: as for :func:`bentpipe.lab.access.resolve_path`.
        timeout_s: of the load.
        spki: key of a certificate that nobody vouches for.
        check: measure the path first.
        without_sandbox: load the site outside Chromium's sandbox.

    Raises:
        ScenarioError: no such access; no URL; a folder with something else.
        bentpipe.lab.browser.chromium.ChromiumError: no Chromium, no sandbox for it, or the load never began.
        bentpipe.lab.shell.LabError: there could be no lab.
        InterruptedVisit: Ctrl-C, once the browser ran.
        bentpipe.lab.shell.InterruptedLab: Ctrl-C before; nothing is kept, and a visit that is there stays.
    """
    address(url)
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / KEPT).exists())):
        raise ScenarioError([("--out", f"{out} is there and no visit, expected a new folder")])
    path, proxies = resolve_path(access, overrides, pep=outside_pep(pep))
    program = chromium.find()
    sandbox = require_sandbox(without=without_sandbox)
    folder, home = folder_name("bp-"), browser_home("bp-")
    try:
        for one in (folder, home):
            one.mkdir(mode=0o700)
        plan = VisitPlan(url, str(folder), str(home), str(program), timeout_s, sandbox, spki)
        (folder / "plan.json").write_text(json.dumps(asdict(plan)), encoding="utf-8")
        words = [
            sys.executable,
            "-m",
            "bentpipe.lab.browser.site_process",
            str(folder / "plan.json"),
            "{far}",
        ]
        lab: LabPlan = {
            "lab": path,
            "proxies": proxies,
            "near": [{"name": "browser", "command": words, "output": str(folder / "out"),
                      "errors": str(folder / "errors")}],
            "outside": True,
            "check": check,
        }  # fmt: skip
        interrupted = False
        try:
            result = run_lab(lab)
        except InterruptedLab as end:
            if not (folder / KEPT).exists():
                raise
            result, interrupted = end.result, True
        if not (folder / KEPT).exists():
            said = (folder / "errors").read_text(errors="replace").strip().splitlines()
            raise chromium.ChromiumError(f"{url} was not loaded{': ' + said[-1] if said else ''}")
        found = json.loads((folder / KEPT).read_text(encoding="utf-8")) | {
            "access": access,
            "reasons": result.get("reasons", []),
        }
        _keep(folder, out, found)
        seen = _read(out, found)
        if interrupted:
            raise InterruptedVisit(result, seen)
        return seen
    finally:
        for one in (folder, home):
            remove(one)


def _keep(folder: Path, out: Path, found: Mapping[str, Any]) -> None:
    """Puts what a load has made into ``out``; what says so last."""
    (out / KEPT).unlink(missing_ok=True)
    shutil.rmtree(out / FILM, ignore_errors=True)
    (out / FILM).mkdir(parents=True)
    for ms in found["film_ms"]:
        shutil.copyfile(folder / f"film-{ms:06d}.jpg", out / FILM / f"{ms:06d}.jpg")
    write_atomic(out / HAR, (folder / HAR).read_bytes())
    write_atomic(out / KEPT, json.dumps(found, indent=1).encode())


def _read(out: Path, found: Mapping[str, Any]) -> SiteLoad:
    timings = found["timings"]
    navigation = timings.get("navigation") or {}
    marks = {
        "first byte": navigation.get("responseStart"),
        "first content": next(
            (
                one["startTime"]
                for one in timings.get("paints", ())
                if one["name"] == "first-contentful-paint"
            ),
            None,
        ),
        "content loaded": navigation.get("domContentLoadedEventEnd"),
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
        remark=found["remark"],
    )
