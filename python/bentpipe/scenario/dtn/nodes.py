"""Bundle nodes: flows between them (``load.bundles``), options of dtnperf, and ``[dtn]``."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt, StrictStr, WithJsonSchema, model_validator

from bentpipe.scenario.base import DurationText, Name, PositiveText, SizeText, Table, check_options
from bentpipe.scenario.dtn.generated import TRANSPORTS, ClaOptions, Layer
from bentpipe.scenario.dtn.integrity import Integrity
from bentpipe.scenario.network.contact_plan import ContactPlan
from bentpipe.scenario.quantities import Duration

__all__ = [
    "BundleNode", "Bundles", "Copies", "Dtn", "Dtnperf", "NodeOutage", "Routing", "check_routing",
    "parse_dtnperf",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dtnperf:
    """Client of dtnperf."""

    time_s: float | None = None
    bytes: int | None = None
    file: str | None = None
    """File with the data, relative to the directory of the scenario."""
    window: int | None = None
    rate_bit_s: int | None = None
    bundles_per_s: float | None = None
    """Rate in bundles per second."""
    payload_bytes: int = 50_000
    lifetime_s: float = 60.0
    priority: str = "normal"
    reports: frozenset[str] = frozenset()
    crc: str = "none"
    whole: bool = False
    critical: bool = False
    hop_limit: int | None = None


_SCALES = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_REPORT_FLAGS = {"-C": "received", "-f": "forwarded", "-r": "delivered", "--del": "deleted"}
_PRIORITIES = ("bulk", "normal", "expedited")


def _parse_scaled(text: str) -> float:
    scale = _SCALES.get(text[-1:], 1)
    try:
        return float(text[:-1] if scale > 1 else text) * scale
    except ValueError:
        return 0.0


def _parse_number(text: str, key: str) -> int:
    value = _parse_scaled(text)
    if not 1 <= value < 2**50:
        raise ValueError(f'dtnperf {key}: found "{text}", expected a number such as 32, 500k or 1M')
    return round(value)


def _parse_seconds(text: str, key: str) -> float:
    value = _parse_scaled(text)
    if not 1e-3 <= value < 2**50:  # bundle times are in milliseconds (RFC 9171 section 4.2.6)
        raise ValueError(f'dtnperf {key}: found "{text}", expected seconds such as 30 or 0.5')
    return value


def parse_dtnperf(text: str) -> Dtnperf:
    """Return the client of a dtnperf command line.

    The options are ``-W``, ``-R``, ``-T``, ``-D``, ``-F``, ``-P``, ``-l``, ``-p``, ``-C -f -r --del``, ``--crc`` and
    ``-N`` of dtnperf, and ``--critical`` and ``--hops`` of bentpipe. Raises ValueError.
    """
    arguments = iter(shlex.split(text))
    fields: dict[str, object] = {}
    reports: set[str] = set()
    for argument in arguments:
        if argument in _REPORT_FLAGS:
            reports.add(_REPORT_FLAGS[argument])
            continue
        if argument in ("-N", "--critical"):
            fields["whole" if argument == "-N" else "critical"] = True
            continue
        option = next((name for name in ("--crc", "--hops") if argument.startswith(name)), argument[:2])
        if option not in ("-W", "-R", "-T", "-D", "-F", "-P", "-l", "-p", "--crc", "--hops"):
            raise ValueError(
                f'dtnperf: found "{argument}", expected -W, -R, -T, -D, -F, -P, -l, -p, -C, -f, -r, --del, --crc, -N, '
                "--critical or --hops"
            )
        value = argument[len(option) :].lstrip("=") or next(arguments, "")
        _set_option(option, value, fields)
    if ("window" in fields) and ("rate_bit_s" in fields or "bundles_per_s" in fields):
        raise ValueError("dtnperf: found -W and -R, expected one of them")
    amounts = [key for key, name in (("-T", "time_s"), ("-D", "bytes"), ("-F", "file")) if name in fields]
    if len(amounts) > 1:
        raise ValueError(f"dtnperf: found {' and '.join(amounts)}, expected one of them")
    if not {"window", "rate_bit_s", "bundles_per_s"} & fields.keys():
        fields["window"] = 1
    client = Dtnperf(reports=frozenset(reports), **fields)  # type: ignore[arg-type]
    if client.payload_bytes < 16:
        raise ValueError(f"dtnperf -P: found {client.payload_bytes} B, expected at least 16")
    return client


_NUMBER_FIELDS = {"-W": "window", "-P": "payload_bytes", "-D": "bytes"}
_SECONDS_FIELDS = {"-T": "time_s", "-l": "lifetime_s"}
_CRCS = {"0": "none", "16": "crc16", "32": "crc32c"}


def _set_option(option: str, value: str, fields: dict[str, object]) -> None:
    """Set the field of an option in ``fields``. Raises ValueError."""
    if option in _NUMBER_FIELDS:
        fields[_NUMBER_FIELDS[option]] = _parse_number(value, option)
    elif option in _SECONDS_FIELDS:
        fields[_SECONDS_FIELDS[option]] = _parse_seconds(value, option)
    elif option == "-R" and value.endswith("b"):
        fields["bundles_per_s"] = float(_parse_number(value[:-1], option))
    elif option == "-R":
        fields["rate_bit_s"] = _parse_number(value, option)
    elif option == "-F":
        if not value:
            raise ValueError('dtnperf -F: found "", expected a file')
        fields["file"] = value
    elif option == "-p":
        if value not in _PRIORITIES:
            raise ValueError(f'dtnperf -p: found "{value}", expected {", ".join(_PRIORITIES)}')
        fields["priority"] = value
    elif option == "--hops":
        fields["hop_limit"] = min(255, _parse_number(value, option))
    elif value in _CRCS:
        fields["crc"] = _CRCS[value]
    else:
        raise ValueError(f'dtnperf --crc: found "{value}", expected 0, 16 or 32')


class Bundles(ClaOptions):
    """Flow between two bundle nodes: its convergence layer, and optionally a client of dtnperf at its client.

    ``connections``: one that the client opens and both sides use, or one from each side. They are opened with the
    contact or for the first bundle, and closed with the contact or never. ``on_return``: treatment of an open
    connection at the start of the next contact. LTP has no connections; ``rate`` and
    ``owlt`` configure it without a contact plan.
    """

    layer: Layer
    dtnperf: StrictStr | None = None
    to: Name | None = None
    monitor: Name | None = None
    connections: Literal["shared", "each"] = "shared"
    opened: Literal["with_contact", "on_demand"] = "with_contact"
    closed: Literal["with_contact", "never"] | None = None
    on_return: Literal["alone", "reopen", "resume", "cue"] | None = None

    @model_validator(mode="after")
    def _check_combination(self) -> Bundles:
        check_options(self.layer, self.model_fields_set, self.option_owners)
        if self.dtnperf is not None:
            parse_dtnperf(self.dtnperf)
        elif self.to is not None or self.monitor is not None:
            raise ValueError("found to or monitor without dtnperf, expected all or none")
        if self.layer == "mtcp" and self.connections == "shared":
            raise ValueError(
                'found layer = "mtcp", which has one direction only, with connections = "shared"; expected "each"'
            )
        if self.connections == "shared" and self.opened == "on_demand":
            raise ValueError(
                'found opened = "on_demand" with connections = "shared": the server could not open one; '
                'expected connections = "each"'
            )
        if self.transport == "udp":
            self._check_without_connections()
        self._check_on_return()
        return self

    def _check_without_connections(self) -> None:
        """Check that no option of connections is set, because LTP has none. Raises ValueError."""
        for key, is_set in (
            ("connections", self.connections != "shared"),
            ("closed", self.closed == "with_contact"),
            ("on_return", self.on_return not in (None, "alone")),
        ):
            if is_set:
                raise ValueError(
                    f'{key}: found "{getattr(self, key)}" with layer = "{self.layer}", which has no connections; '
                    "expected none"
                )

    @property
    def transport(self) -> str:
        """Transport protocol of the layer."""
        return TRANSPORTS[self.layer]

    def _check_on_return(self) -> None:
        """Check ``on_return`` against the layer and ``closed``. Raises ValueError."""
        action = self.on_return
        if action in ("resume", "cue") and self.transport == "tcp":
            raise ValueError(
                f'on_return: found "{action}" with layer = "{self.layer}", whose TCP connections cannot be '
                'resumed or signalled; expected "alone" or "reopen"'
            )
        if action == "resume" and self.layer == "qubicle":
            raise ValueError(
                'on_return: found "resume" with layer = "qubicle", which forbids bundles in early data; '
                'expected "alone", "reopen" or "cue"'
            )
        if action in ("alone", "cue") and self.closed == "with_contact":
            raise ValueError(
                f'on_return: found "{action}" with closed = "with_contact", which leaves no connection open; '
                'expected closed = "never"'
            )

    @property
    def closes(self) -> bool:
        """Whether connections are closed at the end of a contact."""
        if self.closed is None:
            if self.transport == "udp":
                return False
            return self.on_return not in ("alone", "cue")
        return self.closed == "with_contact"

    @property
    def client(self) -> Dtnperf | None:
        """Client of dtnperf at the client of this flow."""
        return None if self.dtnperf is None else parse_dtnperf(self.dtnperf)


def check_node_id(found: str) -> str:
    """Return a valid node id (RFC 9171 section 4.2.5.2, RFC 9758). Raises ValueError."""
    if re.fullmatch(NODE_ID, found):
        return found
    raise ValueError(f'found "{found}", expected a node id such as "ipn:1.0" or "dtn://one/"')


NODE_ID = r"(ipn:[0-9]+(\.[0-9]+)?\.0|dtn://[^/\s]+/)"
"""Regular expression of a node id."""

NodeId = Annotated[
    StrictStr, AfterValidator(check_node_id), WithJsonSchema({"type": "string", "pattern": f"^{NODE_ID}$"})
]


class NodeOutage(Table):
    """Outage of a node at ``at`` for ``duration``, or to the end; then its store is as before, or empty."""

    at: DurationText
    duration: PositiveText | None = None
    store: Literal["kept", "lost"] = "kept"


class BundleNode(Table):
    """Bundle node: node id, store, delay until a bundle is durable there, outages, and integrity.

    The default node id is ``ipn:N.0`` with N the number of the node in the order of nodes.
    """

    name: Name
    eid: NodeId | None = None
    store: SizeText | None = None
    store_delay: DurationText = Duration(0)
    outages: list[NodeOutage] = Field(default_factory=list)
    integrity: Integrity | None = None

    @model_validator(mode="after")
    def _in_order(self) -> BundleNode:
        end: int | None = -1
        for outage in self.outages:
            if end is None or outage.at.ns <= end:
                raise ValueError(
                    f"outages: found one at {outage.at} before the previous one ends, expected increasing times"
                )
            end = None if outage.duration is None else outage.at.ns + outage.duration.ns
        return self


Routing = Literal["sabr", "epidemic"]
"""Routing by the plan and static routes (SABR), or a copy to each neighbour not known to have the bundle."""

Copies = Annotated[StrictInt, Field(ge=1, lt=2**32)]
"""Copies of a bundle that a node sends in epidemic routing, beside that for the destination."""


def check_routing(routing: Routing, copies: int | None, *, static_routes: bool) -> None:
    """Check that ``routing`` uses ``copies`` and ``static_routes``, if given. Raises ValueError."""
    if routing == "sabr" and copies is not None:
        raise ValueError('copies: found with routing = "sabr", expected none, or routing = "epidemic"')
    if routing == "epidemic" and static_routes:
        raise ValueError('route: found with routing = "epidemic", which uses every route; expected none')


class Dtn(ContactPlan):
    """Knowledge of bundle nodes about contacts: a contact plan whose nodes are those of the graph.

    Without contacts a node knows its neighbours, and the route to a node with a common neighbour.

    ``backlog``: whether the queue of a neighbour counts in route computation. CCSDS 734.3-B-1 includes it; a node that
    passes each bundle to its layer immediately does not know it.
    ``routing``: by the plan and static routes (SABR), or a copy to each neighbour not known to have the bundle. A node
    makes at most ``copies`` copies beside that for the destination.
    """

    backlog: Literal["counted", "ignored"] = "counted"
    routing: Routing = "sabr"
    copies: Copies | None = None
    node: list[BundleNode] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_routing(self) -> Dtn:
        check_routing(self.routing, self.copies, static_routes=bool(self.route))
        if self.routing == "epidemic" and self.backlog == "ignored":
            raise ValueError(
                'backlog: found with routing = "epidemic", which computes no route; expected none, or "sabr"'
            )
        return self

    def node_references(self) -> list[tuple[str, str | None]]:
        """Return the name of every node in the table, with its key."""
        references: list[tuple[str, str | None]] = [
            (f"dtn.node.{node.name}", node.name) for node in self.node
        ]
        for number, contact in enumerate(self.contact, 1):
            key = f"dtn.contact[{number}]"
            references += [(f"{key}.from", contact.from_), (f"{key}.to", contact.to)]
        for number, interval in enumerate(self.range, 1):
            key = f"dtn.range[{number}]"
            references += [(f"{key}.from", interval.from_), (f"{key}.to", interval.to)]
        for number, hop in enumerate(self.route, 1):
            references += [(f"dtn.route[{number}]", name) for name in (hop.at, hop.to, hop.via)]
        return references
