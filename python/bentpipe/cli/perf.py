"""Commands ``perf``: throughput and calls over real sockets."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bentpipe.cli.common import AsJson, refuse

if TYPE_CHECKING:
    from bentpipe.lab.perf import Options
    from bentpipe.lab.process_plans import PerfClientPlan, PerfServerPlan

__all__ = ["perf"]

Send = Literal["up", "down", "both"]

Congestion = Annotated[
    str,
    typer.Option(metavar="NAME", help="congestion controller of this side: NAME or NAME:{JSON options}"),
]
ClientCongestion = Annotated[
    str | None,
    typer.Option(
        "--congestion",
        metavar="NAME",
        help="congestion controller of both sides, requested from the server: NAME or NAME:{JSON "
        "options} [default: cubic; server: its own]",
    ),
]
Window = Annotated[
    str | None,
    typer.Option(metavar="N", help="initial window, packets or a size [default: that of RFC 9002]"),
]
Mtu = Annotated[
    str | None, typer.Option(metavar="BYTES", help="UDP payload of a full packet [default: 1452]")
]
Ecn = Annotated[bool, typer.Option("--ecn", help="send ECT(0)")]
Interval = Annotated[str, typer.Option(metavar="TIME", help="interval of printed lines; 0: none")]
CsvFile = Annotated[Path | None, typer.Option(metavar="FILE", help="also write lines to a CSV file")]
Mss = Annotated[
    str | None,
    typer.Option(metavar="BYTES", help="TCP maximum segment size [default: path MTU]"),
]
Buffer = Annotated[
    str | None, typer.Option(metavar="SIZE", help="TCP socket buffers [default: kernel autotuning]")
]
FramesFile = Annotated[Path | None, typer.Option(metavar="FILE", help="write measurements as JSON lines")]
RecordFolder = Annotated[
    Path | None,
    typer.Option("--record", metavar="DIR", help="record for `bentpipe report DIR`"),
]
QlogFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="directory of qlog files, one per QUIC connection")
]
FramesInterval = Annotated[str, typer.Option(metavar="TIME", help="sample interval of --json-stream")]
CsvInterval = Annotated[str, typer.Option(metavar="TIME", help="interval of CSV lines")]

perf = typer.Typer(
    help="Measure QUIC and the kernel's TCP over real sockets.",
    no_args_is_help=True,
    add_completion=False,
)


@perf.command()
def server(
    listen: Annotated[str, typer.Option(metavar="ADDR:PORT", help="listening address")] = "[::]:4433",
    transport: Annotated[str, typer.Option(help="quic (UDP), tcp, tls (TCP), or all on one port")] = "all",
    once: Annotated[
        bool, typer.Option("-1", "--once", help="exit after one connection (TCP: one client)")
    ] = False,
    congestion: Congestion = "cubic",
    client_controllers: Annotated[
        str,
        typer.Option(
            metavar="no|named|any",
            help="controllers that clients may request: none, those that react to congestion, or all "
            "with options",
        ),
    ] = "named",
    initial_window: Window = None,
    mtu: Mtu = None,
    ecn: Ecn = False,
    mss: Mss = None,
    buffer: Buffer = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM certificate chain [default: self-signed]")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM private key of the certificate")
    ] = None,
    connections: Annotated[
        int,
        typer.Option(
            min=1, max=100_000, help="maximum number of connections; slow ones give way to new ones"
        ),
    ] = 256,
    handshakes: Annotated[
        int, typer.Option(min=0, help="concurrent handshakes before the server sends Retry")
    ] = 32,
    streams: Annotated[int, typer.Option(min=1, help="maximum number of streams per connection")] = 10_000,
    interval: Interval = "5s",
    csv: CsvFile = None,
    csv_interval: CsvInterval = "0.5s",
    json_stream: FramesFile = None,
    json_stream_interval: FramesInterval = "0.1s",
    record: RecordFolder = None,
    qlog: QlogFolder = None,
    as_json: AsJson = False,
) -> None:
    """Serve QUIC and TCP clients.

    Accepts `bentpipe perf client` and other clients with ALPN perf or pico-perf. SSLKEYLOGFILE receives the
    TLS keys.
    """
    from bentpipe.lab.perf import Output, Server, server_plan

    server_options = Server(
        listen, once, certificate, key, connections, handshakes, streams, transport, client_controllers
    )
    json_stream = _stream_file("server", record, json_stream)
    output = Output(
        interval, csv, csv_interval, as_json, json_stream, json_stream_interval, _use_colour(), qlog
    )
    raise _run_endpoint(
        server_plan(
            server_options, _parse_options(congestion, initial_window, mtu, ecn, mss, buffer), output
        ),
        record,
    )


@perf.command()
def client(
    host: Annotated[str, typer.Argument(metavar="HOST[:PORT]", help="server [default port: 4433]")],
    load: Annotated[
        str | None,
        typer.Argument(metavar="LOAD", help="scenario of picoquic's pico_perf, such as D:*1:0:-:100:5300000"),
    ] = None,
    transport: Annotated[str, typer.Option(help="quic, tcp, or tls over TCP")] = "quic",
    time: Annotated[str | None, typer.Option(metavar="TIME", help="duration [default: 10s]")] = None,
    size: Annotated[str | None, typer.Option("--bytes", metavar="SIZE", help="amount of data")] = None,
    direction: Annotated[Send, typer.Option(help="direction; up: to the server")] = "up",
    streams: Annotated[
        int, typer.Option(metavar="N", help="streams per direction; --bytes applies to each")
    ] = 1,
    congestion: ClientCongestion = None,
    initial_window: Window = None,
    mtu: Mtu = None,
    ecn: Ecn = False,
    mss: Mss = None,
    buffer: Buffer = None,
    alpn: Annotated[str, typer.Option(help="application protocol: perf or pico-perf")] = "perf",
    insecure: Annotated[bool, typer.Option("--insecure", help="accept any certificate")] = False,
    fingerprint: Annotated[
        str | None,
        typer.Option(
            metavar="SHA256", help="accept only this certificate fingerprint, printed by the server"
        ),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="time limit of the handshake [default: 10s]")
    ] = None,
    interval: Interval = "5s",
    csv: CsvFile = None,
    csv_interval: CsvInterval = "0.5s",
    json_stream: FramesFile = None,
    json_stream_interval: FramesInterval = "0.1s",
    record: RecordFolder = None,
    qlog: QlogFolder = None,
    as_json: AsJson = False,
) -> None:
    """Measure throughput to or from a server.

    Without --insecure or --fingerprint, a self-signed certificate is accepted only at loopback and private
    addresses. SSLKEYLOGFILE receives the TLS keys.
    """
    from bentpipe.lab.perf import Client, Output, assign_controller, client_plan
    from bentpipe.lab.perf import load as parse_load

    streams_of_load = parse_load(load, time=time, size=size, send=direction, streams=streams)
    options = _parse_options(congestion or "cubic", initial_window, mtu, ecn, mss, buffer)
    requested, options = (
        assign_controller(streams_of_load, options) if congestion is not None else (None, options)
    )
    client_options = Client(
        host,
        streams_of_load,
        alpn,
        insecure,
        fingerprint,
        timeout,
        transport,
        negotiate=True,
        requested=requested,
    )
    json_stream = _stream_file("client", record, json_stream)
    output = Output(
        interval, csv, csv_interval, as_json, json_stream, json_stream_interval, _use_colour(), qlog
    )
    raise _run_endpoint(client_plan(client_options, options, output), record)


@perf.command("call-server")
def call_server(
    listen: Annotated[str, typer.Option(metavar="ADDR:PORT", help="listening address")] = "[::]:4433",
    once: Annotated[bool, typer.Option("-1", "--once", help="exit after one call")] = False,
    calls: Annotated[int, typer.Option(min=1, max=1000, help="maximum number of calls")] = 64,
) -> None:
    """Serve `bentpipe perf call-client`.

    Negotiates calls over TCP and exchanges datagrams over UDP.
    """
    from bentpipe.lab import calls as lab

    raise typer.Exit(lab.answer(lab.answer_plan(listen, once=once, calls=calls)))


@perf.command("call-client")
def call_client(
    host: Annotated[str, typer.Argument(metavar="HOST[:PORT]", help="server [default port: 4433]")],
    codec: Annotated[str, typer.Option(help="g711, g729, g729a-vad")] = "g711",
    live: Annotated[
        str | None, typer.Option(metavar="RATE", help="rate of a CBR stream instead of a call")
    ] = None,
    packet: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|SIZE",
            help="speech per datagram [default: 20 ms], or payload per datagram of a stream",
        ),
    ] = None,
    time: Annotated[str, typer.Option(metavar="TIME", help="duration")] = "10s",
    direction: Annotated[
        Send | None, typer.Option(help="direction [default: both for a call, up for a stream]")
    ] = None,
    count: Annotated[int, typer.Option(metavar="N", help="number of concurrent calls")] = 1,
    playout: Annotated[
        str,
        typer.Option(
            metavar="RULE", help='play-out: fixed buffer "60 ms", percentile such as p99, or adaptive'
        ),
    ] = "adaptive",
    advantage: Annotated[float, typer.Option(help="advantage factor A; 20 for satellite access")] = 0.0,
    plc: Annotated[bool, typer.Option("--plc/--no-plc", help="with packet loss concealment (G.711)")] = True,
    record: RecordFolder = None,
    as_json: AsJson = False,
) -> None:
    """Call a server over UDP and rate the call.

    The command prints one-way delay, loss, jitter, R and MOS (ITU-T G.107) of each direction.
    """
    from bentpipe.cli.console import emit, print_table
    from bentpipe.lab import calls as lab
    from bentpipe.lab.call_recording import CALLS_FILE, write
    from bentpipe.metrics.call_quality import PlayoutError, RatingConfig, parse

    try:
        config = RatingConfig(None, parse(playout), advantage, plc)
    except PlayoutError as error:
        refuse(f"--playout: {error}")
    plan = lab.call_plan(lab.CallOptions(host, codec, live, packet, time, direction, count))
    _new_file(record, CALLS_FILE)
    results = lab.call(plan)
    if record is not None:
        write(record, plan, results, config)
    rows = lab.rating_rows(results, plan["load"], config)
    if as_json:
        emit(rows)
        return
    from bentpipe.report.call_page import TWO_CLOCKS, shown

    print_table(shown(rows), f"{results[0]['peer']}, play-out {config.playout}, A = {advantage:g}")
    if not all(one["one_clock"] for one in results):
        print(TWO_CLOCKS)


def _stream_file(role: str, record: Path | None, json_stream: Path | None) -> Path | None:
    """Return the file of the JSON stream; ``--record`` names a directory that both endpoints may share."""
    from bentpipe.lab.perf_recording import recording_name

    if record is None:
        return json_stream
    if json_stream is not None:
        refuse("--json-stream: cannot be combined with --record, which writes the same data")
    return _new_file(record, recording_name(role))


def _new_file(record: Path | None, name: str) -> Path | None:
    """Return the file ``name`` of ``--record``; reject an existing file."""
    if record is None:
        return None
    file = record / name
    if file.exists() or (record.exists() and not record.is_dir()):
        refuse(f"--record: {file if file.exists() else record} exists, expected a new directory")
    return file


def _run_endpoint(plan: PerfServerPlan | PerfClientPlan, record: Path | None) -> typer.Exit:
    """Run an endpoint; create the directory ``record`` only after the plan is valid."""
    from bentpipe.lab.perf import run

    if record is not None:
        record.mkdir(parents=True, exist_ok=True)
    return typer.Exit(run(plan))


def _use_colour() -> bool:
    """Return whether the terminal supports colours and the user permits them (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _parse_options(
    congestion: str,
    initial_window: str | None,
    mtu: str | None,
    ecn: bool,
    mss: str | None,
    buffer: str | None,
) -> Options:
    """Return the options of an endpoint."""
    import json

    from bentpipe.lab.perf import Options
    from bentpipe.scenario.errors import ScenarioError

    name, separator, text = congestion.partition(":")
    options = {}
    if separator:
        try:
            options = json.loads(text)
        except ValueError as error:
            message = f'found "{text}", expected options as JSON, such as {{"growth_cap": 4}}: {error}'
            raise ScenarioError([("--congestion", message)]) from None
    return Options(name, options, initial_window, mtu, ecn, mss, buffer)
