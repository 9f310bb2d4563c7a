"""``browse`` and ``serve``: page loads in a real browser, and the server of their pages."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli.browse_site import is_site, visit
from bentpipe.cli.common import FAILED, AsJson, HarPage, Settings, count, interruptible, not_made, refuse

if TYPE_CHECKING:
    from bentpipe.lab.browser.runner import BrowserRunner, RemoteServer, Schedule
    from bentpipe.runners.execute import ExecutionSummary

__all__ = ["browse", "serve"]


OF_A_SITE = {"file", "settings", "out", "timeout", "spki", "access", "pep", "without_sandbox", "as_json"}
"""What ``browse`` takes beside a URL."""


def browse(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL",
            help="a scenario (TOML) with a page; with --access, a HAR file, a page's name or a site of one's own",
        ),
    ],
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="the store; default: out/FILE's name-browser")
    ] = None,
    units: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="units of each kind")] = 10,
    http: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="of 3, 2, 1.1, alt-svc [default: what FILE sweeps, or 3,2]"),
    ] = None,
    loads: Annotated[
        int | None, typer.Option(min=1, max=100, metavar="N", help="of a unit [default: FILE's, 3]")
    ] = None,
    pause: Annotated[
        str | None,
        typer.Option(metavar="TIME[-TIME]", help="between loads, uniform [default: FILE's, or 5 s-15 s]"),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="of a load [default: FILE's, 300 s]")
    ] = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="from one unit's start to the next one's")] = "0",
    hours: Annotated[
        str | None, typer.Option(metavar="HH-HH", help="units start in these hours of the day")
    ] = None,
    quota: Annotated[
        str | None, typer.Option(metavar="SIZE", help="no more units beyond so many bytes")
    ] = None,
    labs: Annotated[int, typer.Option(min=1, max=3, metavar="N", help="units at a time")] = 1,
    netlog: Annotated[bool, typer.Option("--netlog", help="keep the browser's own log of each load")] = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="do not measure the path before each unit")
    ] = False,
    keep_late: Annotated[
        bool, typer.Option("--keep-late", help="keep units that the machine was too late for, marked")
    ] = False,
    note: Annotated[
        list[str] | None, typer.Option("--note", metavar="KEY=VALUE", help="kept with every unit; repeatable")
    ] = None,
    metar: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a weather report (METAR), kept with every unit")
    ] = None,
    field: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]", help="no emulator: a real server, running bentpipe serve"),
    ] = None,
    spki: Annotated[
        str | None,
        typer.Option(
            metavar="BASE64", help="with --field or a URL: the key of its certificate, as serve prints it"
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="only this unit; repeatable")
    ] = None,
    access: Annotated[
        str | None,
        typer.Option(metavar="ACCESS", help="of a page or a URL: a preset, or a scenario (TOML)"),
    ] = None,
    pep: Annotated[
        str | None,
        typer.Option(
            metavar="SETUP", help="with --access: split TCP behind the longest segment: early, relayed"
        ),
    ] = None,
    har_page: HarPage = None,
    without_sandbox: Annotated[
        bool,
        typer.Option(
            "--without-sandbox", help="load it outside Chromium's sandbox, where that does not work"
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Load a page, or your own site, in a real Chromium. The same command resumes."""
    if spki is not None and not re.fullmatch(r"[A-Za-z0-9+/]{43}=", spki):
        refuse(f'--spki: found "{spki}", expected the 44 characters that bentpipe serve prints')
    if is_site(file):
        for one in context.command.params:
            source = context.get_parameter_source(str(one.name))
            # Typer's own copy of Click is private: the source is known by its name.
            if source is not None and source.name != "DEFAULT" and one.name not in OF_A_SITE:
                refuse(f"{one.opts[0]}: found it beside a URL, which is loaded once, as it is")
        visit(
            file, access, settings=settings or (), out=out, pep=pep, timeout_s=_timeout(timeout), spki=spki,
            without_sandbox=without_sandbox, as_json=as_json,
        )  # fmt: skip
        return
    if access is not None and field is not None:
        refuse("--access: found beside --field, whose access is the real one; expected one of them")
    if pep is not None and access is None:
        refuse("--pep: found without --access; a scenario has its own proxies ([[path.proxy]])")
    from bentpipe.cli.console import watch
    from bentpipe.lab.browser import chromium
    from bentpipe.lab.browser.privileges import require_sandbox
    from bentpipe.lab.browser.runner import BrowserRunner, RemoteServer
    from bentpipe.lab.browser.sessions import Options, engine_name, plan_sessions
    from bentpipe.lab.executable import executable
    from bentpipe.plan.analysis.lint import page_remarks
    from bentpipe.runners import engine
    from bentpipe.runners.execute import BROWSER, execute

    far = _far(field, spki)
    notes = _notes(note, metar)
    options = Options(
        units=units,
        http=tuple(word.strip() for word in http.split(",")) if http is not None else (),
        loads=loads,
        pause_s=_pause(pause),
        timeout_s=_timeout(timeout),
        netlog=netlog,
        field_host=far.host if isinstance(far, RemoteServer) else None,
        access=access,
        pep=pep,
        har_page=har_page,
        settings=tuple(settings or ()),
        real=(str(far.port), far.spki or "") if far is not None else None,
    )
    due = _due(every, hours, quota)
    try:
        program = chromium.find()
        # A page in a lab is made here: nothing foreign is in it.
        sandbox = require_sandbox(without=without_sandbox, foreign=far is not None)
        name = engine_name(engine.version(), chromium.version(program))
    except chromium.ChromiumError as error:
        refuse(str(error))
    plan = plan_sessions(file, options, name, engine.catalogue())
    for remark in page_remarks(plan):
        print(f"note: {remark.text}", file=sys.stderr)
    ids = [one.id for one in plan.runs]
    for wrong in [one for one in only or [] if one not in ids]:
        refuse(f"--only: no unit {wrong} in this plan of {count(ids, 'unit')}")
    target = (
        out or Path("out") / f"{Path(file).stem}-{Path(access).stem if access is not None else 'browser'}"
    )
    seen = watch(quiet=as_json)
    runner = BrowserRunner(
        target, name, program, executable() if far is None else None, far, labs, not no_check, keep_late, due, notes,
        seen.on_message, sandbox,
    )  # fmt: skip
    words = "bentpipe " + " ".join(word for word in sys.argv[1:] if not word.startswith("--only"))
    with interruptible():
        report = execute(
            plan, runner, target, only=only or (), watch=seen, where=BROWSER, command=words, what="units"
        )
    _tell(report, runner, as_json)
    if report.failed:
        raise typer.Exit(FAILED)


def _tell(report: ExecutionSummary, runner: BrowserRunner, as_json: bool) -> None:
    from bentpipe.cli.console import emit, print_table
    from bentpipe.lab.browser import split_tcp
    from bentpipe.lab.browser.validity import units
    from bentpipe.lab.browser.validity import validity_notes as doubts_of
    from bentpipe.report import browse_summary

    done = report.done + report.kept
    rows = browse_summary.rows(report.store) if done else []
    doubts = doubts_of(report.store) if done else []
    verdict = (
        split_tcp.detect_split_tcp(list(units(report.store))) if done and runner.far is not None else None
    )
    if as_json:
        emit({
            "store": str(report.store), "planned": report.planned, "done": report.done, "kept": report.kept,
            "failed": [{"unit": f.run, "error": f.error} for f in report.failed if not f.late],
            "late": [{"unit": f.run, "error": f.error} for f in report.failed if f.late],
            "stopped": runner.stopped or None,
            "loads": rows, "doubts": doubts, "split": verdict.as_json() if verdict is not None else None,
        })  # fmt: skip
        return
    if rows:
        print_table(rows, "Medians over units, s, with their 95 % intervals")
    if verdict is not None:
        print_table([fact.row() for fact in verdict.facts], "Is TCP split on the way?")
        print(verdict.text)
    for text in doubts:
        print(f"note: {text}")
    kept = f" ({report.kept} were there already)" if report.kept else ""
    print(
        f"{done} of {report.planned} units in {report.store}{kept}, {report.seconds:.1f} s{not_made(report)}"
    )
    if done:
        print(f"the report: bentpipe report {report.store}")
    if runner.stopped:
        print(f"{runner.stopped}; the same command with a larger --quota goes on", file=sys.stderr)
    for word, error in dict.fromkeys((failure.word, failure.error) for failure in report.failed):
        alike = [failure.run for failure in report.failed if failure.error == error]
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        print(f"{word}: {alike[0]}{more}: {error}", file=sys.stderr)
    if report.failed:
        print("the same command makes them again", file=sys.stderr)


def _far(field: str | None, spki: str | None) -> RemoteServer | None:
    import ipaddress
    import socket

    from bentpipe.lab.browser.runner import RemoteServer
    from bentpipe.lab.browser.session_lab import PORT

    if field is None:
        if spki is not None:
            refuse("--spki: found it without --field, expected it beside a server's name")
        return None
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]/]+))(?::(\d{1,5}))?", field)
    port = int(found.group(3) or PORT) if found else 0
    if found is None or not 0 < port < 65536:
        refuse(f'--field: found "{field}", expected HOST or HOST:PORT; an IPv6 address in brackets')
    host = found.group(1) or found.group(2)
    try:
        address = str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        refuse(f"--field: {host}: {error.strerror}")
    named = None
    if spki is None:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            named = host
        else:
            refuse("--field: found an address without --spki, expected the key of its certificate, or a name")
    return RemoteServer(host, address, port, spki, named)


def _notes(notes: list[str] | None, metar: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in notes or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            refuse(f'--note: found "{text}", expected KEY=VALUE such as "rain=none"')
        found[key.strip()] = value.strip()
    if metar is not None:
        from bentpipe.scenario.input_file import MOST_DOCUMENT_BYTES, read_input_text

        try:
            found["metar"] = read_input_text(metar, MOST_DOCUMENT_BYTES, pipes=True, encoding="utf-8").strip()
        except UnicodeDecodeError as error:
            from bentpipe.scenario.errors import encoding_error

            refuse(f"--metar: {metar} {encoding_error(error)}")
        except OSError as error:
            refuse(f"--metar: {metar}: {error.strerror}")
    return found


def _seconds(option: str, text: str) -> float:
    from bentpipe.scenario.quantities import Duration

    try:
        return Duration.parse(text).ns / 1e9
    except ValueError as error:
        refuse(f"{option}: {error}")


def _timeout(text: str | None) -> float | None:
    if text is None:
        return None
    found = _seconds("--timeout", text)
    if found <= 0:
        refuse(f'--timeout: found "{text}", expected a time above 0')
    return found


def _pause(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, _, high = text.partition("-")
    least = _seconds("--pause", low.strip())
    most = _seconds("--pause", high.strip()) if high.strip() else least
    if least > most:
        refuse(f'--pause: found "{text}", expected the shorter one first')
    return least, most


def _due(every: str, hours: str | None, quota: str | None) -> Schedule:
    from bentpipe.lab.browser.runner import Schedule
    from bentpipe.scenario.quantities import Size

    span = None
    if hours is not None:
        found = re.fullmatch(r"(\d{1,2})(?::(\d\d))?-(\d{1,2})(?::(\d\d))?", hours.strip())
        ends = [int(found[n]) + int(found[n + 1] or 0) / 60 for n in (1, 3)] if found else []
        if not ends or max(ends) > 24 or ends[0] == ends[1]:
            refuse(f'--hours: found "{hours}", expected two hours of the day such as "08-18" or "22:30-06"')
        span = (ends[0], ends[1])
    size = None
    if quota is not None:
        try:
            size = int(Size.parse(quota).bytes)
        except ValueError as error:
            refuse(f"--quota: {error}")
    return Schedule(_seconds("--every", every), span, size)


def serve(
    page: Annotated[
        str,
        typer.Argument(
            metavar="PAGE", help="a page's name, a scenario (TOML), a HAR file, or a folder of files"
        ),
    ],
    listen: Annotated[
        str, typer.Option(metavar="ADDR:PORT", help="where to listen, TCP and UDP")
    ] = "[::]:4433",
    name: Annotated[
        str | None, typer.Option(metavar="HOST", help="the server's own name, where its certificate has one")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM chain [default: a self-signed one for this run]")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="PEM key of the certificate")] = None,
    congestion: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="controller of QUIC [default: the scenario's, or cubic]"),
    ] = None,
    access_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a JSON line for each request")
    ] = None,
    settings: Settings = None,
    har_page: HarPage = None,
) -> None:
    """Serve a page over HTTP/3 and HTTP/2, for browse --field."""
    from bentpipe.lab.browser.page_server import Serving, run

    serving = Serving(
        page, listen, name, certificate, key, congestion, access_log, tuple(settings or ()), har_page
    )
    raise typer.Exit(run(serving, partial(print, flush=True)))
