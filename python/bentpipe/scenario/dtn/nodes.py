"""Bundle nodes: what a flow between two of them is (``load.bundles``), dtnperf's words, and what all nodes know
(``[dtn]``)."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt, StrictStr, WithJsonSchema, model_validator

from bentpipe.scenario.base import DurationText, Name, PositiveText, RateText, SizeText, Table
from bentpipe.scenario.dtn.integrity import Integrity
from bentpipe.scenario.network.contact_plan import ContactPlan
from bentpipe.scenario.quantities import Duration

__all__ = [
    "LAYERS", "BundleNode", "Bundles", "Copies", "Dtn", "Dtnperf", "Routing", "Stop", "dtnperf", "routed",
]  # fmt: skip

LAYERS = ("quiccl", "quiccl-each", "quiccl-priorities", "qubicle", "tcpcl", "mtcp", "ltp", "ltp-green")
"""Convergence layers: QUICCL with all bundles on one stream, with a stream each, with its streams of priorities;
qubicle; TCPCLv4; MTCP; LTP with red and with green blocks."""

Layer = Literal["quiccl", "quiccl-each", "quiccl-priorities", "qubicle", "tcpcl", "mtcp", "ltp", "ltp-green"]

_OVER = {"tcpcl": "tcp", "mtcp": "tcp", "ltp": "udp", "ltp-green": "udp"}


@dataclass(frozen=True, slots=True)
class Dtnperf:
    """A client of dtnperf."""

    time_s: float | None = None
    bytes: int | None = None
    file: str | None = None
    """So much as this file has, whose path is from the scenario's folder."""
    window: int | None = None
    rate_bit_s: int | None = None
    bundle_bits: float | None = None
    """A rate in bundles a second."""
    payload_bytes: int = 50_000
    lifetime_s: float = 60.0
    priority: str = "normal"
    reports: frozenset[str] = frozenset()
    crc: str = "none"
    whole: bool = False
    critical: bool = False
    hop_limit: int | None = None


_SCALES = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_FLAGS = {"-C": "received", "-f": "forwarded", "-r": "delivered", "--del": "deleted"}
_PRIORITIES = ("bulk", "normal", "expedited")


def _scaled(word: str) -> float:
    scale = _SCALES.get(word[-1:], 1)
    try:
        return float(word[:-1] if scale > 1 else word) * scale
    except ValueError:
        return 0.0


def _number(word: str, key: str) -> int:
    found = _scaled(word)
    if not 1 <= found < 2**50:
        raise ValueError(f'dtnperf {key}: found "{word}", expected a number such as 32, 500k or 1M')
    return round(found)


def _seconds(word: str, key: str) -> float:
    found = _scaled(word)
    if not 1e-3 <= found < 2**50:  # bundles' times are in milliseconds (RFC 9171 section 4.2.6)
        raise ValueError(f'dtnperf {key}: found "{word}", expected seconds such as 30 or 0.5')
    return found


def dtnperf(text: str) -> Dtnperf:
    """The client that dtnperf's words mean: ``-W``, ``-R``, ``-T``, ``-D``, ``-F``, ``-P``, ``-l``, ``-p``,
    ``-C -f -r --del``, ``--crc``, ``-N``, and our own ``--critical`` and ``--hops``. Raises ValueError."""
    words = iter(shlex.split(text))
    found: dict[str, object] = {}
    reports: set[str] = set()
    for word in words:
        if word in _FLAGS:
            reports.add(_FLAGS[word])
            continue
        if word in ("-N", "--critical"):
            found["whole" if word == "-N" else "critical"] = True
            continue
        key = next((one for one in ("--crc", "--hops") if word.startswith(one)), word[:2])
        if key not in ("-W", "-R", "-T", "-D", "-F", "-P", "-l", "-p", "--crc", "--hops"):
            raise ValueError(
                f'dtnperf: found "{word}", expected -W, -R, -T, -D, -F, -P, -l, -p, -C, -f, -r, --del, --crc, -N, '
                "--critical or --hops"
            )
        value = word[len(key) :].lstrip("=") or next(words, "")
        _take(key, value, found)
    if ("window" in found) and ("rate_bit_s" in found or "bundle_bits" in found):
        raise ValueError("dtnperf: found -W and -R, expected one of them")
    amounts = [key for key, name in (("-T", "time_s"), ("-D", "bytes"), ("-F", "file")) if name in found]
    if len(amounts) > 1:
        raise ValueError(f"dtnperf: found {' and '.join(amounts)}, expected one of them")
    if not {"window", "rate_bit_s", "bundle_bits"} & found.keys():
        found["window"] = 1
    one = Dtnperf(reports=frozenset(reports), **found)  # type: ignore[arg-type]
    if one.payload_bytes < 16:
        raise ValueError(f"dtnperf -P: found {one.payload_bytes} B, expected at least 16")
    return one


_NUMBERS = {"-W": "window", "-P": "payload_bytes", "-D": "bytes"}
_SECONDS = {"-T": "time_s", "-l": "lifetime_s"}
_CRCS = {"0": "none", "16": "crc16", "32": "crc32c"}


def _take(key: str, value: str, found: dict[str, object]) -> None:
    if key in _NUMBERS:
        found[_NUMBERS[key]] = _number(value, key)
    elif key in _SECONDS:
        found[_SECONDS[key]] = _seconds(value, key)
    elif key == "-R" and value.endswith("b"):
        found["bundle_bits"] = float(_number(value[:-1], key))
    elif key == "-R":
        found["rate_bit_s"] = _number(value, key)
    elif key == "-F":
        if not value:
            raise ValueError('dtnperf -F: found "", expected a file')
        found["file"] = value
    elif key == "-p":
        if value not in _PRIORITIES:
            raise ValueError(f'dtnperf -p: found "{value}", expected {", ".join(_PRIORITIES)}')
        found["priority"] = value
    elif key == "--hops":
        found["hop_limit"] = min(255, _number(value, key))
    elif value in _CRCS:
        found["crc"] = _CRCS[value]
    else:
        raise ValueError(f'dtnperf --crc: found "{value}", expected 0, 16 or 32')


class Bundles(Table):
    """What a flow between two bundle nodes is: its convergence layer, and perhaps a client of dtnperf at its client.

    ``connections``: one that the client opens and both sides use, or one from each side. They are opened with the
    contact or when there is a bundle, and closed with it or kept. ``on_return``: what becomes of one that is there as a
    contact begins again. LTP has no connections; ``rate`` and
    ``owlt`` are its own where no contact is planned.
    """

    layer: Layer
    dtnperf: StrictStr | None = None
    to: Name | None = None
    monitor: Name | None = None
    connections: Literal["shared", "each"] = "shared"
    opened: Literal["with_contact", "on_demand"] = "with_contact"
    closed: Literal["with_contact", "never"] | None = None
    on_return: Literal["alone", "reopen", "resume", "cue"] | None = None
    rate: RateText | None = None
    owlt: DurationText | None = None
    tls: Literal["no", "require"] = "no"

    @model_validator(mode="after")
    def _words(self) -> Bundles:
        if self.dtnperf is not None:
            dtnperf(self.dtnperf)
        elif self.to is not None or self.monitor is not None:
            raise ValueError("found to or monitor without dtnperf, expected all or none")
        if self.layer == "mtcp" and self.connections == "shared":
            raise ValueError(
                'found layer = "mtcp", which goes one way only, with connections = "shared"; expected "each"'
            )
        if self.tls != "no" and self.layer != "tcpcl":
            raise ValueError(
                f'found tls = "{self.tls}" with layer = "{self.layer}"; expected layer = "tcpcl"'
            )
        if self.connections == "shared" and self.opened == "on_demand":
            raise ValueError(
                'found opened = "on_demand" with connections = "shared": the server could not open one; '
                'expected connections = "each"'
            )
        if self.over == "udp":
            self._unconnected()
        elif self.rate is not None or self.owlt is not None:
            key = "owlt" if self.rate is None else "rate"
            raise ValueError(
                f'{key}: found {getattr(self, key)} with layer = "{self.layer}", whose transport goes by what it '
                "measures; expected none"
            )
        self._return()
        return self

    def _unconnected(self) -> None:
        """LTP has no connections."""
        for key, found in (
            ("connections", self.connections != "shared"),
            ("closed", self.closed == "with_contact"),
            ("on_return", self.on_return not in (None, "alone")),
        ):
            if found:
                raise ValueError(
                    f'{key}: found "{getattr(self, key)}" with layer = "{self.layer}", which has no connections; '
                    "expected none"
                )

    @property
    def over(self) -> str:
        """The transport that the layer goes over."""
        return _OVER.get(self.layer, "quic")

    def _return(self) -> None:
        way = self.on_return
        if way in ("resume", "cue") and self.layer in ("tcpcl", "mtcp"):
            raise ValueError(
                f'on_return: found "{way}" with layer = "{self.layer}", whose TCP is neither resumed nor told of '
                'returns; expected "alone" or "reopen"'
            )
        if way == "resume" and self.layer == "qubicle":
            raise ValueError(
                'on_return: found "resume" with layer = "qubicle", which forbids bundles in early data; '
                'expected "alone", "reopen" or "cue"'
            )
        if way in ("alone", "cue") and self.closed == "with_contact":
            raise ValueError(
                f'on_return: found "{way}" with closed = "with_contact", so that no connection is there; '
                'expected closed = "never"'
            )

    @property
    def closes(self) -> bool:
        """Whether connections are closed when the contact is over."""
        if self.closed is None:
            if self.over == "udp":
                return False
            return self.on_return not in ("alone", "cue")
        return self.closed == "with_contact"

    @property
    def client(self) -> Dtnperf | None:
        """The client at this flow's client."""
        return None if self.dtnperf is None else dtnperf(self.dtnperf)


def node_id(found: str) -> str:
    """A node id (RFC 9171 section 4.2.5.2, RFC 9758). Raises ValueError."""
    if re.fullmatch(NODE_ID, found):
        return found
    raise ValueError(f'found "{found}", expected a node id such as "ipn:1.0" or "dtn://one/"')


NODE_ID = r"(ipn:[0-9]+(\.[0-9]+)?\.0|dtn://[^/\s]+/)"
NodeId = Annotated[
    StrictStr, AfterValidator(node_id), WithJsonSchema({"type": "string", "pattern": f"^{NODE_ID}$"})
]


class Stop(Table):
    """A node stops at ``at`` for ``length``, or for good; then it has what was in its store, or an empty one."""

    at: DurationText
    length: PositiveText | None = None
    store: Literal["kept", "lost"] = "kept"


class BundleNode(Table):
    """A bundle node: its node id, by default ``ipn:N.0`` with its number in the order of nodes, its store, how long it
    takes until a bundle is durable there, when the node stops, and what it signs and checks."""

    name: Name
    eid: NodeId | None = None
    store: SizeText | None = None
    store_delay: DurationText = Duration(0)
    stops: list[Stop] = Field(default_factory=list)
    integrity: Integrity | None = None

    @model_validator(mode="after")
    def _in_order(self) -> BundleNode:
        end: int | None = -1
        for stop in self.stops:
            if end is None or stop.at.ns <= end:
                raise ValueError(
                    f"stops: found one at {stop.at} before the one before it is over, expected them in order"
                )
            end = None if stop.length is None else stop.at.ns + stop.length.ns
        return self


Routing = Literal["sabr", "epidemic"]
"""By the plan and static routes (SABR), or a copy to every neighbour that is not known to have the bundle."""

Copies = Annotated[StrictInt, Field(ge=1, lt=2**32)]
"""Of a bundle that is flooded, how many a node gives away, beside the destination's."""


def routed(routing: Routing, copies: int | None, *, by_hand: bool) -> None:
    """Raises ValueError where ``copies``, or next hops set ``by_hand``, mean nothing to ``routing``."""
    if routing == "sabr" and copies is not None:
        raise ValueError('copies: found with routing = "sabr", expected none, or routing = "epidemic"')
    if routing == "epidemic" and by_hand:
        raise ValueError('route: found with routing = "epidemic", which takes every way; expected none')


class Dtn(ContactPlan):
    """What bundle nodes know of contacts: a contact plan whose nodes are those of the graph. Without contacts a node
    knows its neighbours, and of two nodes with one neighbour the way.

    ``backlog``: whether what waits for a neighbour counts when a node looks for a way. It does by CCSDS 734.3-B-1; a
    node that gives each bundle to its layer at once knows nothing of it.
    ``routing``: by the plan and static routes (SABR), or a copy to every neighbour that is not known to have the
    bundle, of which a node gives away ``copies`` at the most, beside the destination's.
    """

    backlog: Literal["counted", "ignored"] = "counted"
    routing: Routing = "sabr"
    copies: Copies | None = None
    node: list[BundleNode] = Field(default_factory=list)

    @model_validator(mode="after")
    def _of_routing(self) -> Dtn:
        routed(self.routing, self.copies, by_hand=bool(self.route))
        if self.routing == "epidemic" and self.backlog == "ignored":
            raise ValueError(
                'backlog: found with routing = "epidemic", which looks for no way; expected none, or "sabr"'
            )
        return self

    def named(self) -> list[tuple[str, str | None]]:
        """Every node that it names, with the key."""
        found: list[tuple[str, str | None]] = [(f"dtn.node.{one.name}", one.name) for one in self.node]
        for number, one in enumerate(self.contact, 1):
            found += [(f"dtn.contact[{number}].from", one.from_), (f"dtn.contact[{number}].to", one.to)]
        for number, held in enumerate(self.range, 1):
            found += [(f"dtn.range[{number}].from", held.from_), (f"dtn.range[{number}].to", held.to)]
        for number, hop in enumerate(self.route, 1):
            found += [(f"dtn.route[{number}]", name) for name in (hop.at, hop.to, hop.via)]
        return found
