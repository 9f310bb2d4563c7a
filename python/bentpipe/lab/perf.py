"""``bentpipe perf``: throughput between two machines over real sockets: QUIC with the controllers of the
simulation, and the kernel's TCP with its own, with TLS and without.

A side is planned here and run by the executable ``bentpipe-rt`` (crates/rt, crates/programs).
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.lab.executable import executable
from bentpipe.lab.process import handed
from bentpipe.plan.flow.loads import senders, stream_specs
from bentpipe.plan.flow.quic import MTU_BYTES, defaults
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.flow import perf_string as loads
from bentpipe.scenario.flow.quic import LARGEST_MTU_BYTES
from bentpipe.scenario.quantities import Duration, Size, UnitError, WindowSize

if TYPE_CHECKING:
    from bentpipe.lab.process_plans import (
        AnswerPlan,
        CertificateFiles,
        Csv,
        FramesPlan,
        MeasuredSide,
        PerfClientPlan,
        PerfServerPlan,
        PerfTcp,
    )

__all__ = [
    "ALPN", "CHOICES", "TIMEOUT", "TRANSPORTS", "Client", "Options", "Output", "Server", "asked", "client_plan",
    "host_and_port", "listening", "load", "parsed_time", "run", "server_plan",
]  # fmt: skip

PORT = 4433
"""Where the server listens, and the client looks, if nothing else is said."""

ALPN = ("perf", "pico-perf")
"""Application protocols: of draft-banks-quic-performance, and of pico-perf, whose streams have the same form."""

TRANSPORTS = ("quic", "tcp", "tls")
"""What carries the streams; a server also has all of them on one port number."""

CHOICES = ("no", "named", "any")
"""Controllers of a server that its clients may ask for: none, those that react to congestion, all with options."""

IDLE_TIMEOUT_NS = (
    30_000_000_000  # RFC 9000 section 10.1 leaves it open; longer than any outage a load survives
)

MSS_BYTES = (88, 32_767)
"""What Linux takes for TCP_MAXSEG (TCP_MIN_MSS and MAX_TCP_WINDOW of net/tcp.h)."""

WINDOW_BYTES = 64 << 20
"""Flow control and send buffer: 600 ms of a geostationary path at 890 Mbit/s."""

TIMEOUT = Duration.parse("10 s")
"""For the handshake: its packets are sent again after 1, 3 and 7 s (RFC 9002 section 6.2.4)."""

Send = Literal["up", "down", "both"]


@dataclass(frozen=True, slots=True)
class Options:
    """Of the connections of one side: what it sends, and how.

    Attributes:
        congestion: the controller of what this side sends; a name of ``bentpipe presets``' catalogue.
        options: the controller's own options.
        initial_window: in packets or bytes; none: 10 packets, at most 14720 B (RFC 9002 section 7.2).
        mtu: UDP payload of a full packet.
        ecn: send ECT(0).
        mss: bytes of data in a full segment of TCP; none: what the way allows.
        buffer: socket buffers of TCP; none: the kernel fits them to what is in flight.
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
    """What is shown while it runs.

    Attributes:
        interval: between two lines on the screen; 0: none.
        csv: a file for lines.
        csv_interval: between two of them.
        json: the result as JSON, and nothing else.
        frames: a file for measurements that programs read (docs/manual/perf.md).
        frames_interval: between two samples of a connection in it.
        colour: colours on the screen.
        qlog: a directory for qlog files, one a connection of QUIC.
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
    """The side that answers.

    Attributes:
        listen: address and port.
        once: end after one connection; of TCP, after all of one client.
        certificate: PEM file of the chain, with ``key``; none: a self-signed one for this run.
        key: PEM file of its key.
        connections: at once; more are refused.
        handshakes: under way, before clients have to prove their address (Retry).
        streams: of one connection over its life.
        transport: what it speaks: one of `TRANSPORTS`, or ``all``.
        choose: the controllers that clients may ask for: one of `CHOICES`.
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
    """The side that asks.

    Attributes:
        host: name or address of the server, maybe with a port.
        streams: what is sent.
        alpn: application protocol.
        insecure: take any certificate.
        fingerprint: SHA-256 of the certificate to take.
        timeout: for the handshake.
        transport: one of `TRANSPORTS`.
        asks: tell the server this side's controller, and ask for its.
        wish: name and options of the controller that the server is to send with; none: as it likes.
    """

    host: str
    streams: tuple[loads.Stream, ...]
    alpn: str = "perf"
    insecure: bool = False
    fingerprint: str | None = None
    timeout: str | None = None
    transport: str = "quic"
    asks: bool = False
    wish: tuple[str, dict[str, Any]] | None = None


def load(
    text: str | None = None,
    *,
    time: str | None = None,
    size: str | None = None,
    send: Send = "up",
    streams: int = 1,
) -> tuple[loads.Stream, ...]:
    """The streams of a load: of pico-perf's words, or of a time or a number of bytes for each stream.

    Args:
        text: pico-perf's scenario string.
        time: how long.
        size: how much.
        send: which way; both: as many streams each way, at the same time.
        streams: how many, each way.

    Raises:
        ScenarioError: what was expected.
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
    ways: tuple[Literal["up", "down"], ...] = ("up", "down") if send == "both" else (send,)
    amounts: list[loads.DataAmount | loads.TimeAmount] = []
    for way in ways:
        if size is not None:
            count = _parsed("--bytes", Size, size, "100 MB").bytes
            if count < 1:
                raise ScenarioError([("--bytes", f'found "{size}", expected bytes to send')])
            up = loads.DataAmount(count, 0)
            amounts.append(up if way == "up" else loads.DataAmount(loads.HEADER_BYTES, count))
        else:
            amounts.append(loads.TimeAmount(parsed_time("--time", time or "10 s"), way))
    rows = [amount for _ in range(streams) for amount in amounts]
    return tuple(loads.Stream(4 * place, None, amount) for place, amount in enumerate(rows))


def asked(
    streams: tuple[loads.Stream, ...], options: Options
) -> tuple[tuple[str, dict[str, Any]] | None, Options]:
    """Who of the two sides is to send ``streams`` with the controller of ``options``: what the server is asked for,
    and the options of a client, which has its own controller where it sends nothing."""
    sides = senders({"kind": "perf", "streams": stream_specs(streams)})
    wish = (options.congestion, options.options) if "server" in sides else None
    return wish, options if "client" in sides else replace(options, congestion="cubic", options={})


def server_plan(server: Server, options: Options, report: Output) -> PerfServerPlan:
    """The plan of a server as ``bentpipe-rt`` reads it.

    Raises:
        ScenarioError: which option is wrong.
    """
    if (server.certificate is None) != (server.key is None):
        raise ScenarioError([("", "--certificate and --key go together")])
    if server.choose not in CHOICES:
        raise ScenarioError([("--choose", unknown_name(server.choose, CHOICES, "choice"))])
    files: CertificateFiles | None = None
    if server.certificate is not None:
        files = {"certificate": str(server.certificate), "key": str(server.key)}
    transport = _transport(server.transport, (*TRANSPORTS, "all"), options, report)
    return {
        "role": "server",
        "listen": listening(server.listen),
        "once": server.once,
        "certificate": files,
        "limits": {
            "connections": server.connections,
            "handshakes": server.handshakes,
            "streams": server.streams,
        },
        "choose": server.choose,
        **_side(options, report, transport),
    }


def client_plan(client: Client, options: Options, report: Output) -> PerfClientPlan:
    """The plan of a client as ``bentpipe-rt`` reads it.

    Raises:
        ScenarioError: which option is wrong.
    """
    host, port = host_and_port(client.host)
    if client.alpn not in ALPN:
        raise ScenarioError([("--alpn", unknown_name(client.alpn, ALPN, "protocol"))])
    if client.insecure and client.fingerprint is not None:
        raise ScenarioError([("", "--insecure and --fingerprint exclude each other")])
    trust: str | dict[str, str] = "insecure" if client.insecure else "private"
    if client.fingerprint is not None:
        trust = {"fingerprint": client.fingerprint}
    timeout = TIMEOUT if client.timeout is None else parsed_time("--timeout", client.timeout)
    transport = _transport(client.transport, TRANSPORTS, options, report)
    return {
        "role": "client",
        "host": host,
        "port": port,
        "load": stream_specs(client.streams),
        "alpn": client.alpn,
        "trust": trust,
        "timeout_ns": timeout.ns,
        "asks": client.asks,
        "wish": None if client.wish is None else {"name": client.wish[0], "options": client.wish[1]},
        **_side(options, report, transport),
    }


def run(plan: PerfServerPlan | PerfClientPlan | AnswerPlan) -> int:
    """Runs one side to its end; returns its exit status: 0 done, 1 failed, 2 bad input, 130 interrupted.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
    """
    program = executable()
    with handed(plan) as descriptor:
        words = [str(program), "perf", f"/proc/self/fd/{descriptor}"]
        with subprocess.Popen(words, pass_fds=[descriptor]) as process:
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    continue  # Ctrl-C ends the measurement, which prints what it has


def _transport(word: str, known: tuple[str, ...], options: Options, report: Output) -> str:
    """``word``, if it is one of ``known`` and ``options`` can be of it."""
    if word not in known:
        raise ScenarioError([("--transport", unknown_name(word, known, "transport"))])
    if word in ("tcp", "tls"):
        route = "that of TCP belongs to the route (ip route change ... initcwnd N), which a lab sets"
        for key, given, instead in (
            ("--initial-window", options.initial_window is not None, route),
            ("--mtu", options.mtu is not None, "TCP's is --mss"),
            ("--qlog", report.qlog is not None, "of TCP there are --csv and --frames"),
            ("--ecn", options.ecn, "the kernel's TCP asks for ECN by sysctl net.ipv4.tcp_ecn=1"),
        ):
            if given:
                raise ScenarioError([(key, f"is of QUIC alone; {instead}")])
    if word == "quic":
        for key, value in (("--mss", options.mss), ("--buffer", options.buffer)):
            if value is not None:
                raise ScenarioError([(key, f"is of TCP alone, found --transport {word}")])
    return word


def _tcp(options: Options) -> PerfTcp:
    mss = None
    if options.mss is not None:
        text = options.mss if not options.mss.isdecimal() else f"{options.mss} B"
        mss = _parsed("--mss", Size, text, "1400").bytes
        least, most = MSS_BYTES
        if not least <= mss <= most:
            raise ScenarioError([("--mss", f"found {mss}, expected {least} to {most} bytes")])
    size = None
    if options.buffer is not None:
        size = _parsed("--buffer", Size, options.buffer, "4 MB").bytes
        if not 4096 <= size <= 1 << 30:
            raise ScenarioError([("--buffer", f"found {size} bytes, expected 4096 B to 1 GiB")])
    return {"mss_bytes": mss, "buffer_bytes": size, "idle_timeout_ns": IDLE_TIMEOUT_NS}


def _side(options: Options, report: Output, transport: str) -> MeasuredSide:
    mtu = MTU_BYTES
    if options.mtu is not None:
        text = options.mtu if not options.mtu.isdecimal() else f"{options.mtu} B"
        mtu = _parsed("--mtu", Size, text, "1452").bytes
        if not 1200 <= mtu <= LARGEST_MTU_BYTES:
            raise ScenarioError(
                [("--mtu", f"found {mtu}, expected 1200 (RFC 9000 section 14) to {LARGEST_MTU_BYTES} bytes")],
                "perf",
            )
    quic = defaults(mtu, 6, (WINDOW_BYTES, WINDOW_BYTES))
    quic |= {"crypto": "rustls", "ecn": options.ecn, "idle_timeout_ns": IDLE_TIMEOUT_NS}
    if options.initial_window is not None:
        asked: str | int = options.initial_window
        if options.initial_window.isdecimal():
            asked = f"{options.initial_window} packets"
        found: WindowSize = _parsed("--initial-window", WindowSize, asked, "10")
        quic["initial_window_bytes"] = found.in_bytes(mtu)
    interval = parsed_time("--interval", report.interval, zero=True)
    csv: Csv | None = None
    if report.csv is not None:
        every = parsed_time("--csv-interval", report.csv_interval)
        csv = {"file": str(report.csv), "interval_ns": every.ns}
    frames: FramesPlan | None = None
    if report.frames is not None:
        often = parsed_time("--frames-interval", report.frames_interval)
        frames = {"file": str(report.frames), "interval_ns": often.ns}
    return {
        "transport": transport,
        "quic": quic,
        "congestion": {"name": options.congestion, "options": options.options},
        "tcp": _tcp(options),
        "report": {
            "interval_ns": interval.ns or None,
            "csv": csv,
            "json": report.json,
            "frames": frames,
            "colour": report.colour,
            "qlog": None if report.qlog is None else str(report.qlog),
        },
    }


def _parsed(key: str, unit: Any, text: object, example: str) -> Any:
    try:
        return unit.parse(text)
    except UnitError as error:
        said = str(error).partition("; did you mean")[0]
        raise ScenarioError([(key, f"{said}; for example {example}")]) from None


def parsed_time(key: str, text: str, *, zero: bool = False) -> Duration:
    """The time that option ``key`` says, above 0 unless it may be ``zero``. Raises ScenarioError."""
    if zero and text == "0":
        return Duration(0)
    found: Duration = _parsed(key, Duration, text, "10s")
    if found.ns <= 0 and not zero:
        raise ScenarioError([(key, f'found "{text}", expected a time above 0')])
    return found


def _port(text: str, key: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:6]) <= 65_535:
        raise ScenarioError([(key, f'found port "{text}", expected 1 to 65535')])
    return int(text)


def host_and_port(text: str, key: str = "HOST") -> tuple[str, int]:
    """Host and port of ``HOST``, ``HOST:PORT``, ``[ADDRESS]:PORT`` or an IPv6 address alone."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ScenarioError([(key, f'found "{text}", expected [ADDRESS]:PORT')])
        return host, _port(rest[1:], key) if rest else PORT
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _port(port, key)
    return text, PORT


def listening(text: str) -> str:
    """``ADDRESS:PORT``, with what is missing filled in: ``:PORT``, ``PORT``, ``ADDRESS``."""
    if text.isdecimal():
        return f"[::]:{_listen_port(text)}"
    if text.startswith(":") and text[1:].isdecimal():
        return f"[::]:{_listen_port(text[1:])}"
    host, port = host_and_port(text, "--listen") if not text.endswith(":0") else (text[:-2].strip("[]"), 0)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen_port(text: str) -> int:
    return 0 if text == "0" else _port(text, "--listen")
