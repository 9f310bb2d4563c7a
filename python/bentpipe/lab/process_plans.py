"""Types of the plans that ``bentpipe-rt`` reads, with its key names, and their conversion to JSON.

A key is ``NotRequired`` if the executable has a default; a test compares both. Only mypy uses the types.
``plan_validation`` validates the plan of a lab that a user wrote.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.spec.run_spec import (
        ClaSpec,
        CongestionSpec,
        ContactStartSpec,
        DtnSpec,
        PageSpec,
        ProxySpec,
        QuicSpec,
        RunSpec,
        StreamSpec,
        TcpSpec,
        TopologySpec,
    )

__all__ = [
    "BundleNodePlan",
    "CalleePlan",
    "CallerPlan",
    "CertificateFiles",
    "Content",
    "Csv",
    "Flow",
    "FramesPlan",
    "IssuePlan",
    "LabPlan",
    "LabSpec",
    "Limits",
    "MeasuredSide",
    "NeighbourPlan",
    "NeighbourTls",
    "PerHost",
    "PerfClientPlan",
    "PerfServerPlan",
    "PerfTcp",
    "Process",
    "Record",
    "ReportPlan",
    "RequestedController",
    "ServePlan",
    "ServeTcp",
    "TlsPlan",
    "Wakes",
    "WirePlan",
    "to_json",
]  # fmt: skip

T = TypeVar("T")


# --- `lab`: a path with its PEPs, and processes at its hosts (crates/rt/src/lab/plan.rs, crates/emu) ------------


GROUND = "ground"
"""Name of the segment behind a proxy that was inserted at the end of a path."""


class LabSpec(TypedDict):
    """Path that the emulator emulates."""

    graph: TopologySpec
    client: str
    server: str
    hosts: NotRequired[Sequence[str]]
    seed: int
    mtu: int
    users: NotRequired[Sequence[tuple[int, int]]]


class Process(TypedDict):
    """Command at a host."""

    name: str
    command: Sequence[str]
    node: NotRequired[str | None]
    start_ns: NotRequired[int]
    listen_port: NotRequired[int | None]
    output: NotRequired[str | None]
    errors: NotRequired[str | None]


class PerHost(TypedDict, Generic[T]):
    """Values of the hosts: client, server, others by name."""

    client: NotRequired[T]
    server: NotRequired[T]
    hosts: NotRequired[Mapping[str, T]]


class Record(TypedDict):
    """Recording of counters."""

    directory: str
    interval_ns: int


class Wakes(TypedDict):
    """Cost of waking up the thread of a link direction, microseconds."""

    arrival: float
    long_sleep: float
    short_sleep: float


class LabPlan(TypedDict):
    """Lab."""

    lab: LabSpec
    proxies: NotRequired[Sequence[ProxySpec]]
    background: NotRequired[RunSpec | None]
    server_namespace: NotRequired[bool]
    has_uplink: NotRequired[bool]
    forwards_localhost: NotRequired[bool]
    check: NotRequired[bool]
    calibrations: NotRequired[Sequence[Sequence[Wakes]]]
    services: NotRequired[Sequence[Process]]
    commands: Sequence[Process]
    tcp: NotRequired[PerHost[TcpSpec | None]]
    settings: NotRequired[PerHost[Mapping[str, str]]]
    initial_windows: NotRequired[PerHost[int | None]]
    record: NotRequired[Record | None]
    has_status_display: NotRequired[bool]
    control: NotRequired[str | None]
    result: NotRequired[str | None]


# --- `perf`: one endpoint of a measurement over real sockets (crates/programs/src/perf/plan.rs, media/plan.rs) ---


class CertificateFiles(TypedDict):
    """PEM files of a certificate chain and its key."""

    certificate: str
    key: str


class Limits(TypedDict):
    """Limits of a server."""

    connections: int
    handshakes: int
    streams: int


class PerfTcp(TypedDict):
    """Options of the kernel's TCP."""

    mss_bytes: int | None
    buffer_bytes: int | None
    idle_timeout_ns: int


class RequestedController(TypedDict):
    """Controller that a client requests from its server."""

    name: str
    options: NotRequired[Mapping[str, Any]]


class FramesPlan(TypedDict):
    """JSON stream of a measurement."""

    file: str
    interval_ns: int


class Csv(TypedDict):
    """CSV file of a measurement."""

    file: str
    interval_ns: int


class ReportPlan(TypedDict):
    """Output of a measurement."""

    interval_ns: int | None
    csv: Csv | None
    json: bool
    colour: NotRequired[bool]
    frames: NotRequired[FramesPlan | None]
    qlog: NotRequired[str | None]


class MeasuredSide(TypedDict):
    """Keys common to both endpoints of a measurement."""

    transport: str
    quic: QuicSpec
    tcp: PerfTcp
    congestion: CongestionSpec
    report: ReportPlan


class PerfServerPlan(MeasuredSide):
    """Server of a measurement."""

    role: Literal["server"]
    listen: str
    once: bool
    certificate: CertificateFiles | None
    limits: Limits
    controller_policy: NotRequired[str]


class PerfClientPlan(MeasuredSide):
    """Client of a measurement."""

    role: Literal["client"]
    host: str
    port: int
    load: Sequence[StreamSpec]
    alpn: str
    server_verification: str | Mapping[str, str]
    timeout_ns: int
    negotiates_controller: NotRequired[bool]
    requested_controller: NotRequired[RequestedController | None]


class CalleePlan(TypedDict):
    """Server of calls."""

    role: Literal["callee"]
    listen: str
    once: bool
    calls: int
    media: NotRequired[int | None]


class Flow(TypedDict):
    """Call of a run."""

    name: str
    since_ns: int


class CallerPlan(TypedDict):
    """Client of calls."""

    role: Literal["caller"]
    host: str
    port: int
    count: int
    load: Mapping[str, Any]
    seed: int
    timeout_ns: int
    flow: NotRequired[Flow | None]


# --- `serve`: pages (crates/programs/src/http/plan.rs) -----------


class Content(TypedDict, total=False):
    """Content of a page server."""

    page: PageSpec | None
    authorities: Mapping[str, str]
    root: str | None


class ServeTcp(TypedDict, total=False):
    """Options of the kernel's TCP."""

    congestion: str | None
    mss_bytes: int | None


class TlsPlan(TypedDict, total=False):
    """Options of TLS."""

    resumption: bool
    early_data: bool


class ServePlan(TypedDict):
    """A page server."""

    listen: Sequence[str]
    certificate: NotRequired[CertificateFiles | None]
    certificate_bytes: NotRequired[int | None]
    content: Content
    protocols: NotRequired[Sequence[str]]
    alt_svc: NotRequired[bool]
    quic: QuicSpec
    congestion: CongestionSpec
    tcp: NotRequired[ServeTcp]
    tls: NotRequired[TlsPlan]
    limits: NotRequired[Mapping[str, int]]
    access_log: NotRequired[str | None]


# --- `dtn`: a bundle node (crates/programs/src/dtn/plan.rs) -----------


class NeighbourTls(TypedDict, total=False):
    """TLS with a neighbour."""

    certificate: CertificateFiles | None
    fingerprint: str | None
    authority: str | None
    pin: str | None


class NeighbourPlan(TypedDict):
    """Neighbour of a bundle node, and the convergence layer to it."""

    neighbour: str
    cla: ClaSpec
    listen: str
    peer: str | None
    can_send: bool
    opens_with_contact: bool
    closes_after_contact: bool
    on_contact_start: NotRequired[ContactStartSpec]
    quic: QuicSpec
    congestion: CongestionSpec
    idle_timeout_ns: int | None
    adapts_to_plan: NotRequired[bool]
    tls: NotRequired[NeighbourTls]


class BundleNodePlan(TypedDict):
    """A bundle node."""

    name: str
    dtn: DtnSpec
    neighbours: Sequence[NeighbourPlan]
    time_zero_file: NotRequired[str | None]
    duration_ns: NotRequired[int | None]
    store: NotRequired[str | None]
    file: NotRequired[str | None]
    files: NotRequired[str | None]
    keys: NotRequired[dict[str, str]]


class IssuePlan(TypedDict):
    """Certificate of a node (`issue`, crates/programs/src/dtn/certificates.rs)."""

    eid: str
    name: str
    folder: str
    days: int
    now_unix_s: int


WirePlan = (
    LabPlan
    | PerfServerPlan
    | PerfClientPlan
    | CalleePlan
    | CallerPlan
    | ServePlan
    | BundleNodePlan
    | IssuePlan
)


def to_json(plan: WirePlan, indent: int | None = None) -> bytes:
    """Return ``plan`` in the JSON that ``bentpipe-rt`` reads."""
    return json.dumps(plan, indent=indent).encode()
