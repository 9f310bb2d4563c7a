"""Commands ``dtn``: contact plans, routes of bundles, nodes on real sockets."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import AsJson, StoreDirectory, folder, options, refuse
from bentpipe.cli.orbit import PlacesCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bentpipe.dtn.dtnperf_monitor import Monitor
    from bentpipe.dtn.node_tables import Tables
    from bentpipe.lab.process_plans import BundleNodePlan
    from bentpipe.metrics.format import CommandOutput

__all__ = ["dtn"]

PlanFile = Annotated[
    Path,
    typer.Argument(metavar="PLAN", help="contact plan: ION commands, TOML (.toml) or JSON (.json)"),
]

dtn = typer.Typer(
    help="Contact plans, routes and nodes of bundles (DTN).",
    no_args_is_help=True,
    add_completion=False,
)


@dtn.command()
def plan(
    file: PlanFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="write a page, figures and the plan into this directory"
        ),
    ] = None,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    as_json: AsJson = False,
) -> None:
    """Validate a contact plan and draw it."""
    from bentpipe.cli.console import answer, steps
    from bentpipe.dtn import plan as check

    folder(out)
    files = figure_options.files(figures, only, forms, width, no_title)
    with options(), steps() as step:
        output = check(file, out, files, step)
    answer(output, as_json=as_json)


@dtn.command()
def route(
    file: PlanFile,
    source: Annotated[str, typer.Argument(metavar="FROM", help="deciding node")],
    destination: Annotated[str, typer.Argument(metavar="TO", help="destination node")],
    at: Annotated[
        str, typer.Option(metavar="TIME", help="time since the start of the plan, or an instant")
    ] = "0 s",
    size: Annotated[str, typer.Option(metavar="SIZE", help="bundle size")] = "1 MB",
    priority: Annotated[
        str, typer.Option(metavar="WORD", help="priority: bulk, normal or expedited")
    ] = "normal",
    lifetime: Annotated[
        str | None, typer.Option(metavar="TIME", help="lifetime from --at [default: unlimited]")
    ] = None,
    critical: Annotated[
        bool, typer.Option("--critical", help="critical: send a copy to every neighbour with a route")
    ] = False,
    fragment: Annotated[bool, typer.Option("--fragment", help="allow fragmentation")] = False,
    received_from: Annotated[
        str | None,
        typer.Option("--received-from", metavar="NODE", help="previous node, excluded as next hop"),
    ] = None,
    return_to_sender: Annotated[
        bool, typer.Option("--return-to-sender", help="allow the previous node as next hop")
    ] = False,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="exclude this neighbour; repeatable")
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="P", help="minimum confidence of a contact")] = 0.0,
    queued: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE=SIZE[:PRIORITY]", help="bytes queued for a neighbour; repeatable"),
    ] = None,
    booked: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LINE=SIZE[:PRIORITY]", help='booked bytes of a contact ("line 3=2 MB"); repeatable'
        ),
    ] = None,
    static: Annotated[
        list[str] | None,
        typer.Option(metavar="TO=VIA", help="static route; TO may be *; repeatable"),
    ] = None,
    alternatives: Annotated[
        int, typer.Option(min=0, max=1000, metavar="N", help="number of routes to list, by best-case arrival")
    ] = 5,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    as_json: AsJson = False,
) -> None:
    """Compute the arrival and route of a bundle and the cost of each contact's loss."""
    from bentpipe.cli.console import answer, steps
    from bentpipe.dtn import route as decide
    from bentpipe.dtn.route_query import BundleQuery

    query = BundleQuery(
        source, destination, at, size, priority, lifetime, critical, fragment, received_from, return_to_sender,
        tuple(exclude or ()), confidence, tuple(queued or ()), tuple(booked or ()), tuple(static or ()), alternatives,
    )  # fmt: skip
    files = figure_options.files(figures, only, forms, width, no_title)
    with options(), steps() as step:
        output = decide(file, query, step, files)
    answer(output, as_json=as_json)


@dtn.command()
def bound(
    file: PlanFile,
    source: Annotated[str, typer.Argument(metavar="FROM", help="source node")],
    destination: Annotated[str, typer.Argument(metavar="TO", help="destination node")],
    at: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="arrival of the first bundle: time since the start of the plan, or an instant",
        ),
    ] = "0 s",
    size: Annotated[str, typer.Option(metavar="SIZE", help="of a bundle")] = "1 MB",
    count: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="number of bundles")] = 1,
    interval: Annotated[str, typer.Option(metavar="TIME", help="time between two bundles")] = "0 s",
    store: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE=SIZE", help="storage limit of a node; repeatable [default: unlimited]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the earliest delivery of bundles by a contact plan.

    The result is a bound for any routing.
    """
    from bentpipe.cli.console import answer, steps
    from bentpipe.dtn.contact_plan import read
    from bentpipe.dtn.delivery_bound import BundleSeries, bound_deliveries

    query = BundleSeries(source, destination, at, size, count, interval, tuple(store or ()))
    with steps() as step:
        contact_plan = read(file, step)
        step("searching the earliest deliveries")
        output = bound_deliveries(contact_plan, query)
    answer(output, as_json=as_json)


@dtn.command()
def gap(
    directory: StoreDirectory,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="PLAN", help="contact plan of the delivery bound [default: that of each run]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the gap between runs and the optimum of their plan.

    --json has every run.
    """
    from bentpipe.cli.console import answer
    from bentpipe.dtn.optimality_gap import summarise

    answer(summarise(directory, plan), as_json=as_json)


@dtn.command(cls=PlacesCommand)
def passes(
    places: Annotated[
        list[str], typer.Argument(metavar="PLACE...", help='ground stations: names or "latitude,longitude"')
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="output file: .toml or .json")],
    constellation: Annotated[
        str,
        typer.Option(
            "--constellation",
            "-c",
            metavar="NAME|FILE",
            help="preset (bentpipe orbit --list) or elements file",
        ),
    ] = "iridium",
    duration: Annotated[str, typer.Option(metavar="TIME", help="duration")] = "100 min",
    step: Annotated[str, typer.Option(metavar="TIME", help="time step")] = "1 s",
    begin: Annotated[
        str | None,
        typer.Option(
            "--start", metavar="UTC", help="start such as 2026-11-22T12:00:00Z [default: the epoch]"
        ),
    ] = None,
    elevation: Annotated[
        str | None,
        typer.Option(metavar="ANGLE", help="minimum elevation [default: that of the constellation]"),
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="grid or bent-pipe [default: that of the constellation]"),
    ] = None,
    up: Annotated[str, typer.Option(metavar="RATE", help="rate from a place to a satellite")] = "10 Mbit/s",
    down: Annotated[
        str, typer.Option(metavar="RATE", help="rate from a satellite to a place")
    ] = "100 Mbit/s",
    across: Annotated[str, typer.Option(metavar="RATE", help="rate between satellites")] = "100 Mbit/s",
    tolerance: Annotated[str, typer.Option(metavar="TIME", help="resolution of light times")] = "1 ms",
    as_json: AsJson = False,
) -> None:
    """Write the contact plan of a constellation.

    Contacts are passes over places and links between satellites.
    """
    from bentpipe.cli.console import answer
    from bentpipe.orbit.passes import Rates, write
    from bentpipe.orbit.query import parse_query

    table = {
        "constellation": constellation, "from": places[0], "to": places[1:] or [places[0]], "start": begin,
        "step": step, "elevation": elevation, "links": links,
    }  # fmt: skip
    rates = Rates.parse(up, down, across, tolerance)
    answer(write(parse_query(table, duration), rates, out), as_json=as_json)


NodeArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="node file: neighbours and contacts (.toml or .json)")
]
NodeName = Annotated[str | None, typer.Option(metavar="NAME", help="node name; overrides the file")]


NodeTables = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        help="write the tables of the node as CSV files into this directory at the end",
    ),
]


NodeCertificate = Annotated[
    Path | None,
    typer.Option("--certificate", metavar="FILE", help="PEM certificate of this node (dtn keygen)"),
]
NodeKey = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="PEM private key of the certificate")
]
NodeAuthority = Annotated[
    Path | None,
    typer.Option(
        "--authority",
        metavar="FILE",
        help="PEM certificate of the authority that signs the neighbours' certificates",
    ),
]
NodePins = Annotated[
    list[str] | None,
    typer.Option(
        "--pin", metavar="NEIGHBOUR=SHA256", help="pinned key of a neighbour (dtn keygen); repeatable"
    ),
]

NodeStore = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="persistent bundle store [default: in memory]",
    ),
]


MonitorFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="write a monitor's CSV with status reports, in the format of dtnperf"),
]


@contextlib.contextmanager
def _monitor(file: Path | None) -> Iterator[Monitor | None]:
    """Yield the writer of a monitor's CSV file; None without a file."""
    from bentpipe.dtn.dtnperf_monitor import Monitor

    if file is None:
        yield None
        return
    try:
        out = file.open("w", encoding="utf-8")
    except OSError as error:
        refuse(f"--monitor: {file}: {error.strerror}")
    with out:
        yield Monitor(out)


def _tables(out: Path | None) -> Tables | None:
    from bentpipe.dtn.node_tables import Tables

    if out is None:
        return None
    folder(out)
    out.mkdir(parents=True, exist_ok=True)
    return Tables(out)


@dtn.command()
def node(
    file: NodeArgument,
    name: NodeName = None,
    store: NodeStore = None,
    certificate: NodeCertificate = None,
    key: NodeKey = None,
    authority: NodeAuthority = None,
    pin: NodePins = None,
    out: NodeTables = None,
    files: Annotated[
        Path | None, typer.Option(metavar="DIR", help="directory of received files (dtn perf -F)")
    ] = None,
    monitor: MonitorFile = None,
    as_json: AsJson = False,
) -> None:
    """Run a bundle node on real sockets until Ctrl-C.

    --json prints a line of JSON for each event.
    """
    from bentpipe.dtn.node import plan_of, run
    from bentpipe.dtn.node_config import IdentityOptions

    shown = IdentityOptions(certificate, key, authority, tuple(pin or ()))
    plan = plan_of(file, name, store, shown)
    _print_unused_neighbours(plan)
    if files is not None:
        folder(files)
        plan["files"] = str(files)
    with _monitor(monitor) as monitor_writer:
        output = run(plan, _event_printer(as_json=as_json), tables=_tables(out), monitor=monitor_writer)
    _print_output(output, as_json=as_json)


@dtn.command()
def keygen(
    node: Annotated[str, typer.Argument(metavar="NODE", help="node name")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="directory of NODE.pem, NODE.key and the authority's files"
        ),
    ],
    eid: Annotated[
        str | None, typer.Option(metavar="EID", help="node id (ipn:N.0) [default: derived from the name]")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="validity of the certificate")] = 365,
    as_json: AsJson = False,
) -> None:
    """Create a key and a certificate for a node of a lab.

    The command creates the authority of the lab if the directory has none.
    """
    from bentpipe.cli.console import answer
    from bentpipe.dtn.certificates import make

    answer(make(node, out, eid, days), as_json=as_json)


@dtn.command()
def perf(
    file: NodeArgument,
    to: Annotated[str, typer.Argument(metavar="TO", help="server node, by name or node id")],
    window: Annotated[
        str | None, typer.Option("-W", metavar="N", help="window: unacknowledged bundles [default: 1]")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "-R", metavar="RATE", help="rate instead of a window: bit/s (10M) or bundles per second (5b)"
        ),
    ] = None,
    time: Annotated[str | None, typer.Option("-T", metavar="SECONDS", help="send for this time")] = None,
    data: Annotated[str | None, typer.Option("-D", metavar="BYTES", help="send this amount (10M)")] = None,
    sent: Annotated[Path | None, typer.Option("-F", metavar="FILE", help="send this file")] = None,
    payload: Annotated[str, typer.Option("-P", metavar="BYTES", help="of a bundle")] = "50k",
    lifetime: Annotated[str, typer.Option("-l", metavar="SECONDS", help="of a bundle")] = "60",
    priority: Annotated[
        str, typer.Option("-p", metavar="WORD", help="priority: bulk, normal or expedited")
    ] = "normal",
    crc: Annotated[str, typer.Option(metavar="BITS", help="CRC: 0, 16 or 32")] = "0",
    whole: Annotated[bool, typer.Option("-N", help="forbid fragmentation")] = False,
    critical: Annotated[
        bool, typer.Option("--critical", help="critical: send a copy to every neighbour with a route")
    ] = False,
    hops: Annotated[str | None, typer.Option(metavar="N", help="maximum number of hops")] = None,
    received: Annotated[bool, typer.Option("-C", help="request reception reports")] = False,
    forwarded: Annotated[bool, typer.Option("-f", help="request forwarding reports")] = False,
    delivered: Annotated[bool, typer.Option("-r", help="request delivery reports")] = False,
    deleted: Annotated[bool, typer.Option("--del", help="request deletion reports")] = False,
    reports_to: Annotated[
        str | None, typer.Option("-m", metavar="NODE", help="report-to node [default: this node]")
    ] = None,
    monitor: MonitorFile = None,
    name: NodeName = None,
    store: NodeStore = None,
    certificate: NodeCertificate = None,
    key: NodeKey = None,
    authority: NodeAuthority = None,
    pin: NodePins = None,
    out: NodeTables = None,
    as_json: AsJson = False,
) -> None:
    """Send bundles from a node on real sockets.

    The options are those of dtnperf. The command prints goodput and acknowledgement delays.
    """
    from bentpipe.dtn.node import Client, plan_of, run
    from bentpipe.dtn.node_config import IdentityOptions

    valued_options = {
        "-W": window,
        "-R": rate,
        "-T": time,
        "-D": data,
        "-F": None if sent is None else str(sent),
        "-P": payload,
        "-l": lifetime,
        "-p": priority,
        "--crc": crc,
        "--hops": hops,
    }
    flags = {
        "-N": whole,
        "--critical": critical,
        "-C": received,
        "-f": forwarded,
        "-r": delivered,
        "--del": deleted,
    }
    arguments = [word for key, value in valued_options.items() if value is not None for word in (key, value)]
    arguments += [key for key, value in flags.items() if value]
    shown = IdentityOptions(certificate, key, authority, tuple(pin or ()))
    plan = plan_of(file, name, store, shown)
    client = Client(plan, to, shlex.join(arguments), reports_to)
    _print_unused_neighbours(plan)
    with _monitor(monitor) as monitor_writer:
        output = run(plan, lambda _: None, client, _tables(out), monitor_writer)
    _print_output(output, as_json=as_json)


@dtn.command()
def show(
    directory: StoreDirectory,
    monitor: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write a monitor's CSV of a run, in the format of dtnperf"),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="run of --monitor [default: the first]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the statistics of bundle clients in a store.

    Prints acknowledged and generated goodput. --json has every run.
    """
    from bentpipe.cli.console import emit, print_table
    from bentpipe.cli.results import BUNDLES
    from bentpipe.dtn.dtnperf_monitor import monitor_csv
    from bentpipe.metrics.summary_table import bundle_rows

    rows = bundle_rows(directory, numbers=as_json)
    if not rows:
        refuse(f"{directory}: no bundle nodes in this store; set load = {{ bundles = ... }} of a flow")
    if monitor is not None:
        monitor.write_text(monitor_csv(directory, run))
    if as_json:
        emit(rows)
    else:
        print_table(rows, BUNDLES)


def _print_unused_neighbours(plan: BundleNodePlan) -> None:
    """Print on standard error which neighbours get no bundles."""
    from bentpipe.dtn.node import unused_neighbours

    for name in unused_neighbours(plan):
        print(
            f"warning: neighbour.{name}: no future contact and no route, so it receives no bundles; "
            'routing = "epidemic" would send some',
            file=sys.stderr,
        )


def _event_printer(*, as_json: bool) -> Callable[[dict[str, Any]], None]:
    """Return a function that prints each event on a line."""
    from bentpipe.cli.console import plain
    from bentpipe.dtn.node import line

    return lambda row: print(json.dumps(row) if as_json else plain(line(row)), flush=True)


def _print_output(output: CommandOutput, *, as_json: bool) -> None:
    """Print the output of a node; exit with status 1 if it failed."""
    from bentpipe.cli.console import answer

    if as_json:
        print(json.dumps(output.data), flush=True)
        for problem in output.problems:
            print(problem, file=sys.stderr)
    else:
        answer(output)
    if not output.good:
        raise typer.Exit(1)


@dtn.command()
def schema() -> None:
    """Print the JSON schema of contact plans, for editors."""
    from bentpipe.cli.console import emit
    from bentpipe.scenario.network.contact_plan import ContactPlan

    emit({"$schema": "https://json-schema.org/draft/2020-12/schema", **ContactPlan.model_json_schema()})
