"""Whole scenario as typed tables with units (``bentpipe schema`` prints it as JSON schema).

Validation runs nothing and opens no other file. The plan computes derived values (queues in bytes, traces, the graph).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    Field,
    PlainValidator,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import (
    Congestion,
    DurationText,
    Name,
    PositiveText,
    RateText,
    SizeText,
    Table,
    as_table,
    construct_table,
    require_one,
)
from bentpipe.scenario.dtn.nodes import Bundles, Dtn
from bentpipe.scenario.errors import ScenarioError, from_pydantic, unknown_name
from bentpipe.scenario.flow import perf_string as loads
from bentpipe.scenario.flow.datagrams import Call, ConstantBitRate, OnOff, Udp
from bentpipe.scenario.flow.page_load import PageLoad
from bentpipe.scenario.flow.quic import Quic
from bentpipe.scenario.flow.tcp import Tcp
from bentpipe.scenario.network.orbit import Orbit
from bentpipe.scenario.network.topology import Access, Graph, Path
from bentpipe.scenario.quantities import Duration, Size
from bentpipe.scenario.web_page import Page

__all__ = [
    "Congestion", "DrawnSize", "Flow", "Limits", "Load", "OnOff", "Pareto", "Poisson", "Quic", "Scenario", "Tcp",
    "Trace", "Udp", "expand_seeds", "validate",
]  # fmt: skip


class Pareto(Table):
    """Pareto distribution of sizes, truncated between ``min`` and ``max``."""

    shape: Annotated[StrictFloat | StrictInt, Field(gt=0, le=100)]
    min: SizeText
    max: SizeText


class DrawnSize(Table):
    """Size of a short flow: one of the keys. A bare size is ``fixed``."""

    exponential: SizeText | None = None
    pareto: Pareto | None = None
    fixed: SizeText | None = None

    @model_validator(mode="after")
    def _one(self) -> DrawnSize:
        require_one(self, ("fixed", "exponential", "pareto"), "a size")
        return self


class Poisson(Table):
    """Short flows with Poisson arrivals at a mean ``interval``, each on its own connection."""

    interval: PositiveText
    size: Annotated[DrawnSize, as_table("fixed")]
    time: PositiveText | None = None


class Load(PageLoad):
    """Load of a flow: one of the keys. A bare text is ``pico_perf`` (see ``bentpipe.scenario.flow.perf_string``).

    ``page`` has further keys beside it.
    """

    pico_perf: StrictStr | None = None
    time: PositiveText | None = None
    bytes: SizeText | None = None
    poisson: Poisson | None = None
    on_off: OnOff | None = None
    call: Annotated[Call, as_table("codec")] | None = None
    cbr: Annotated[ConstantBitRate, as_table("rate")] | None = None
    bundles: Annotated[Bundles, as_table("layer")] | None = None
    streams: Annotated[StrictInt, Field(ge=1, le=loads.MOST_STREAMS)] = 1

    @model_validator(mode="after")
    def _one(self) -> Load:
        require_one(
            self,
            ("pico_perf", "time", "bytes", "poisson", "on_off", "call", "cbr", "bundles", "page"),
            "a load",
        )
        if self.streams != 1 and self.time is None and self.bytes is None:
            raise ValueError("found streams, which requires time or bytes")
        if self.pico_perf is not None:
            loads.parse(self.pico_perf)
        if self.bytes is not None and self.bytes.bytes == 0:
            raise ValueError('found bytes = 0, expected a size above 0 such as "5.3 MB"')
        return self


MOST_FLOWS = 10_000
"""Largest number of flows of a group."""

UNCONTROLLED = construct_table(Congestion, name="none")
"""Placeholder for the controller of UDP, which has none."""


@lru_cache(maxsize=16)
def _member_names(name: str, count: int) -> tuple[str, ...]:
    """Return the names of the flows of a group. Every cell of a sweep needs them, hence the cache."""
    return tuple(f"{name}-{number}" for number in range(1, count + 1))


class Flow(Table):
    """Client, server and the load between them; with ``count`` a group of flows."""

    name: Name
    count: Annotated[StrictInt, Field(ge=1, le=MOST_FLOWS)] | None = None
    time_series: Literal["group", "per-flow"] | None = None
    user: Name | None = None
    admission_rate: RateText | None = None
    transport: Literal["quic", "tcp", "udp"] = "quic"
    congestion: Annotated[Congestion, as_table("name")] = UNCONTROLLED
    server_congestion: Annotated[Congestion, as_table("name")] | None = None
    direction: Literal["up", "down", "both"] | None = None
    load: Annotated[Load, as_table("pico_perf", '{ bytes = "5.3 MB" }')] | None = None
    start: DurationText = Duration(0)
    start_jitter: DurationText | None = None
    access: Access | None = None
    client: Name | None = None
    server: Name | None = None
    quic: Quic = construct_table(Quic)
    tcp: Tcp = construct_table(Tcp)
    udp: Udp = construct_table(Udp)

    @property
    def names(self) -> list[str]:
        """Names of the flow, or of the flows of a group."""
        return [self.name] if self.count is None else list(_member_names(self.name, self.count))

    @model_validator(mode="after")
    def _check_group(self) -> Flow:
        if self.time_series is not None and self.count is None:
            raise ValueError(
                f'found time_series = "{self.time_series}" without a count, expected both or neither'
            )
        return self

    @property
    def datagrams(self) -> bool:
        """Whether the flow sends datagrams. An on-off source does over UDP, or with a packet size."""
        load = self.load
        if load is None:
            return False
        if load.on_off is not None:
            return self.transport == "udp" or load.on_off.packet is not None
        return load.call is not None or load.cbr is not None

    @model_validator(mode="after")
    def _check_controller(self) -> Flow:
        """Check that every flow except over UDP has a controller. Raises PydanticCustomError."""
        given = [key for key in ("congestion", "server_congestion") if key in self.model_fields_set]
        if self.transport == "udp":
            if given:
                error = 'found a controller, expected none: transport = "udp" has no congestion control'
                raise PydanticCustomError("scenario", "{error}", {"error": error, "at": given[0]})
        elif "congestion" not in given:
            error = 'missing, expected a controller such as "cubic"'
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "congestion"})
        return self

    @model_validator(mode="after")
    def _check_datagrams(self) -> Flow:
        """Check that the transport of datagrams has datagrams. Raises ValueError."""
        source = self.load.on_off if self.load is not None else None
        has_bundles = self.load is not None and self.load.bundles is not None
        if self.transport == "udp" and not self.datagrams and not has_bundles:
            raise ValueError(
                'found transport = "udp" without a load of datagrams; expected one such as { call = "g711" }, '
                '{ cbr = "2 Mbit/s" } or { on_off = ... }'
            )
        if self.transport == "tcp" and self.datagrams:
            raise ValueError(
                'found a load of datagrams with transport = "tcp", which has none; expected "udp" or "quic"'
            )
        if self.admission_rate is not None and not self.datagrams:
            error = 'found an admission rate without a load of calls; expected load = { call = "g711" }'
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "admission_rate"})
        if self.datagrams and source is not None and source.rate is None:
            error = "missing, expected a rate: a source of datagrams sends at its rate"
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "load.on_off.rate"})
        return self

    @model_validator(mode="after")
    def _check_transport(self) -> Flow:
        if self.load is not None and self.load.page is not None:
            self._check_http(self.load)
            return self
        for transport in ("quic", "tcp", "udp"):
            if transport != self.transport and getattr(self, transport).model_fields_set:
                raise ValueError(
                    f'found {transport} options in a flow with transport = "{self.transport}", expected none '
                    f"(page loads take both); put options of several flows into [{transport}]"
                )
        if self.transport == "tcp" and self.load is not None and self.load.pico_perf is not None:
            streams = loads.parse(self.load.pico_perf)
            waiting = next((stream for stream in streams if stream.after is not None), None)
            if waiting is not None:
                raise ValueError(
                    f"load: stream {waiting.stream_id} waits for stream {waiting.after}, but over TCP each stream "
                    'is a connection of its own; expected "-" as its previous stream, or transport = "quic"'
                )
        return self

    def _check_http(self, load: Load) -> None:
        """Check that the version of HTTP uses the transport of the flow, if given. Raises ValueError."""
        if self.direction is not None:
            raise ValueError(
                f'found direction = "{self.direction}" with a page, whose requests determine the direction; '
                "expected none"
            )
        if "transport" not in self.model_fields_set or load.http is None:
            return
        required = "tcp" if load.http in ("1.1", "2") else "quic"
        if required != self.transport:
            raise ValueError(
                f'found http = "{load.http}" with transport = "{self.transport}", expected no transport: '
                "http determines it"
            )

    @model_validator(mode="after")
    def _check_direction(self) -> Flow:
        if self.load is None:
            return self
        if self.load.bundles is not None and self.direction is not None:
            raise ValueError(
                f'found direction = "{self.direction}" with bundles, which both nodes send; expected no direction'
            )
        if self.load.pico_perf is not None and self.direction is not None:
            streams = loads.parse(self.load.pico_perf)
            if self.direction != "up" or not any(stream.sends_up for stream in streams):
                raise ValueError(
                    f'found direction = "{self.direction}" with a pico-perf load, which determines the direction; '
                    'expected no direction, or a load such as { time = "60 s" }'
                )
        is_stream = self.load.on_off is not None and not self.datagrams
        if self.direction == "both" and (self.load.poisson is not None or is_stream):
            raise ValueError(
                'found direction = "both", expected "up" or "down" for this load; declare two flows'
            )
        return self


class Trace(Table):
    """Traces of each packet. They are large files, one per flow and side; ``packets`` and ``packet_steps`` are tables.

    ``tcp`` is a small table of the counters of TCP.
    """

    qlog: StrictBool = False
    pcapng: StrictBool = False
    packets: StrictBool = False
    packet_steps: StrictBool = False
    tcp: StrictBool = False


class Limits(Table):
    """Limits at which the engine ends a run: its events, and the memory by which its process grows."""

    events: Annotated[StrictInt, Field(ge=1)] = 1_000_000_000
    memory: SizeText = Size(4_000_000_000)


MOST_SEEDS = 100_000
"""Largest number of seeds."""


def _parse_seeds(found: object) -> tuple[int, ...]:
    expected = f"a number of seeds from 1 to {MOST_SEEDS}, or a list of different whole numbers"
    if isinstance(found, int) and not isinstance(found, bool):
        if not 1 <= found <= MOST_SEEDS:
            raise ValueError(f"found {found}, expected {expected}")
        return tuple(range(1, found + 1))
    if isinstance(found, (list, tuple)) and found:
        seeds = [
            seed
            for seed in found
            if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63
        ]
        if len(seeds) == len(found) == len(set(seeds)):
            return tuple(seeds)
    shown = f'"{found}"' if isinstance(found, str) else found
    raise ValueError(f"found {shown}, expected {expected}")


def expand_seeds(seeds: int | None) -> tuple[int, ...] | None:
    """Return the seeds 1 to ``seeds``; None keeps the seeds of the scenario. Raises ScenarioError."""
    try:
        return None if seeds is None else _parse_seeds(seeds)
    except ValueError as error:
        raise ScenarioError([("seeds", str(error))]) from None


_SEEDS_SCHEMA = {
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "array", "items": {"type": "integer"}}]
}
Seeds = Annotated[tuple[int, ...], PlainValidator(_parse_seeds), WithJsonSchema(_SEEDS_SCHEMA)]


class Scenario(Table):
    """Whole scenario: a path or a graph, the flows over it, the sweep and the seeds."""

    hints: ClassVar[Mapping[str, str]] = {
        "flows": 'no key "flows"; did you mean "[[flow]]"?',
        "proxy": 'no key "proxy"; did you mean "[[path.proxy]]"?',
        "segment": 'no key "segment"; did you mean "[[path.segment]]"?',
    }
    title: StrictStr = ""
    duration: PositiveText
    seeds: Seeds = (1,)
    sample_interval: PositiveText = Duration(100_000_000)
    path: Path | None = None
    graph: Graph | None = None
    orbit: Orbit | None = None
    dtn: Dtn | None = None
    flow: list[Flow] = Field(min_length=1)
    quic: Quic = construct_table(Quic)
    tcp: Tcp = construct_table(Tcp)
    udp: Udp = construct_table(Udp)
    page: dict[Name, Page] = Field(default_factory=dict)
    trace: Trace = construct_table(Trace)
    limits: Limits = Field(default_factory=Limits)
    sweep: dict[str, list[Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_tables(self) -> Scenario:
        if self.path is None and self.graph is None:
            raise ValueError("path: missing, expected [[path.segment]], path.preset or [graph]")
        if self.path is not None and self.graph is not None:
            raise ValueError("graph: cannot be combined with [path], expected one of them")
        links = (self.path.segment if self.path else []) + list(self.graph.link if self.graph else [])
        link_root = "path" if self.path else "graph"
        for kind, root, names in (
            ("flow", "flow", [flow.name for flow in self.flow]),
            ("segment" if self.path else "link", link_root, [link.name for link in links]),
        ):
            duplicate = next((name for name in names if names.count(name) > 1), None)
            if duplicate is not None:
                error = f'duplicate {kind} name "{duplicate}", expected unique names'
                raise PydanticCustomError(
                    "scenario", "{error}", {"error": error, "at": f"{root}.{duplicate}.name"}
                )
        for flow in self.flow:
            _check_ends(flow, self.graph)
        _check_group_names(self.flow)
        _check_bundles(self)
        return self


def _check_ends(flow: Flow, graph: Graph | None) -> None:
    """Check client and server of a flow. Raises ValueError."""
    if graph is None:
        if flow.client is not None or flow.server is not None:
            raise ValueError(f"flow.{flow.name}: client and server are for a graph; a path has its two ends")
        return
    hosts = [node.name for node in graph.node if node.kind == "host"]
    for key, end in (("client", flow.client), ("server", flow.server)):
        if end is None:
            raise ValueError(
                f"flow.{flow.name}.{key}: missing, expected a host of the graph: {', '.join(hosts)}"
            )
        if end not in hosts:
            raise ValueError(f"flow.{flow.name}.{key}: {unknown_name(end, hosts, 'host')}")
    if flow.client == flow.server:
        raise ValueError(f"flow.{flow.name}: client and server are both {flow.client}, expected two hosts")
    if flow.access is not None:
        raise ValueError(f"flow.{flow.name}.access: requires a path; in a graph, give the host its own link")


def _check_bundles(scenario: Scenario) -> None:
    """Check the transports of bundle layers and the names of bundle nodes. Raises ValueError."""
    bundle_flows = [
        (flow, load.bundles) for flow in scenario.flow if (load := flow.load) is not None and load.bundles
    ]
    ends = sorted(
        {end for flow, _ in bundle_flows for end in (flow.client or "client", flow.server or "server")}
    )
    topology = scenario.path or scenario.graph
    follows_plan = topology is not None and topology.contacts is not None and topology.contacts.plan == "dtn"
    if scenario.dtn is not None and not bundle_flows:
        if follows_plan:  # a contact plan of links only, without bundle nodes
            return
        raise ValueError(
            'dtn: found no flow between bundle nodes, expected one with load = { bundles = "quiccl" }'
        )
    references: list[tuple[str, str | None]] = []
    for flow, bundles in bundle_flows:
        key = f"flow.{flow.name}.load.bundles"
        transport = bundles.transport
        if flow.transport != transport:
            found = f'found "{bundles.layer}" with transport = "{flow.transport}"'
            raise ValueError(f'{key}.layer: {found}, expected transport = "{transport}"')
        if flow.count is not None:
            raise ValueError(f"flow.{flow.name}.count: found one, expected none between bundle nodes")
        references += [(f"{key}.to", bundles.to), (f"{key}.monitor", bundles.monitor)]
    references += [] if scenario.dtn is None else scenario.dtn.node_references()
    for key_of_name, name in references:
        if name is not None and name not in ends:
            raise ValueError(f"{key_of_name}: {unknown_name(name, ends, 'bundle node')}")


def _check_group_names(flows: list[Flow]) -> None:
    """Check that no flow has the name of a member of a group. Raises PydanticCustomError."""
    singles = {flow.name for flow in flows}
    owners: dict[str, str] = {}
    for flow in flows:
        for name in flow.names if flow.count is not None else ():
            other = name if name in singles else owners.get(name)
            if other is not None:
                error = f'"{name}" is also the name of one of the {flow.count} flows of "{flow.name}"'
                at = f"flow.{other}.name"
                raise PydanticCustomError(
                    "scenario", "{error}", {"error": f"{error}; expected another", "at": at}
                )
            owners[name] = flow.name


def validate(data: Mapping[str, Any], source: str = "scenario") -> Scenario:
    """Return the scenario of ``data``, a parsed TOML document. Raises ScenarioError."""
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise from_pydantic(error, data, source) from None
