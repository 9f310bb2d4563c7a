"""``browse URL``: a web site of the user in a real Chromium over an access."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from bentpipe.cli.common import FAILED, INTERRUPTED, refuse
from bentpipe.cli.open_page import open_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.lab.browser.site_load import SiteLoad
    from bentpipe.metrics.intervals import ConfidenceInterval

__all__ = ["check_subject", "is_site", "split_accesses", "visit", "visit_several"]


def is_site(word: str) -> bool:
    """Return whether ``word`` is a URL and not the name of a file."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", word) is not None


def check_subject(word: str) -> None:
    """Refuse an HTML file and a URL without its scheme, with the URL to give."""
    path = Path(word)
    if path.suffix.lower() in (".html", ".htm") and path.is_file():
        folder = "" if path.parent == Path() else f" --directory {shlex.quote(str(path.parent))}"
        refuse(
            f"FILE|URL: {word} is an HTML file, expected a URL; serve it by `python3 -m http.server 8000{folder}`, "
            f"then load http://localhost:8000/{path.name}"
        )
    if (
        re.fullmatch(r"(localhost(:\d+)?|[\w-]+(\.[\w-]+)*:\d+|\d+(\.\d+){3})(/.*)?", word)
        and not path.exists()
    ):
        path_of_url = "" if "/" in word else "/"
        refuse(f'FILE|URL: no file "{word}"; did you mean http://{word}{path_of_url}?')


def split_accesses(words: Sequence[str] | None) -> list[str]:
    """Return the accesses of repeated options and of lists ``A,B``; a file may have a comma in its name."""
    found = []
    for word in words or ():
        found += [word] if Path(word).exists() else [part.strip() for part in word.split(",")]
    if "" in found:
        refuse("--access: found an empty name, expected a preset or a scenario (TOML), such as geo-konnect")
    if duplicate := next((word for word in found if found.count(word) > 1), None):
        refuse(f'--access: duplicate access "{duplicate}"')
    return found


def visit_several(
    url: str,
    accesses: Sequence[str],
    loads: int,
    *,
    settings: Sequence[str],
    out: Path | None,
    pep: str | None,
    timeout_s: float | None,
    spki: str | None,
    without_sandbox: bool,
    as_json: bool,
    show_page: bool,
) -> None:
    """Load the site several times over each access, in rounds, and write one page side by side.

    Load k has seed k, so that the loads differ in the random values of a path.
    The exit status is 1 if a load fails. Each load has a folder with its HAR file and its screenshots.
    """
    from bentpipe.cli.console import emit, patience, print_table
    from bentpipe.lab.access import resolve_shared_path
    from bentpipe.lab.browser import site_load
    from bentpipe.lab.browser.chromium import ChromiumError
    from bentpipe.lab.shell import InterruptedLab, LabError
    from bentpipe.report import timing_page
    from bentpipe.runners import engine
    from bentpipe.scenario.sweep import parse_override

    site_load.address(url)
    directory = out or Path("out") / f"{_host_name(url)}-{'-'.join(Path(one).stem for one in accesses)}"
    overrides = [parse_override(text) for text in settings]
    if any(key == "seeds" for key, _ in overrides):
        refuse("--set seeds: load k has seed k, expected --loads with the number of loads")
    stochastic = [
        access
        for access in accesses
        if resolve_shared_path(access, overrides, pep=pep, has_uplink=True).is_stochastic
    ]
    results: dict[str, list[SiteLoad]] = {access: [] for access in accesses}
    tell = patience("loading", "loads")
    try:
        for number in range(loads):
            first = number % len(accesses)
            for access in (*accesses[first:], *accesses[:first]):
                folder = directory / Path(access).stem / str(number + 1)
                result = site_load.visit(
                    url, access, folder, overrides=overrides, pep=pep, timeout_s=timeout_s or 300.0, spki=spki,
                    without_sandbox=without_sandbox, seed=number + 1,
                )  # fmt: skip
                if result.error:
                    print(f"error: {url} over {access} did not load: {result.error}", file=sys.stderr)
                    raise typer.Exit(FAILED)
                results[access].append(result)
                tell(sum(map(len, results.values())), loads * len(accesses))
    except (ChromiumError, LabError) as error:
        refuse(str(error))
    except (site_load.InterruptedVisit, InterruptedLab):
        print(f"\ninterrupted: {directory} has the finished loads", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    rows = _rows(results)
    notes = [
        f"{access}: the lab missed its deadlines in {late} of {loads} loads"
        for access, of in results.items()
        if (late := sum(bool(one.reasons) for one in of))
    ]
    if stochastic and loads > 1:
        notes.append(f"load k has seed k; each load has other random values of {', '.join(stochastic)}")
    seconds = {access: [one.marks["loaded"] / 1e3 for one in of] for access, of in results.items()}
    report = timing_page.TimingReport(
        url, seconds, rows, notes, "" if pep is None else f"A proxy ({pep}) splits TCP after the longest segment.",
        title=urlsplit(url).netloc, figure_title="Page load time",
    )  # fmt: skip
    page = timing_page.write(report, directory / "page.html", engine.version())
    if show_page:
        open_page(page)
    if as_json:
        loads_ms = {access: [dict(one.marks) for one in of] for access, of in results.items()}
        emit(
            {
                "url": url,
                "seeds": [*range(1, loads + 1)],
                "loads": loads_ms,
                "rows": rows,
                "notes": notes,
                "page": str(page),
            }
        )
        return
    print(timing_page.headline_text(report))
    print_table(rows, "Means over loads, s, with 95 % confidence intervals")
    for note in notes:
        print(f"note: {note}")
    print(f"page: {page}")


def _rows(results: Mapping[str, Sequence[SiteLoad]]) -> list[dict[str, str]]:
    """Return a row for each access: mean instants in s, and the ratio of load times to the fastest access."""
    from bentpipe.metrics.format import format_interval
    from bentpipe.metrics.samples.median_ratio import mean_ratio

    loaded = {access: [one.marks["loaded"] for one in of] for access, of in results.items()}
    fastest = min(loaded, key=lambda access: sum(loaded[access]))
    marks = [name for name in next(iter(results.values()))[0].marks if all(
        name in one.marks for of in results.values() for one in of
    )]  # fmt: skip
    return [
        {"access": access, "loads": str(len(of))}
        | {f"{name}, s": format_interval(_time([one.marks[name] for one in of]), 1e-3, 3) for name in marks}
        | {
            "times the fastest": "1"
            if access == fastest
            else format_interval(mean_ratio(loaded[access], loaded[fastest], paired=True), digits=3)
        }
        for access, of in results.items()
    ]


def _time(values: Sequence[float]) -> ConfidenceInterval:
    """Return the mean of times; its interval ends at 0."""
    from bentpipe.metrics.intervals import mean_ci

    mean = mean_ci(values)
    return mean if mean.low is None else replace(mean, low=max(0.0, mean.low))


def _host_name(url: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(url).netloc)


def visit(
    url: str,
    access: str | None,
    *,
    settings: Sequence[str],
    out: Path | None,
    pep: str | None,
    timeout_s: float | None,
    spki: str | None,
    without_sandbox: bool,
    as_json: bool,
    show_page: bool,
) -> None:
    """Load the site, print the result and write its page; exit with status 1 if the site did not load."""
    from bentpipe.lab.browser import site_load
    from bentpipe.lab.browser.chromium import ChromiumError
    from bentpipe.lab.shell import InterruptedLab, LabError
    from bentpipe.scenario.sweep import parse_override

    site_load.address(url)
    if access is None:
        refuse(
            "--access: missing, required with a URL; expected a preset or a scenario (TOML), such as geo-konnect"
        )
    directory = out or Path("out") / f"{_host_name(url)}-{Path(access).stem}"
    interrupted = False
    try:
        result = site_load.visit(
            url, access, directory, overrides=[parse_override(text) for text in settings], pep=pep,
            timeout_s=timeout_s or 300.0, spki=spki, without_sandbox=without_sandbox,
        )  # fmt: skip
    except (ChromiumError, LabError) as error:
        refuse(str(error))
    except site_load.InterruptedVisit as error_of_visit:
        result, interrupted = error_of_visit.visit, True
    except InterruptedLab:
        print("\ninterrupted before the first request; nothing was saved", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    _report(result, as_json=as_json, show_page=show_page)
    if interrupted:
        print(
            f"\ninterrupted: the partial result is in {directory}; rerun the command to start again",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)
    if result.error:
        raise typer.Exit(FAILED)


def _report(result: SiteLoad, *, as_json: bool, show_page: bool) -> None:
    """Write the page and print the result; with ``show_page``, open the page."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.lab.browser.site_load import HAR
    from bentpipe.report import site_page as pages
    from bentpipe.runners import engine

    notes = [f"the lab missed its deadlines: {reason}" for reason in result.reasons]
    notes += [result.warning] if result.warning else []
    site = pages.SiteReport(
        result.url, result.access, result.error, result.marks, result.requests, result.start_s, result.left_s,
        result.film,
        notes,
    )  # fmt: skip
    page = pages.write(site, result.folder / "page.html", engine.version())
    if show_page:
        open_page(page)
    if as_json:
        emit({
            "url": result.url, "access": result.access,
            "error": result.error or None, "warning": result.warning or None,
            "marks_ms": dict(result.marks), "requests": pages.rows(site), "har": str(result.folder / HAR),
            "page": str(page), "valid": not result.reasons, "reasons": list(result.reasons),
        })  # fmt: skip
        return
    print(pages.headline_text(site))
    print(pages.supporting_text(site))
    print_table(pages.rows(site))
    for note in notes:
        print(f"note: {note}")
    print(f"page: {page}; requests: {result.folder / HAR}")
