"""Configuration file of a bundle node: identity, neighbours with their addresses, and contacts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from pydantic import Field, StrictBool, StrictStr, ValidationError, model_validator

from bentpipe.dtn.contact_plan import read, tables
from bentpipe.runners import engine
from bentpipe.scenario.base import DurationText, RateText, SizeText, Table
from bentpipe.scenario.dtn.generated import LAYERS, TRANSPORTS, Layer
from bentpipe.scenario.dtn.integrity import Integrity
from bentpipe.scenario.dtn.nodes import Copies, Routing, check_routing
from bentpipe.scenario.errors import ScenarioError, from_pydantic, unknown_name
from bentpipe.scenario.flow.datagrams import check_udp_payload
from bentpipe.scenario.network.contact_plan import ContactPlan, NextHop, NodeName
from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.plan.spec.run_spec import PlanSpec

__all__ = ["IdentityOptions", "NodeFile", "RealNeighbour", "RealNode", "node_file"]

SHA_256 = "^([0-9a-fA-F]{2}:?){32}$"

WITHOUT_TLS = ("mtcp", *(layer for layer in LAYERS if TRANSPORTS[layer] == "udp"))
"""Layers without TLS."""

EID = r"^(ipn:[0-9]+(\.[0-9]+)?\.0|dtn://[^/\s]+/)$"


class RealNode(Table):
    """Node by name: node id (default: ``ipn:N.0`` for a number, ``dtn://name/`` for other names) and store."""

    name: NodeName
    eid: StrictStr | None = Field(default=None, pattern=EID)
    store: SizeText | None = None


class RealNeighbour(Table):
    """Neighbour: the node accepts its connections at ``listen``, and connects to ``peer``.

    ``connections``: one that both sides use, which the side with ``peer`` opens, or one from each. LTP has none: both
    sides have a ``peer``; ``rate`` and ``owlt`` apply without a planned contact, ``mtu`` is its longest segment.
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
    def _check_keys(self) -> RealNeighbour:
        if self.listen is None and self.peer is None:
            raise ValueError("found neither listen nor peer, expected one of them or both")
        if TRANSPORTS[self.layer] == "udp":
            self._check_ltp()
        elif self.rate is not None or self.owlt is not None or self.mtu is not None:
            key = next(name for name in ("rate", "owlt", "mtu") if getattr(self, name) is not None)
            raise ValueError(
                f'found {key} with layer = "{self.layer}", whose transport measures rate and delay; expected none'
            )
        if self.layer == "mtcp" and self.connections == "shared":
            raise ValueError(
                'found layer = "mtcp", which is unidirectional, with connections = "shared"; expected "each"'
            )
        if self.on_return == "cue" and TRANSPORTS[self.layer] != "quic":
            raise ValueError(
                f'found on_return = "cue" with layer = "{self.layer}", whose transport gets no event of a return; '
                'expected "alone" or "reopen"'
            )
        if self.on_return != "alone" and self.closed == "with_contact":
            raise ValueError(
                f'found on_return = "{self.on_return}" with closed = "with_contact", which leaves no connection; '
                'expected closed = "never"'
            )
        if self.tls != "no" and self.layer != "tcpcl":
            reason = "has no TLS" if self.layer in WITHOUT_TLS else "is over QUIC, which has TLS"
            raise ValueError(
                f'found tls = "{self.tls}" with layer = "{self.layer}", which {reason}; expected "tcpcl"'
            )
        if self.fingerprint is not None and self.tls != "require":
            raise ValueError(f'found a fingerprint with tls = "{self.tls}", expected "require"')
        if self.pin is not None:
            if self.fingerprint is not None:
                raise ValueError("found pin and fingerprint, expected one of them")
            self.require_tls("pin")
        if self.connections == "each" and (self.listen is None or self.peer is None):
            raise ValueError('found connections = "each", expected listen and peer')
        return self

    def _check_ltp(self) -> None:
        """Check the keys of LTP, which has neither connections nor a controller."""
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

    def require_tls(self, key: str) -> None:
        """Raise ValueError if the neighbour cannot authenticate, as ``key`` requires."""
        if self.layer in WITHOUT_TLS:
            raise ValueError(
                f'found {key} with layer = "{self.layer}", which has no TLS; expected a layer with TLS'
            )
        if self.layer == "tcpcl" and "tls" in self.model_fields_set and self.tls != "require":
            raise ValueError(f'found {key} with tls = "{self.tls}", expected "require", or no tls')


class IdentityOptions(NamedTuple):
    """Options of the command line about certificates, which override the file."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    pins: tuple[str, ...] = ()

    def apply(self, data: dict[str, Any], source: str) -> None:
        """Write the options into the tables of a node's file; raise ScenarioError for a pin of an unknown neighbour."""
        for key in ("certificate", "key", "authority"):
            if (path := getattr(self, key)) is not None:
                data[key] = str(path.resolve())
        tables = data.get("neighbour")
        tables = [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
        for pin in self.pins:
            name, _, digits = pin.partition("=")
            if not (matches := [table for table in tables if str(table.get("name")) == name]):
                text = unknown_name(name, [str(table.get("name")) for table in tables], "neighbour")
                raise ScenarioError([("--pin", text)], source)
            matches[0]["pin"] = digits


class NodeFile(ContactPlan):
    """Bundle node on real sockets; contacts are its own tables or those of the file ``plan``.

    ``certificate`` and ``key`` are PEM files that the node presents in TLS. Neighbours must present a certificate of
    ``authority``. ``integrity`` is what the node signs and verifies, with the keys of the file ``keys``. ``routing``
    and
    ``copies`` are as in a scenario.
    """

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
    def _check_routing(self) -> NodeFile:
        check_routing(self.routing, self.copies, static_routes=bool(self.route))
        return self

    @model_validator(mode="after")
    def _check_identity(self) -> NodeFile:
        if (self.certificate is None) != (self.key is None):
            raise ValueError(
                "found certificate without key or key without certificate, expected both or neither"
            )
        if self.keys is not None and self.integrity is None:
            raise ValueError("keys requires integrity")
        if self.authority is not None:
            if self.certificate is None:
                raise ValueError("authority requires certificate and key")
            for neighbour in self.neighbour:
                if neighbour.fingerprint is not None:
                    raise ValueError(
                        f"found authority, and a fingerprint of neighbour {neighbour.name}; expected pin"
                    )
                if neighbour.pin is None:
                    neighbour.require_tls("authority")
        return self


def node_file(file: Path, shown: IdentityOptions | None = None) -> tuple[NodeFile, PlanSpec]:
    """Return the node of a file and its contact plan as the engine reads it.

    Args:
        file: TOML or JSON file.
        shown: options about certificates, which override the file.

    Raises:
        ScenarioError: no such file, or an invalid one, with the keys.
    """
    name = str(file)
    if file.suffix not in (".toml", ".json"):
        text = (
            'expected a node in TOML (.toml) or JSON (.json); a plan in ION\'s commands is its plan = "FILE"'
        )
        raise ScenarioError([("", text)], name)
    data = tables(file, "a table with neighbour")
    if shown is not None:
        shown.apply(data, name)
    try:
        config = NodeFile.model_validate(data)
        spec: Any = config.spec()
    except ValidationError as error:
        raise from_pydantic(error, data, name) from None
    except ScenarioError as error:
        raise error.with_source(name) from None
    if config.plan is not None:
        if config.contact or config.range:
            raise ScenarioError([("plan", "found beside contact or range, expected one of them")], name)
        plan = read(file.parent / config.plan)
        spec = dict(plan.spec)
        routes = [NextHop(at=node, to=to, via=via) for node, to, via in plan.statics]
        try:
            check_routing(config.routing, config.copies, static_routes=bool(routes))
        except ValueError as error:
            raise ScenarioError([("plan", str(error))], name) from None
        config = config.model_copy(update={"route": [*config.route, *routes]})
    elif problems := engine.check_contact_plan(spec)["errors"]:
        raise ScenarioError(
            [(" and ".join(member["declared_at"]), member["text"]) for member in problems], name
        )
    for key, members in (("node", config.node), ("neighbour", config.neighbour)):
        names = [member.name for member in members]
        if duplicates := [member for number, member in enumerate(names) if member in names[:number]]:
            raise ScenarioError([(f"{key}.{duplicates[0]}", "duplicate name, expected each name once")], name)
    return config, cast("PlanSpec", spec)
