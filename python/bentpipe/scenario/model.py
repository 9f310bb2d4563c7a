"""The scenario: what the TOML file may say, with units in types (``bentpipe schema`` prints it as JSON schema).

Reading a scenario runs nothing and opens no other file; what follows from it (queues in bytes,
traces, the graph) is worked out in the plan.
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
from bentpipe.scenario.flow.datagrams import Call, Live, OnOff, Udp
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
    """Pareto distribution of sizes, cut off at ``most``."""

    shape: Annotated[StrictFloat | StrictInt, Field(gt=0, le=100)]
    least: SizeText
    most: SizeText


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
    """Short flows that arrive at random, one every ``every`` on average, each on its own connection."""

    every: PositiveText
    size: Annotated[DrawnSize, as_table("fixed")]
    time: PositiveText | None = None


class Load(PageLoad):
    """What a flow sends: one of the keys. A bare text is ``pico_perf`` (see ``bentpipe.scenario.flow.perf_string``).

    ``page`` has keys of its own beside it.
    """

    pico_perf: StrictStr | None = None
    time: PositiveText | None = None
    bytes: SizeText | None = None
    poisson: Poisson | None = None
    on_off: OnOff | None = None
    call: Annotated[Call, as_table("codec")] | None = None
    live: Annotated[Live, as_table("rate")] | None = None
    bundles: Annotated[Bundles, as_table("layer")] | None = None
    streams: Annotated[StrictInt, Field(ge=1, le=loads.MOST_STREAMS)] = 1

    @model_validator(mode="after")
    def _one(self) -> Load:
        require_one(
            self,
            ("pico_perf", "time", "bytes", "poisson", "on_off", "call", "live", "bundles", "page"),
            "a load",
        )
        if self.streams != 1 and self.time is None and self.bytes is None:
            raise ValueError("found streams, which only goes with time or bytes")
        if self.pico_perf is not None:
            loads.parse(self.pico_perf)
        if self.bytes is not None and self.bytes.bytes == 0:
            raise ValueError('found bytes = 0, expected a size above 0 such as "5.3 MB"')
        return self


MOST_FLOWS = 10_000

UNCONTROLLED = construct_table(Congestion, name="none")
"""What stands in the place of a controller over UDP, which has none."""


@lru_cache(maxsize=16)
def _members(name: str, count: int) -> tuple[str, ...]:
    """Names of a group's flows: asked for often, by every cell of a sweep."""
    return tuple(f"{name}-{number}" for number in range(1, count + 1))


class Flow(Table):
    """A client, a server, and what they send each other; with ``count``, that many of them: a group."""

    name: Name
    count: Annotated[StrictInt, Field(ge=1, le=MOST_FLOWS)] | None = None
    series: Literal["sum", "each"] | None = None
    user: Name | None = None
    admission: RateText | None = None
    transport: Literal["quic", "tcp", "udp"] = "quic"
    congestion: Annotated[Congestion, as_table("name")] = UNCONTROLLED
    server_congestion: Annotated[Congestion, as_table("name")] | None = None
    send: Literal["up", "down", "both"] | None = None
    load: Annotated[Load, as_table("pico_perf")] | None = None
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
        """Names of the flows that it stands for."""
        return [self.name] if self.count is None else list(_members(self.name, self.count))

    @model_validator(mode="after")
    def _group(self) -> Flow:
        if self.series is not None and self.count is None:
            raise ValueError(f'found series = "{self.series}" without a count, expected both or neither')
        return self

    @property
    def datagrams(self) -> bool:
        """Whether its data goes in datagrams: an on-off source's does over UDP, or where it says their size."""
        load = self.load
        if load is None:
            return False
        if load.on_off is not None:
            return self.transport == "udp" or load.on_off.packet is not None
        return load.call is not None or load.live is not None

    @model_validator(mode="after")
    def _controlled(self) -> Flow:
        """Only UDP has no controller."""
        given = [key for key in ("congestion", "server_congestion") if key in self.model_fields_set]
        if self.transport == "udp":
            if given:
                error = 'found a controller, expected none: nothing controls what goes over transport = "udp"'
                raise PydanticCustomError("scenario", "{error}", {"error": error, "at": given[0]})
        elif "congestion" not in given:
            error = "missing, expected a value"
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "congestion"})
        return self

    @model_validator(mode="after")
    def _datagrams(self) -> Flow:
        """Loads of datagrams go over what has them."""
        source = self.load.on_off if self.load is not None else None
        nodes = self.load is not None and self.load.bundles is not None
        if self.transport == "udp" and not self.datagrams and not nodes:
            raise ValueError(
                'found transport = "udp" without a load of datagrams; expected one such as { call = "g711" }, '
                '{ live = "2 Mbit/s" } or { on_off = ... }'
            )
        if self.transport == "tcp" and self.datagrams:
            raise ValueError(
                'found a load of datagrams with transport = "tcp", which has none; expected "udp" or "quic"'
            )
        if self.admission is not None and not self.datagrams:
            error = 'found a rate that is kept for calls beside no load of calls; expected load = { call = "g711" }'
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "admission"})
        if self.datagrams and source is not None and source.rate is None:
            error = "found none, expected one: datagrams leave at the rate of their source"
            raise PydanticCustomError("scenario", "{error}", {"error": error, "at": "load.on_off.rate"})
        return self

    @model_validator(mode="after")
    def _transport(self) -> Flow:
        if self.load is not None and self.load.page is not None:
            self._check_http(self.load)
            return self
        for other in ("quic", "tcp", "udp"):
            if other != self.transport and getattr(self, other).model_fields_set:
                raise ValueError(
                    f'found {other} options in a flow with transport = "{self.transport}", expected none '
                    f"(loads of pages take both); options for several flows stand in [{other}]"
                )
        if self.transport == "tcp" and self.load is not None and self.load.pico_perf is not None:
            waiting = next((s for s in loads.parse(self.load.pico_perf) if s.after is not None), None)
            if waiting is not None:
                raise ValueError(
                    f"load: stream {waiting.stream_id} waits for stream {waiting.after}, but over TCP each stream "
                    'is a connection of its own; expected "-" as its previous stream, or transport = "quic"'
                )
        return self

    def _check_http(self, load: Load) -> None:
        """A page's versions of HTTP go with the transport, if that is said."""
        if self.send is not None:
            raise ValueError(
                f'found send = "{self.send}" beside a page, whose requests say who sends; expected none'
            )
        if "transport" not in self.model_fields_set or load.http is None:
            return
        over = "tcp" if load.http in ("1.1", "2") else "quic"
        if over != self.transport:
            raise ValueError(
                f'found http = "{load.http}" with transport = "{self.transport}", expected no transport: '
                "http says which"
            )

    @model_validator(mode="after")
    def _direction(self) -> Flow:
        if self.load is None:
            return self
        if self.load.bundles is not None and self.send is not None:
            raise ValueError(
                f'found send = "{self.send}" beside bundles, whose nodes send what they have; expected no send'
            )
        if self.load.pico_perf is not None and self.send is not None:
            streams = loads.parse(self.load.pico_perf)
            if self.send != "up" or not any(stream.sends_up for stream in streams):
                raise ValueError(
                    f'found send = "{self.send}" beside a pico-perf load, which says itself who sends; '
                    'expected no send, or a load such as { time = "60 s" }'
                )
        streamed = self.load.on_off is not None and not self.datagrams
        if self.send == "both" and (self.load.poisson is not None or streamed):
            raise ValueError('found send = "both", expected "up" or "down" for this load; declare two flows')
        return self


class Trace(Table):
    """Per-packet traces to keep: large files, one per flow and side; ``packets`` and ``stages`` are tables. ``tcp`` is
    a small table: what only TCP counts."""

    qlog: StrictBool = False
    pcapng: StrictBool = False
    packets: StrictBool = False
    stages: StrictBool = False
    tcp: StrictBool = False


class Limits(Table):
    """What a run may cost before it is refused, as estimated beforehand (``bentpipe.plan.cost.estimate``)."""

    events: Annotated[StrictInt, Field(ge=1)] = 1_000_000_000
    memory: SizeText = Size(4_000_000_000)


MOST_SEEDS = 100_000


def _seeds(found: object) -> tuple[int, ...]:
    expected = f"a number of seeds from 1 to {MOST_SEEDS}, or a list of different whole numbers"
    if isinstance(found, int) and not isinstance(found, bool):
        if not 1 <= found <= MOST_SEEDS:
            raise ValueError(f"found {found}, expected {expected}")
        return tuple(range(1, found + 1))
    if isinstance(found, (list, tuple)) and found:
        whole = [n for n in found if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**63]
        if len(whole) == len(found) == len(set(whole)):
            return tuple(whole)
    shown = f'"{found}"' if isinstance(found, str) else found
    raise ValueError(f"found {shown}, expected {expected}")


def expand_seeds(seeds: int | None) -> tuple[int, ...] | None:
    """So many seeds in the place of a scenario's; None: the scenario's. Raises ScenarioError."""
    try:
        return None if seeds is None else _seeds(seeds)
    except ValueError as wrong:
        raise ScenarioError([("seeds", str(wrong))]) from None


_SEEDS_SCHEMA = {
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "array", "items": {"type": "integer"}}]
}
Seeds = Annotated[tuple[int, ...], PlainValidator(_seeds), WithJsonSchema(_SEEDS_SCHEMA)]


class Scenario(Table):
    """A whole scenario: a path or a graph, the flows over it, what is swept, how often."""

    hints: ClassVar[Mapping[str, str]] = {
        "flows": 'no key "flows"; did you mean "[[flow]]"?',
        "proxy": 'no key "proxy"; did you mean "[[path.proxy]]"?',
        "segment": 'no key "segment"; did you mean "[[path.segment]]"?',
    }
    title: StrictStr = ""
    duration: PositiveText
    seeds: Seeds = (1,)
    sample: PositiveText = Duration(100_000_000)
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
    def _whole(self) -> Scenario:
        if (self.path is None) == (self.graph is None):
            raise ValueError("expected a path ([[path.segment]]) or a graph ([graph]), and not both")
        places = (self.path.segment if self.path else []) + list(self.graph.link if self.graph else [])
        where = "path" if self.path else "graph"
        for what, key, names in (
            ("flow", "flow", [f.name for f in self.flow]),
            ("segment" if self.path else "link", where, [p.name for p in places]),
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                error = f'two {what}s are called "{twice}", expected a name for each'
                raise PydanticCustomError(
                    "scenario", "{error}", {"error": error, "at": f"{key}.{twice}.name"}
                )
        for flow in self.flow:
            _check_ends(flow, self.graph)
        _check_members(self.flow)
        _check_bundles(self)
        return self


def _check_ends(flow: Flow, graph: Graph | None) -> None:
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
        raise ValueError(
            f"flow.{flow.name}.access: goes with a path; in a graph, give the host a link of its own"
        )


def _check_bundles(scenario: Scenario) -> None:
    """Layers go over what they need, and what is named is a bundle node. Raises ValueError."""
    links = [
        (flow, load.bundles) for flow in scenario.flow if (load := flow.load) is not None and load.bundles
    ]
    ends = sorted({end for flow, _ in links for end in (flow.client or "client", flow.server or "server")})
    top = scenario.path or scenario.graph
    followed = top is not None and top.contacts is not None and top.contacts.plan == "dtn"
    if scenario.dtn is not None and not links:
        if followed:  # a plan of links alone, whose nodes are those of the graph
            return
        raise ValueError(
            'dtn: found no flow between bundle nodes, expected one with load = { bundles = "quiccl" }'
        )
    named: list[tuple[str, str | None]] = []
    for flow, bundles in links:
        key = f"flow.{flow.name}.load.bundles"
        over = bundles.over
        if flow.transport != over:
            found = f'found "{bundles.layer}" with transport = "{flow.transport}"'
            raise ValueError(f'{key}.layer: {found}, expected transport = "{over}"')
        if flow.count is not None:
            raise ValueError(f"flow.{flow.name}.count: found one, expected none between bundle nodes")
        named += [(f"{key}.to", bundles.to), (f"{key}.monitor", bundles.monitor)]
    named += [] if scenario.dtn is None else scenario.dtn.named()
    for where, name in named:
        if name is not None and name not in ends:
            raise ValueError(f"{where}: {unknown_name(name, ends, 'bundle node')}")


def _check_members(flows: list[Flow]) -> None:
    """No flow is called like one of a group. Raises PydanticCustomError."""
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
    """The scenario that ``data`` (parsed TOML) says. Raises ScenarioError."""
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise from_pydantic(error, data, source) from None
