"""Throughput between two hosts over real sockets (``bentpipe perf``).

QUIC uses the controllers of the simulation. TCP, with TLS and without, is the kernel's and uses its
controllers. Python plans an endpoint. The executable ``bentpipe-rt`` runs it (crates/rt, crates/programs).
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.lab.executable import executable
from bentpipe.lab.process import forward_signals, plan_descriptor, request_end
from bentpipe.plan.flow.loads import senders, stream_specs
from bentpipe.plan.flow.quic import MTU_BYTES, defaults
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.flow import perf_string as loads
from bentpipe.scenario.flow.quic import LARGEST_MTU_BYTES
from bentpipe.scenario.quantities import Duration, Size, UnitError, WindowSize

if TYPE_CHECKING:
    from bentpipe.lab.process_plans import (
        CalleePlan,
        CertificateFiles,
        Csv,
        FramesPlan,
        MeasuredSide,
        PerfClientPlan,
        PerfServerPlan,
        PerfTcp,
    )

__all__ = [
    "ALPN",
    "CHOICES",
    "TIMEOUT",
    "TRANSPORTS",
    "Client",
    "Options",
    "Output",
    "Server",
    "assign_controller",
    "client_plan",
    "listen_address",
    "load",
    "parse_host",
    "parse_time",
    "run",
    "server_plan",
]  # fmt: skip

PORT = 4433
"""Default port of server and client."""

ALPN = ("perf", "pico-perf")
"""Application protocols: draft-banks-quic-performance, and pico-perf, whose streams have the same format."""

TRANSPORTS = ("quic", "tcp", "tls")
"""Protocols under the streams. A server can accept all of them on one port number."""

CHOICES = ("no", "named", "any")
"""Controllers that clients may request from a server: none, those that react to congestion, all with their
options."""

IDLE_TIMEOUT_NS = 30_000_000_000
"""Idle timeout, ns, longer than any outage that a load survives. RFC 9000 section 10.1 specifies no value."""

MSS_BYTES = (88, 32_767)
"""Range of TCP_MAXSEG in Linux, bytes (TCP_MIN_MSS and MAX_TCP_WINDOW of net/tcp.h)."""

WINDOW_BYTES = 64 << 20
"""Flow-control window and send buffer, bytes: 600 ms of a geostationary path at 890 Mbit/s."""

TIMEOUT = Duration.parse("10 s")
"""Timeout of the handshake. Its packets are retransmitted after 1, 3 and 7 s (RFC 9002 section 6.2.4)."""

Send = Literal["up", "down", "both"]
"""Direction of the data."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the connections of an endpoint.

    Attributes:
        congestion: congestion controller of the data that this endpoint sends; a name of the catalogue.
        options: options of the controller.
        initial_window: initial window in packets or bytes; None: 10 packets, at most 14720 B (RFC 9002
            section 7.2).
        mtu: UDP payload of a full packet.
        ecn: send ECT(0).
        mss: data of a full TCP segment, bytes; None: as the path permits.
        buffer: socket buffers of TCP; None: the kernel adapts them to the data in flight.
    """

    congestion: str = "cubic"
    options: dict[str, Any] = field(default_factory=dict)
    initial_window: str | None = None
    mtu: str | None = None
    ecn: bool = False
    mss: str | None = None
    buffer: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """Output of a measurement.

    Attributes:
        interval: interval between two lines on the screen; 0: none.
        csv: CSV file for lines.
        csv_interval: interval between two lines of the CSV file.
        json: print the result as JSON, and nothing else.
        frames: file of the JSON stream (docs/reference/perf.md).
        frames_interval: interval between two samples of a connection in the JSON stream.
        colour: print colours.
        qlog: directory for qlog files, one for each QUIC connection.
    """

    interval: str = "5 s"
    csv: Path | None = None
    csv_interval: str = "0.5 s"
    json: bool = False
    frames: Path | None = None
    frames_interval: str = "0.1 s"
    colour: bool = False
    qlog: Path | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """Server of a measurement.

    Attributes:
        listen: address and port.
        once: end after one connection; for TCP, after all connections of one client.
        certificate: PEM file of the chain, with ``key``; None: a self-signed certificate for this run.
        key: PEM file of the key.
        connections: maximum number of simultaneous connections; further ones are rejected.
        handshakes: number of pending handshakes above which clients must validate their address (Retry).
        streams: maximum number of streams of a connection over its life.
        transport: accepted protocol: one of `TRANSPORTS`, or ``all``.
        choose: controllers that clients may request: one of `CHOICES`.
    """

    listen: str = f"[::]:{PORT}"
    once: bool = False
    certificate: Path | None = None
    key: Path | None = None
    connections: int = 256
    handshakes: int = 32
    streams: int = loads.MOST_STREAMS
    transport: str = "all"
    choose: str = "named"


@dataclass(frozen=True, slots=True)
class Client:
    """Client of a measurement.

    Attributes:
        host: name or address of the server, perhaps with a port.
        streams: load.
        alpn: application protocol.
        insecure: accept any certificate.
        fingerprint: SHA-256 of the accepted certificate.
        timeout: timeout of the handshake.
        transport: one of `TRANSPORTS`.
        negotiate: send the name of this endpoint's controller, and ask for the server's.
        requested: name and options of the controller that the server shall use; None: its default.
    """

    host: str
    streams: tuple[loads.Stream, ...]
    alpn: str = "perf"
    insecure: bool = False
    fingerprint: str | None = None
    timeout: str | None = None
    transport: str = "quic"
    negotiate: bool = False
    requested: tuple[str, dict[str, Any]] | None = None


def load(
    text: str | None = None,
    *,
    time: str | None = None,
    size: str | None = None,
    send: Send = "up",
    streams: int = 1,
) -> tuple[loads.Stream, ...]:
    """Return the streams of a load.

    A load is a scenario string of pico-perf, or a time or a number of bytes for each stream.

    Args:
        text: scenario string of pico-perf.
        time: duration.
        size: number of bytes.
        send: direction; both: as many streams in each direction, at the same time.
        streams: number of streams in each direction.

    Raises:
        ScenarioError: an option is invalid.
    """
    given = [
        name for name, value in (("LOAD", text), ("--time", time), ("--bytes", size)) if value is not None
    ]
    if len(given) > 1:
        raise ScenarioError([("", f"found {' and '.join(given)}, expected one of them")])
    if text is not None:
        try:
            return loads.parse(text)
        except loads.LoadError as error:
            raise ScenarioError([("LOAD", str(error))]) from None
    if not 1 <= streams <= loads.MOST_STREAMS // 2:
        raise ScenarioError([("--streams", f"found {streams}, expected 1 to {loads.MOST_STREAMS // 2}")])
    directions: tuple[Literal["up", "down"], ...] = ("up", "down") if send == "both" else (send,)
    amounts: list[loads.DataAmount | loads.TimeAmount] = []
    for direction in directions:
        if size is not None:
            count = _parse("--bytes", Size, size, "100 MB").bytes
            if count < 1:
                raise ScenarioError([("--bytes", f'found "{size}", expected bytes to send')])
            upload = loads.DataAmount(count, 0)
            amounts.append(upload if direction == "up" else loads.DataAmount(loads.HEADER_BYTES, count))
        else:
            amounts.append(loads.TimeAmount(parse_time("--time", time or "10 s"), direction))
    rows = [amount for _ in range(streams) for amount in amounts]
    return tuple(loads.Stream(4 * index, None, amount) for index, amount in enumerate(rows))


def assign_controller(
    streams: tuple[loads.Stream, ...], options: Options
) -> tuple[tuple[str, dict[str, Any]] | None, Options]:
    """Assign the controller of ``options`` to the endpoints that send ``streams``.

    Returns:
        The controller that the client requests from the server, and the options of the client. A client that
        sends nothing has the default controller.
    """
    sending_ends = senders({"kind": "perf", "streams": stream_specs(streams)})
    requested = (options.congestion, options.options) if "server" in sending_ends else None
    return requested, options if "client" in sending_ends else replace(
        options, congestion="cubic", options={}
    )


def server_plan(server: Server, options: Options, output: Output) -> PerfServerPlan:
    """Return the plan of a server as ``bentpipe-rt`` reads it.

    Raises:
        ScenarioError: an option is invalid.
    """
    if (server.certificate is None) != (server.key is None):
        raise ScenarioError([("", "--certificate and --key require each other")])
    if server.choose not in CHOICES:
        raise ScenarioError([("--client-controllers", unknown_name(server.choose, CHOICES, "choice"))])
    files: CertificateFiles | None = None
    if server.certificate is not None:
        files = {"certificate": str(server.certificate), "key": str(server.key)}
    transport = _check_transport(server.transport, (*TRANSPORTS, "all"), options, output)
    return {
        "role": "server",
        "listen": listen_address(server.listen),
        "once": server.once,
        "certificate": files,
        "limits": {
            "connections": server.connections,
            "handshakes": server.handshakes,
            "streams": server.streams,
        },
        "controller_policy": server.choose,
        **_endpoint_plan(options, output, transport),
    }


def client_plan(client: Client, options: Options, output: Output) -> PerfClientPlan:
    """Return the plan of a client as ``bentpipe-rt`` reads it.

    Raises:
        ScenarioError: an option is invalid.
    """
    host, port = parse_host(client.host)
    if client.alpn not in ALPN:
        raise ScenarioError([("--alpn", unknown_name(client.alpn, ALPN, "protocol"))])
    if client.insecure and client.fingerprint is not None:
        raise ScenarioError([("", "--insecure cannot be combined with --fingerprint")])
    trust: str | dict[str, str] = "insecure" if client.insecure else "private"
    if client.fingerprint is not None:
        trust = {"fingerprint": client.fingerprint}
    timeout = TIMEOUT if client.timeout is None else parse_time("--timeout", client.timeout)
    transport = _check_transport(client.transport, TRANSPORTS, options, output)
    return {
        "role": "client",
        "host": host,
        "port": port,
        "load": stream_specs(client.streams),
        "alpn": client.alpn,
        "server_verification": trust,
        "timeout_ns": timeout.ns,
        "negotiates_controller": client.negotiate,
        "requested_controller": None
        if client.requested is None
        else {"name": client.requested[0], "options": client.requested[1]},
        **_endpoint_plan(options, output, transport),
    }


def run(plan: PerfServerPlan | PerfClientPlan | CalleePlan) -> int:
    """Run an endpoint and return its exit status: 0 done, 1 failed, 2 bad input, 130 interrupted.

    A signal to this process ends the measurement; bentpipe-rt then prints its result.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
    """
    executable_path = executable()
    with plan_descriptor(plan) as descriptor:
        command = [str(executable_path), "perf", f"/proc/self/fd/{descriptor}"]
        with (
            subprocess.Popen(command, pass_fds=[descriptor], process_group=0) as process,
            forward_signals(request_end(process)),
        ):
            return process.wait()


def _check_transport(transport: str, known: tuple[str, ...], options: Options, output: Output) -> str:
    """Return ``transport`` if it is one of ``known`` and supports ``options``."""
    if transport not in known:
        raise ScenarioError([("--transport", unknown_name(transport, known, "transport"))])
    if transport in ("tcp", "tls"):
        route = (
            "the window of TCP is a setting of the route (ip route change ... initcwnd N), which a lab sets"
        )
        for key, is_set, alternative in (
            ("--initial-window", options.initial_window is not None, route),
            ("--mtu", options.mtu is not None, "the option for TCP is --mss"),
            ("--qlog", output.qlog is not None, "the options for TCP are --csv and --json-stream"),
            ("--ecn", options.ecn, "the kernel's TCP requests ECN with sysctl net.ipv4.tcp_ecn=1"),
        ):
            if is_set:
                raise ScenarioError([(key, f"requires QUIC; {alternative}")])
    if transport == "quic":
        for key, value in (("--mss", options.mss), ("--buffer", options.buffer)):
            if value is not None:
                raise ScenarioError([(key, f"requires TCP, found --transport {transport}")])
    return transport


def _tcp_plan(options: Options) -> PerfTcp:
    mss = None
    if options.mss is not None:
        text = options.mss if not options.mss.isdecimal() else f"{options.mss} B"
        mss = _parse("--mss", Size, text, "1400").bytes
        min_mss, max_mss = MSS_BYTES
        if not min_mss <= mss <= max_mss:
            raise ScenarioError([("--mss", f"found {mss}, expected {min_mss} to {max_mss} bytes")])
    buffer = None
    if options.buffer is not None:
        buffer = _parse("--buffer", Size, options.buffer, "4 MB").bytes
        if not 4096 <= buffer <= 1 << 30:
            raise ScenarioError([("--buffer", f"found {buffer} bytes, expected 4096 B to 1 GiB")])
    return {"mss_bytes": mss, "buffer_bytes": buffer, "idle_timeout_ns": IDLE_TIMEOUT_NS}


def _endpoint_plan(options: Options, output: Output, transport: str) -> MeasuredSide:
    mtu = MTU_BYTES
    if options.mtu is not None:
        text = options.mtu if not options.mtu.isdecimal() else f"{options.mtu} B"
        mtu = _parse("--mtu", Size, text, "1452").bytes
        if not 1200 <= mtu <= LARGEST_MTU_BYTES:
            raise ScenarioError(
                [("--mtu", f"found {mtu}, expected 1200 (RFC 9000 section 14) to {LARGEST_MTU_BYTES} bytes")],
                "perf",
            )
    quic = defaults(mtu, 6, (WINDOW_BYTES, WINDOW_BYTES))
    quic |= {"crypto": "rustls", "ecn": options.ecn, "idle_timeout_ns": IDLE_TIMEOUT_NS}
    if options.initial_window is not None:
        window_text: str | int = options.initial_window
        if options.initial_window.isdecimal():
            window_text = f"{options.initial_window} packets"
        window: WindowSize = _parse("--initial-window", WindowSize, window_text, "10")
        quic["initial_window_bytes"] = window.in_bytes(mtu)
    interval = parse_time("--interval", output.interval, zero=True)
    csv: Csv | None = None
    if output.csv is not None:
        csv_interval = parse_time("--csv-interval", output.csv_interval)
        csv = {"file": str(output.csv), "interval_ns": csv_interval.ns}
    frames: FramesPlan | None = None
    if output.frames is not None:
        frames_interval = parse_time("--json-stream-interval", output.frames_interval)
        frames = {"file": str(output.frames), "interval_ns": frames_interval.ns}
    return {
        "transport": transport,
        "quic": quic,
        "congestion": {"name": options.congestion, "options": options.options},
        "tcp": _tcp_plan(options),
        "report": {
            "interval_ns": interval.ns or None,
            "csv": csv,
            "json": output.json,
            "frames": frames,
            "colour": output.colour,
            "qlog": None if output.qlog is None else str(output.qlog),
        },
    }


def _parse(key: str, unit: Any, text: object, example: str) -> Any:
    try:
        return unit.parse(text)
    except UnitError as error:
        problem = str(error).partition("; did you mean")[0]
        raise ScenarioError([(key, f"{problem}; for example {example}")]) from None


def parse_time(key: str, text: str, *, zero: bool = False) -> Duration:
    """Return the time of option ``key``.

    Args:
        key: the option.
        text: its value.
        zero: accept 0.

    Raises:
        ScenarioError: the value is not a time above 0.
    """
    if zero and text == "0":
        return Duration(0)
    duration: Duration = _parse(key, Duration, text, "10s")
    if duration.ns <= 0 and not zero:
        raise ScenarioError([(key, f'found "{text}", expected a time above 0')])
    return duration


def _parse_port(text: str, key: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:6]) <= 65_535:
        raise ScenarioError([(key, f'found port "{text}", expected 1 to 65535')])
    return int(text)


def parse_host(text: str, key: str = "HOST") -> tuple[str, int]:
    """Return host and port of ``HOST``, ``HOST:PORT``, ``[ADDRESS]:PORT`` or an IPv6 address alone.

    Raises:
        ScenarioError: the text has another form.
    """
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ScenarioError([(key, f'found "{text}", expected [ADDRESS]:PORT')])
        return host, _parse_port(rest[1:], key) if rest else PORT
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _parse_port(port, key)
    return text, PORT


def listen_address(text: str) -> str:
    """Return ``ADDRESS:PORT`` for ``:PORT``, ``PORT``, ``ADDRESS`` or the complete form.

    Raises:
        ScenarioError: the text has another form.
    """
    if text.isdecimal():
        return f"[::]:{_parse_listen_port(text)}"
    if text.startswith(":") and text[1:].isdecimal():
        return f"[::]:{_parse_listen_port(text[1:])}"
    host, port = parse_host(text, "--listen") if not text.endswith(":0") else (text[:-2].strip("[]"), 0)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_listen_port(text: str) -> int:
    return 0 if text == "0" else _parse_port(text, "--listen")
