"""Path or graph of a scenario: segments or nodes and links, proxies, handovers and contacts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PlainValidator, StrictBool, StrictStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import Name, Table, as_table, construct_table, text_schema
from bentpipe.scenario.errors import SYNONYMS, unknown_name
from bentpipe.scenario.flow.proxy import Proxy, ProxyKeys, check_proxies, missing_pool_end, proxy_places
from bentpipe.scenario.link.direction import DelayOrText, Direction
from bentpipe.scenario.link.handover import GraphHandover, PathHandover, check_handovers
from bentpipe.scenario.package_data import preset_names
from bentpipe.scenario.quantities import Size

__all__ = ["Access", "Contacts", "Graph", "Link", "Node", "Path", "Segment"]

_EMPTY_DIRECTION = construct_table(Direction)

_DIRECTION_KEYS = {key: key for key in Direction.model_fields if key not in ("delay", "trace")}
_DIRECTION_HINTS = {
    found: f'no key "{found}" here: it belongs to a direction; did you mean "both = {{ {key} = ... }}"?'
    for found, key in (SYNONYMS | _DIRECTION_KEYS).items()
    if key in _DIRECTION_KEYS
} | {
    "rtt": 'no key "rtt": delays are one-way; did you mean "delay", with half of the round-trip time?',
}


def _parse_buffer_size(found: object) -> Size:
    size = Size.parse(found)
    if size.bytes == 0:
        raise ValueError(f'found {found!r}, expected a size above 0 such as "1 MB"'.replace("'", '"'))
    return size


BufferText = Annotated[
    Size, PlainValidator(_parse_buffer_size), text_schema("1 MB", "bytes that a node buffers")
]


class Access(Table):
    """Two directions between two nodes. Rates and delays are one-way."""

    hints: ClassVar[Mapping[str, str]] = _DIRECTION_HINTS
    delay: DelayOrText | None = None
    up: Direction | None = None
    down: Direction | None = None
    both: Direction | None = None

    def resolve_direction(self, side: Literal["up", "down"]) -> Direction:
        """Return one direction: its keys over those of ``both`` over the delay of the segment."""
        keys = (self.up if side == "up" else self.down) or _EMPTY_DIRECTION
        direction = keys.with_defaults(self.both)
        if self.delay is None or "delay" in direction.model_fields_set:
            return direction
        return direction.model_copy(update={"delay": self.delay})


class Segment(Access):
    """Segment of a path, client to server. Its end nodes buffer up to ``store_and_forward`` bytes without a route."""

    name: Name
    store_and_forward: BufferText | None = None


class Contacts(Table):
    """Contact plan that determines when links are up. A bare text is ``plan``.

    ``in_flight``: whether packets in flight at the end of a contact arrive or are lost.
    """

    plan: StrictStr
    in_flight: Literal["keep", "drop"] = "keep"


ContactsOrText = Annotated[Contacts, as_table("plan")]


class Path(Table):
    """Path of all flows: segments in order from client to server.

    ``preset`` stands for segments before the others. The plan inserts them before it validates a path.
    """

    preset: StrictStr | None = None
    segment: list[Segment] = Field(default_factory=list)
    proxy: list[Proxy] = Field(default_factory=list)
    handover: list[PathHandover] = Field(default_factory=list)
    contacts: ContactsOrText | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_placement(cls, found: object) -> object:
        """Check that each proxy has the key ``between``. Raises PydanticCustomError."""
        lists = [found.get(key) if isinstance(found, Mapping) else None for key in ("segment", "proxy")]
        segments, proxies = (
            [table for table in tables if isinstance(table, Mapping)] if isinstance(tables, list) else []
            for tables in lists
        )
        for index, proxy in enumerate(proxies):
            if "between" not in proxy:
                names = [name for segment in segments if isinstance(name := segment.get("name"), str)]
                error = f"missing, expected between = [...] with {proxy_places(names)}"
                at = f"{proxy.get('name', f'proxy[{index + 1}]')}.between"
                raise PydanticCustomError("scenario", "{error}", {"error": error, "at": at})
        return found

    @field_validator("preset")
    @classmethod
    def _check_preset(cls, name: str | None) -> str | None:
        """Check the name of a preset; a plan looks for a file. Raises ValueError."""
        if name is not None and not name.endswith(".toml") and name not in preset_names():
            raise ValueError(unknown_name(name, preset_names(), "preset"))
        return name

    @model_validator(mode="after")
    def _check_names(self) -> Path:
        if not self.segment and self.preset is None:
            raise ValueError("expected at least one [[path.segment]], or a preset")
        names = [segment.name for segment in self.segment]
        check_proxies(self.proxy, names)
        check_handovers(self.handover, names, "segment", [proxy.name for proxy in self.proxy])
        for segment, following in pairwise(self.segment):
            if (
                segment.store_and_forward is not None
                and following.store_and_forward is not None
                and segment.store_and_forward != following.store_and_forward
            ):
                error = (
                    f"found {following.store_and_forward} beside {segment.store_and_forward} of {segment.name}, "
                    "expected one of the node between them"
                )
                raise PydanticCustomError(
                    "scenario", "{error}", {"error": error, "at": f"{following.name}.store_and_forward"}
                )
        return self


class Node(ProxyKeys):
    """Node of a graph. A bare text is the name of a host. The keys of a proxy require ``kind = "proxy"``."""

    name: Name
    kind: Literal["host", "router", "proxy"] = "host"
    store_and_forward: BufferText | None = None

    @property
    def role(self) -> Literal["host", "router", "proxy"]:
        """Kind of the node in the engine; a proxy with ``handshake = "none"`` is a router."""
        return "router" if self.kind == "proxy" and not self.splits else self.kind

    @model_validator(mode="after")
    def _check_proxy_keys(self) -> Node:
        proxy_keys = [key for key in ProxyKeys.model_fields if key in self.model_fields_set]
        if proxy_keys and self.kind != "proxy":
            raise ValueError(f'found {proxy_keys[0]} for a {self.kind}; requires kind = "proxy"')
        return self


class Link(Access):
    """Link of a graph. The direction ``up`` goes from ``client_side`` to ``server_side``."""

    name: Name
    client_side: Name
    server_side: Name
    enabled: StrictBool = True


class Graph(Table):
    """General form of a path: nodes, and links between them."""

    node: list[Annotated[Node, as_table("name")]] = Field(min_length=2)
    link: list[Link] = Field(min_length=1)
    handover: list[GraphHandover] = Field(default_factory=list)
    contacts: ContactsOrText | None = None

    @model_validator(mode="after")
    def _check_links(self) -> Graph:
        names = [node.name for node in self.node]
        for link in self.link:
            if link.client_side == link.server_side:
                raise ValueError(f"link {link.name}: both sides are {link.client_side}, expected two nodes")
            for end in (link.client_side, link.server_side):
                if end not in names:
                    raise ValueError(f"link {link.name}: {unknown_name(end, names, 'node')}")
        self._check_proxies()
        check_handovers(self.handover, [link.name for link in self.link], "link", names)
        targets = {handover.to for handover in self.handover}
        for link in self.link:
            if not link.enabled and link.name not in targets:
                error = "found false, and no handover uses the link; expected a handover to it, or true"
                raise PydanticCustomError(
                    "scenario", "{error}", {"error": error, "at": f"{link.name}.enabled"}
                )
        return self

    def _check_proxies(self) -> None:
        """Check the names of nodes and proxies, and the far ends of pools. Raises ValueError."""
        names = [node.name for node in self.node]
        proxies = [node.name for node in self.node if node.role == "proxy"]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise ValueError(f'duplicate node name "{duplicate}", expected unique names')
        for node in self.node:
            if node.kind == "proxy" and node.name in [link.name for link in self.link]:
                raise ValueError(f'a proxy and a link have the name "{node.name}", expected unique names')
            if node.handshake == "pooled" and not self._downstream_nodes(node.name) & set(proxies):
                raise ValueError(missing_pool_end(node.name))

    def _downstream_nodes(self, node: str) -> set[str]:
        """Return the nodes after ``node`` in the direction of the servers."""
        nodes: set[str] = set()
        frontier = {node}
        while frontier:
            frontier = {link.server_side for link in self.link if link.client_side in frontier} - nodes
            nodes |= frontier
        return nodes - {node}
