"""Commands ``browse`` and ``serve``: page loads in a real browser, and the server of their pages."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli.browse_site import check_subject, is_site, split_accesses, visit, visit_several
from bentpipe.cli.common import FAILED, AsJson, HarPage, Settings, count, interruptible, not_made, refuse
from bentpipe.cli.open_page import Open

if TYPE_CHECKING:
    from bentpipe.lab.browser.runner import BrowserRunner, RemoteServer, Schedule
    from bentpipe.runners.execute import ExecutionSummary

__all__ = ["browse", "serve"]


SITE_PARAMETERS = {
    "file",
    "show_page",
    "settings",
    "out",
    "timeout",
    "spki",
    "accesses",
    "loads",
    "pep",
    "without_sandbox",
    "as_json",
}
"""Parameters of ``browse`` that a URL accepts."""


def browse(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL",
            help="scenario (TOML) with a page; with --access: HAR file, page name or URL",
        ),
    ],
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="store [default: out/NAME-browser]")
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="sessions per variant")] = 10,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="HTTP versions: 3, 2, 1.1, alt-svc [default: those of FILE, or 3,2]"
        ),
    ] = None,
    loads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            metavar="N",
            help="loads per session [default: that of FILE, or 3]; of a URL per access [1]",
        ),
    ] = None,
    pause: Annotated[
        str | None,
        typer.Option(
            metavar="TIME[-TIME]", help="uniform pause between loads [default: that of FILE, or 5 s-15 s]"
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="maximum duration of a load [default: that of FILE, or 300 s]"),
    ] = None,
    session_interval: Annotated[
        str, typer.Option(metavar="TIME", help="time between the starts of two sessions")
    ] = "0",
    hours: Annotated[
        str | None, typer.Option(metavar="HH-HH", help="start sessions only in these hours of the day")
    ] = None,
    quota: Annotated[
        str | None, typer.Option(metavar="SIZE", help="start no session after this number of bytes")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=3, metavar="N", help="concurrent sessions")] = 1,
    netlog: Annotated[bool, typer.Option("--netlog", help="save the NetLog of each load")] = False,
    no_check: Annotated[
        bool, typer.Option("--no-path-check", help="do not measure the path before each session")
    ] = False,
    keep_invalid: Annotated[
        bool,
        typer.Option(
            "--keep-invalid", help="keep sessions in which the lab missed its deadlines, marked invalid"
        ),
    ] = False,
    annotate: Annotated[
        list[str] | None,
        typer.Option("--annotate", metavar="KEY=VALUE", help="annotation of every session; repeatable"),
    ] = None,
    metar: Annotated[
        Path | None, typer.Option(metavar="FILE", help="METAR weather report, saved with every session")
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]", help="real server with `bentpipe serve`, without emulator"),
    ] = None,
    spki: Annotated[
        str | None,
        typer.Option(
            metavar="BASE64", help="key of the server's certificate, printed by serve; with --remote or a URL"
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--run", metavar="ID", help="run only this session; repeatable")
    ] = None,
    accesses: Annotated[
        list[str] | None,
        typer.Option(
            "--access",
            metavar="ACCESS",
            help="access of a page or URL: preset or scenario (TOML); for a URL several, repeated or A,B",
        ),
    ] = None,
    pep: Annotated[
        str | None,
        typer.Option(
            metavar="SETUP", help="split TCP after the longest segment (early, relayed); with --access"
        ),
    ] = None,
    har_page: HarPage = None,
    without_sandbox: Annotated[
        bool,
        typer.Option("--without-sandbox", help="disable Chromium's sandbox"),
    ] = False,
    show_page: Open = False,
    as_json: AsJson = False,
) -> None:
    """Load a page or your web site in a real Chromium. Rerun the command to resume."""
    if spki is not None and not re.fullmatch(r"[A-Za-z0-9+/]{43}=", spki):
        refuse(f'--spki: found "{spki}", expected the 44 characters that bentpipe serve prints')
    several = split_accesses(accesses)
    if is_site(file):
        how: dict[str, Any] = {
            "settings": settings or (), "out": out, "pep": pep, "timeout_s": _parse_timeout(timeout), "spki": spki,
            "without_sandbox": without_sandbox, "as_json": as_json, "show_page": show_page,
        }  # fmt: skip
        _visit_site(context, file, several, loads or 1, how)
        return
    access = _only_access(file, several)
    if show_page:
        refuse(
            "--open: requires a URL; sessions write a store, and `bentpipe report DIR --open` opens its report"
        )
    if access is not None and remote is not None:
        refuse("--access: cannot be combined with --remote, which uses the real access")
    if pep is not None and access is None:
        refuse("--pep: requires --access; a scenario configures proxies with [[path.proxy]]")
    from bentpipe.cli.console import watch
    from bentpipe.lab.browser import chromium
    from bentpipe.lab.browser.privileges import require_sandbox
    from bentpipe.lab.browser.runner import BrowserRunner, RemoteServer
    from bentpipe.lab.browser.sessions import Options, engine_name, plan_sessions
    from bentpipe.lab.executable import executable
    from bentpipe.plan.analysis.lint import lint_pages
    from bentpipe.runners import engine
    from bentpipe.runners.execute import BROWSER, execute

    server = _parse_remote(remote, spki)
    notes = _parse_notes(annotate, metar)
    options = Options(
        units=sessions,
        http=tuple(word.strip() for word in http.split(",")) if http is not None else (),
        loads=loads,
        pause_s=_parse_pause(pause),
        timeout_s=_parse_timeout(timeout),
        netlog=netlog,
        field_host=server.host if isinstance(server, RemoteServer) else None,
        access=access,
        pep=pep,
        har_page=har_page,
        settings=tuple(settings or ()),
        real=(str(server.port), server.spki or "") if server is not None else None,
    )
    schedule = _parse_schedule(session_interval, hours, quota)
    try:
        program = chromium.find()
        # The page of a lab is generated on this host and contains no foreign content.
        sandbox = require_sandbox(without=without_sandbox, foreign=server is not None)
        name = engine_name(engine.version(), chromium.version(program))
    except chromium.ChromiumError as error:
        refuse(str(error))
    plan = plan_sessions(file, options, name, engine.catalogue())
    for message in lint_pages(plan):
        print(f"warning: {message.text}", file=sys.stderr)
    ids = [parameter.id for parameter in plan.runs]
    for unknown in [parameter for parameter in only or [] if parameter not in ids]:
        refuse(f"--run: no session {unknown} in this plan of {count(ids, 'session')}")
    target = (
        out or Path("out") / f"{Path(file).stem}-{Path(access).stem if access is not None else 'browser'}"
    )
    observer = watch(quiet=as_json)
    runner = BrowserRunner(
        target, name, program, executable() if server is None else None, server, jobs, not no_check, keep_invalid,
        schedule, notes,
        observer.on_message, sandbox,
    )  # fmt: skip
    command = "bentpipe " + " ".join(word for word in sys.argv[1:] if not word.startswith("--run"))
    with interruptible():
        summary = execute(
            plan,
            runner,
            target,
            only=only or (),
            watch=observer,
            where=BROWSER,
            command=command,
            what="sessions",
        )
    _print_summary(summary, runner, as_json)
    if summary.failed:
        raise typer.Exit(FAILED)


def _visit_site(
    context: typer.Context, url: str, accesses: list[str], loads: int, how: dict[str, Any]
) -> None:
    """Load a site once, or several times over several accesses; refuse options of sessions."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        # Typer's copy of Click is private, so that only the name identifies the source.
        if source is not None and source.name != "DEFAULT" and parameter.name not in SITE_PARAMETERS:
            refuse(f"{parameter.opts[0]}: cannot be combined with a URL, which has no sessions")
    if len(accesses) > 1 or (accesses and loads > 1):
        visit_several(url, accesses, loads, **how)
    else:
        visit(url, accesses[0] if accesses else None, **how)


def _only_access(file: str, accesses: list[str]) -> str | None:
    """Return the access of a page or scenario, which has at most one."""
    check_subject(file)
    if len(accesses) > 1:
        refuse(f"--access: found {', '.join(accesses)}, expected one; several accesses require a URL")
    return accesses[0] if accesses else None


def _print_summary(summary: ExecutionSummary, runner: BrowserRunner, as_json: bool) -> None:
    from bentpipe.cli.console import emit, print_table
    from bentpipe.lab.browser import split_tcp
    from bentpipe.lab.browser.validity import units, validity_notes
    from bentpipe.report import browse_summary

    done = summary.done + summary.reused
    rows = browse_summary.rows(summary.store) if done else []
    notes_of_store = validity_notes(summary.store) if done else []
    split_verdict = (
        split_tcp.detect_split_tcp(list(units(summary.store))) if done and runner.far is not None else None
    )
    if as_json:
        emit({
            "store": str(summary.store), "planned": summary.planned, "done": summary.done, "reused": summary.reused,
            "failed": [{"unit": f.run, "error": f.error} for f in summary.failed if not f.invalid],
            "invalid": [{"unit": f.run, "error": f.error} for f in summary.failed if f.invalid],
            "stopped": runner.stopped or None,
            "loads": rows, "doubts": notes_of_store,
            "split": split_verdict.as_json() if split_verdict is not None else None,
        })  # fmt: skip
        return
    if rows:
        print_table(rows, "Medians over sessions, s, with 95 % confidence intervals")
    if split_verdict is not None:
        print_table([fact.row() for fact in split_verdict.facts], "Test for split TCP")
        print(split_verdict.text)
    for text in notes_of_store:
        print(f"note: {text}")
    saved = f" ({summary.reused} from earlier runs)" if summary.reused else ""
    print(
        f"{done} of {summary.planned} sessions in {summary.store}{saved}, {summary.seconds:.1f} s{not_made(summary)}"
    )
    if done:
        print(f"report: bentpipe report {summary.store}")
    if runner.stopped:
        print(f"{runner.stopped}; rerun the command with a larger --quota to resume", file=sys.stderr)
    for word, error in dict.fromkeys((failure.word, failure.error) for failure in summary.failed):
        same_error = [failure.run for failure in summary.failed if failure.error == error]
        more = f" and {len(same_error) - 1} more" if len(same_error) > 1 else ""
        print(f"{word}: {same_error[0]}{more}: {error}", file=sys.stderr)
    if summary.failed:
        print("rerun the command to repeat these sessions", file=sys.stderr)


def _parse_remote(remote: str | None, spki: str | None) -> RemoteServer | None:
    import ipaddress
    import socket

    from bentpipe.lab.browser.runner import RemoteServer
    from bentpipe.lab.browser.session_lab import PORT

    if remote is None:
        if spki is not None:
            refuse("--spki: requires --remote with the name of a server")
        return None
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]/]+))(?::(\d{1,5}))?", remote)
    port = int(match.group(3) or PORT) if match else 0
    if match is None or not 0 < port < 65536:
        refuse(f'--remote: found "{remote}", expected HOST or HOST:PORT; an IPv6 address in brackets')
    host = match.group(1) or match.group(2)
    try:
        address = str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        refuse(f"--remote: {host}: {error.strerror}")
    name = None
    if spki is None:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            name = host
        else:
            refuse("--remote: an address requires --spki; expected the key of its certificate, or a name")
    return RemoteServer(host, address, port, spki, name)


def _parse_notes(notes: list[str] | None, metar: Path | None) -> dict[str, Any]:
    annotations: dict[str, Any] = {}
    for text in notes or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            refuse(f'--annotate: found "{text}", expected KEY=VALUE such as "rain=none"')
        annotations[key.strip()] = value.strip()
    if metar is not None:
        from bentpipe.scenario.input_file import MOST_DOCUMENT_BYTES, read_input_text

        try:
            annotations["metar"] = read_input_text(
                metar, MOST_DOCUMENT_BYTES, pipes=True, encoding="utf-8"
            ).strip()
        except UnicodeDecodeError as error:
            from bentpipe.scenario.errors import encoding_error

            refuse(f"--metar: {metar} {encoding_error(error)}")
        except OSError as error:
            refuse(f"--metar: {metar}: {error.strerror}")
    return annotations


def _parse_seconds(option: str, text: str) -> float:
    from bentpipe.scenario.quantities import Duration

    try:
        return Duration.parse(text).ns / 1e9
    except ValueError as error:
        refuse(f"{option}: {error}")


def _parse_timeout(text: str | None) -> float | None:
    if text is None:
        return None
    seconds = _parse_seconds("--timeout", text)
    if seconds <= 0:
        refuse(f'--timeout: found "{text}", expected a time above 0')
    return seconds


def _parse_pause(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, _, high = text.partition("-")
    shortest = _parse_seconds("--pause", low.strip())
    longest = _parse_seconds("--pause", high.strip()) if high.strip() else shortest
    if shortest > longest:
        refuse(f'--pause: found "{text}", expected the shorter one first')
    return shortest, longest


def _parse_schedule(session_interval: str, hours: str | None, quota: str | None) -> Schedule:
    from bentpipe.lab.browser.runner import Schedule
    from bentpipe.scenario.quantities import Size

    span = None
    if hours is not None:
        match = re.fullmatch(r"(\d{1,2})(?::(\d\d))?-(\d{1,2})(?::(\d\d))?", hours.strip())
        hours_of_day = [int(match[n]) + int(match[n + 1] or 0) / 60 for n in (1, 3)] if match else []
        if not hours_of_day or max(hours_of_day) > 24 or hours_of_day[0] == hours_of_day[1]:
            refuse(f'--hours: found "{hours}", expected two hours of the day such as "08-18" or "22:30-06"')
        span = (hours_of_day[0], hours_of_day[1])
    quota_bytes = None
    if quota is not None:
        try:
            quota_bytes = int(Size.parse(quota).bytes)
        except ValueError as error:
            refuse(f"--quota: {error}")
    return Schedule(_parse_seconds("--session-interval", session_interval), span, quota_bytes)


def serve(
    page: Annotated[
        str,
        typer.Argument(metavar="PAGE", help="page name, scenario (TOML), HAR file, or directory of files"),
    ],
    listen: Annotated[
        str, typer.Option(metavar="ADDR:PORT", help="listening address, TCP and UDP")
    ] = "[::]:4433",
    name: Annotated[str | None, typer.Option(metavar="HOST", help="server name in the certificate")] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM certificate chain [default: self-signed]")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM private key of the certificate")
    ] = None,
    congestion: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="congestion controller of QUIC [default: that of the scenario, or cubic]"
        ),
    ] = None,
    access_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="print a JSON line per request")
    ] = None,
    settings: Settings = None,
    har_page: HarPage = None,
) -> None:
    """Serve a page over HTTP/3 and HTTP/2, for browse --remote."""
    from bentpipe.lab.browser.page_server import Serving, run

    serving = Serving(
        page, listen, name, certificate, key, congestion, access_log, tuple(settings or ()), har_page
    )
    raise typer.Exit(run(serving, partial(print, flush=True)))
