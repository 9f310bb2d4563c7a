"""The file of a bundle node: who it is, its neighbours and how they are reached, what it knows of contacts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from pydantic import Field, StrictBool, StrictStr, ValidationError, model_validator

from bentpipe.dtn.contact_plan import read, tables
from bentpipe.runners import engine
from bentpipe.scenario.base import DurationText, RateText, SizeText, Table
from bentpipe.scenario.dtn.integrity import Integrity
from bentpipe.scenario.dtn.nodes import Copies, Layer, Routing, check_routing
from bentpipe.scenario.errors import ScenarioError, from_pydantic, unknown_name
from bentpipe.scenario.flow.datagrams import check_udp_payload
from bentpipe.scenario.network.contact_plan import ContactPlan, NextHop, NodeName
from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.plan.spec.run_spec import PlanSpec

__all__ = ["NodeFile", "RealNeighbour", "RealNode", "Shown", "node_file"]

SHA_256 = "^([0-9a-fA-F]{2}:?){32}$"

OVER_UDP = ("ltp", "ltp-green")

IN_CLEAR = ("mtcp", *OVER_UDP)
"""Layers without TLS."""

EID = r"^(ipn:[0-9]+(\.[0-9]+)?\.0|dtn://[^/\s]+/)$"


class RealNode(Table):
    """A node by its name: its node id, by default ``ipn:N.0`` of a number and ``dtn://name/`` of a word, and its
    store."""

    name: NodeName
    eid: StrictStr | None = Field(default=None, pattern=EID)
    store: SizeText | None = None


class RealNeighbour(Table):
    """A neighbour: ``listen`` is where its connections are answered, ``peer`` where it answers.

    ``connections``: one that both sides use, which the side with ``peer`` opens, or one from each. LTP has none: both
    sides have a ``peer``; ``rate`` and ``owlt`` are its own where no contact is planned, ``mtu`` its longest segment.
    """

    name: NodeName
    layer: Layer
    listen: StrictStr | None = None
    peer: StrictStr | None = None
    rate: RateText | None = None
    owlt: DurationText | None = None
    mtu: SizeText | None = None
    connections: Literal["shared", "each"] = "shared"
    opened: Literal["with_contact", "on_demand"] = "on_demand"
    closed: Literal["with_contact", "never"] = "never"
    on_return: Literal["alone", "reopen", "cue"] = "alone"
    congestion: StrictStr = "cubic"
    idle_timeout: DurationText = Duration(30 * 10**9)
    by_plan: StrictBool = True
    tls: Literal["no", "allow", "require"] = "no"
    fingerprint: StrictStr | None = Field(default=None, pattern=SHA_256)
    pin: StrictStr | None = Field(default=None, pattern=SHA_256)

    @model_validator(mode="after")
    def _together(self) -> RealNeighbour:
        if self.listen is None and self.peer is None:
            raise ValueError("found neither listen nor peer, expected one of them or both")
        if self.layer in OVER_UDP:
            self._unconnected()
        elif self.rate is not None or self.owlt is not None or self.mtu is not None:
            key = next(one for one in ("rate", "owlt", "mtu") if getattr(self, one) is not None)
            raise ValueError(
                f'found {key} with layer = "{self.layer}", whose transport goes by what it measures; expected none'
            )
        if self.layer == "mtcp" and self.connections == "shared":
            raise ValueError(
                'found layer = "mtcp", which goes one way only, with connections = "shared"; expected "each"'
            )
        if self.on_return == "cue" and self.layer not in (
            "quiccl",
            "quiccl-each",
            "quiccl-priorities",
            "qubicle",
        ):
            raise ValueError(
                f'found on_return = "cue" with layer = "{self.layer}", whose transport is not told of returns; '
                'expected "alone" or "reopen"'
            )
        if self.on_return != "alone" and self.closed == "with_contact":
            raise ValueError(
                f'found on_return = "{self.on_return}" with closed = "with_contact", so that no connection is there; '
                'expected closed = "never"'
            )
        if self.tls != "no" and self.layer != "tcpcl":
            over = "is in clear" if self.layer in IN_CLEAR else "is over QUIC, which has TLS"
            raise ValueError(
                f'found tls = "{self.tls}" with layer = "{self.layer}", which {over}; expected "tcpcl"'
            )
        if self.fingerprint is not None and self.tls != "require":
            raise ValueError(f'found a fingerprint with tls = "{self.tls}", expected "require"')
        if self.pin is not None:
            if self.fingerprint is not None:
                raise ValueError("found pin and fingerprint, expected one of them")
            self.proving("pin")
        if self.connections == "each" and (self.listen is None or self.peer is None):
            raise ValueError('found connections = "each", expected listen and peer')
        return self

    def _unconnected(self) -> None:
        """LTP has no connections, and no controller."""
        if self.peer is None:
            raise ValueError(
                f'found no peer with layer = "{self.layer}", which has no connections that the neighbour could open; '
                "expected one"
            )
        other = {"connections", "closed", "on_return", "congestion", "idle_timeout", "by_plan"}
        for key in sorted(other & self.model_fields_set):
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(
                    f'found {key} = "{getattr(self, key)}" with layer = "{self.layer}", which has neither connections '
                    "nor a controller; expected none"
                )
        check_udp_payload(self.mtu)

    def proving(self, key: str) -> None:
        """Raises ValueError where a neighbour cannot prove who it is, as ``key`` asks it to."""
        if self.layer in IN_CLEAR:
            raise ValueError(
                f'found {key} with layer = "{self.layer}", which is in clear; expected one with TLS'
            )
        if self.layer == "tcpcl" and "tls" in self.model_fields_set and self.tls != "require":
            raise ValueError(f'found {key} with tls = "{self.tls}", expected "require", or no tls')


class Shown(NamedTuple):
    """What the command line says of who is who, before the file."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    pins: tuple[str, ...] = ()

    def into(self, data: dict[str, Any], source: str) -> None:
        """Writes it into the tables of a node's file. Raises ScenarioError: a pin of nobody."""
        for key in ("certificate", "key", "authority"):
            if (path := getattr(self, key)) is not None:
                data[key] = str(path.resolve())
        tables = data.get("neighbour")
        tables = [one for one in tables if isinstance(one, dict)] if isinstance(tables, list) else []
        for pin in self.pins:
            name, _, digits = pin.partition("=")
            if not (of := [one for one in tables if str(one.get("name")) == name]):
                text = unknown_name(name, [str(one.get("name")) for one in tables], "neighbour")
                raise ScenarioError([("--pin", text)], source)
            of[0]["pin"] = digits


class NodeFile(ContactPlan):
    """A bundle node on real sockets; contacts are its own tables or those of the file ``plan``. ``certificate`` and
    ``key`` are files in PEM, which it shows in TLS; neighbours have to show one of ``authority``. ``integrity`` is what
    it signs and checks, with the keys of the file ``keys``; ``routing`` and ``copies`` are as in a scenario."""

    name: NodeName | None = None
    plan: StrictStr | None = None
    certificate: StrictStr | None = None
    key: StrictStr | None = None
    authority: StrictStr | None = None
    keys: StrictStr | None = None
    integrity: Integrity | None = None
    routing: Routing = "sabr"
    copies: Copies | None = None
    node: list[RealNode] = Field(default_factory=list)
    neighbour: list[RealNeighbour] = Field(min_length=1)

    @model_validator(mode="after")
    def _of_routing(self) -> NodeFile:
        check_routing(self.routing, self.copies, static_routes=bool(self.route))
        return self

    @model_validator(mode="after")
    def _identity(self) -> NodeFile:
        if (self.certificate is None) != (self.key is None):
            raise ValueError(
                "found certificate without key or key without certificate, expected both or neither"
            )
        if self.keys is not None and self.integrity is None:
            raise ValueError("found keys without integrity, which would use them; expected both or neither")
        if self.authority is not None:
            if self.certificate is None:
                raise ValueError("found authority without certificate and key, which neighbours will ask for")
            for one in self.neighbour:
                if one.fingerprint is not None:
                    raise ValueError(
                        f"found authority, and a fingerprint of neighbour {one.name}; expected pin"
                    )
                if one.pin is None:
                    one.proving("authority")
        return self


def node_file(file: Path, shown: Shown | None = None) -> tuple[NodeFile, PlanSpec]:
    """A node and its contact plan, in the engine's words; what is ``shown`` goes before what the file says.

    Raises:
        ScenarioError: no such file, or what is wrong with it, by its keys.
    """
    name = str(file)
    if file.suffix not in (".toml", ".json"):
        text = (
            'expected a node in TOML (.toml) or JSON (.json); a plan in ION\'s commands is its plan = "FILE"'
        )
        raise ScenarioError([("", text)], name)
    data = tables(file, "a table with neighbour")
    if shown is not None:
        shown.into(data, name)
    try:
        found = NodeFile.model_validate(data)
        spec: Any = found.spec()
    except ValidationError as error:
        raise from_pydantic(error, data, name) from None
    except ScenarioError as error:
        raise error.with_source(name) from None
    if found.plan is not None:
        if found.contact or found.range:
            raise ScenarioError([("plan", "found beside contact or range, expected one of them")], name)
        other = read(file.parent / found.plan)
        spec = dict(other.spec)
        hops = [NextHop(at=at, to=to, via=via) for at, to, via in other.statics]
        try:
            check_routing(found.routing, found.copies, static_routes=bool(hops))
        except ValueError as error:
            raise ScenarioError([("plan", str(error))], name) from None
        found = found.model_copy(update={"route": [*found.route, *hops]})
    elif problems := engine.check_contact_plan(spec)["problems"]:
        raise ScenarioError([(" and ".join(one["at"]), one["text"]) for one in problems], name)
    for key, members in (("node", found.node), ("neighbour", found.neighbour)):
        names = [one.name for one in members]
        if twice := [one for number, one in enumerate(names) if one in names[:number]]:
            raise ScenarioError([(f"{key}.{twice[0]}", "is there twice, expected each name once")], name)
    return found, cast("PlanSpec", spec)
