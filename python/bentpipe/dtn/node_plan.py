"""The plan of a bundle node on real sockets, of its file (``NodePlan`` of ``lab/process_plans.py``).

Time zero of a node is its start: a contact plan that has an epoch is shifted to it, that of one without begins with it.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bentpipe.dtn.bundle_keys import secrets_of
from bentpipe.dtn.node_config import OVER_UDP
from bentpipe.plan.dtn.integrity import integrity_spec
from bentpipe.plan.dtn.nodes import SINCE_2000_S, add_ltp_rate, cla_spec
from bentpipe.plan.flow.quic import MTU_BYTES, defaults
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.network.contact_plan import FOREVER_NS

if TYPE_CHECKING:
    from bentpipe.dtn.node_config import NodeFile, RealNeighbour
    from bentpipe.lab.process_plans import BundleNodePlan, CertificateFiles, NeighbourPlan, NeighbourTls
    from bentpipe.plan.spec.run_spec import ClaSpec, DtnSpec, PlanSpec
    from bentpipe.scenario.dtn.integrity import Integrity

__all__ = ["node_id", "node_plan"]

WINDOW_BYTES = 64 << 20
"""Flow control and send buffer: 600 ms of a geostationary path at 890 Mbit/s."""

DATAGRAMS = ("quiccl", "quiccl-each", "quiccl-priorities", "qubicle", *OVER_UDP)
"""Layers over UDP."""

LTP_PORT = 1113
"""Where LTP is taken if nothing is said (RFC 5326 section 10.1)."""

UDP_HEADERS = {4: 28, 6: 48}
"""Bytes of IP and UDP headers."""


def node_plan(found: NodeFile, contacts: PlanSpec, name: str | None, source: str) -> BundleNodePlan:
    """What the node of a file is told.

    Args:
        found: the file.
        contacts: its contact plan.
        name: which node it is, before what the file says.
        source: the file, for messages.

    Raises:
        ScenarioError: what is wrong, by its key.
    """
    own = name or found.name
    if own is None:
        raise ScenarioError([("name", "is missing, expected this node's name, or --name")], source)
    neighbours = [one.name for one in found.neighbour]
    if own in neighbours:
        raise ScenarioError([(f"neighbour.{own}", "is this node itself, expected another one")], source)
    for number, hop in enumerate(found.route, 1):
        if hop.at == own and hop.via not in neighbours:
            text = unknown_name(hop.via, neighbours, "neighbour")
            raise ScenarioError([(f"route[{number}].via", text)], source)
    folder = Path(source).parent
    doors = []
    for one in found.neighbour:
        try:
            layer = add_ltp_rate(
                cla_spec(one.layer, _policy(one, found)),
                (one.rate, one.owlt),
                (own, one.name),
                contacts["contacts"],
                f"neighbour.{one.name}.rate",
            )
        except ScenarioError as error:
            raise error.with_source(source) from None
        doors += _doors(one, layer, source, _tls(one, found, folder))
    plan: BundleNodePlan = {"name": own, "dtn": _dtn(found, contacts, own), "doors": doors}
    if found.integrity is not None:
        _prove(plan, found.integrity, None if found.keys is None else folder / found.keys, source)
    return plan


def _prove(plan: BundleNodePlan, asked: Integrity, keys: Path | None, source: str) -> None:
    """The node of ``plan`` signs and checks what is ``asked``. Raises ScenarioError."""
    nodes = plan["dtn"]["nodes"]
    try:
        words = integrity_spec(asked, [node["name"] for node in nodes], "integrity")
    except ScenarioError as error:
        raise error.with_source(source) from None
    next(node for node in nodes if node["name"] == plan["name"])["integrity"] = words
    plan["keys"] = secrets_of(asked, keys, source)


def _dtn(found: NodeFile, contacts: PlanSpec, own: str) -> DtnSpec:
    now_ns = time.time_ns()
    said = {one.name: one for one in found.node}
    neighbours = [one.name for one in found.neighbour]
    hops = [(hop.to, hop.via) for hop in found.route if hop.at == own]
    if not contacts["contacts"] and found.routing == "sabr":
        told = {to for to, _ in hops}
        hops += [(one, one) for one in neighbours if one not in told]
        if len(neighbours) == 1 and None not in told:
            hops.append((None, neighbours[0]))
    known = [end for one in contacts["contacts"] for end in (one["from"], one["to"])]
    routes = [end for hop in found.route for end in (hop.at, hop.to, hop.via) if end is not None]
    names = dict.fromkeys([own, *neighbours, *said, *known, *routes])
    nodes = [
        {
            "name": name,
            "eid": (said[name].eid if name in said else None) or node_id(name),
            "store_bytes": store.bytes if name in said and (store := said[name].store) else None,
            "routes": [{"to": to, "via": via} for to, via in hops] if name == own else [],
        }
        for name in names
    ]
    words: dict[str, Any] = {
        "epoch_ms": now_ns // 10**6 - SINCE_2000_S * 1000,
        "nodes": nodes,
        "links": [],
        "plan": _shifted(contacts, now_ns),
    }
    if found.routing == "epidemic":
        words["epidemic"] = {} if found.copies is None else {"copies": found.copies}
    return cast("DtnSpec", words)


def node_id(name: str) -> str:
    """The node id of a name: the same in the files of all nodes."""
    if ":" in name:
        return name
    return f"ipn:{name}.0" if name.isascii() and name.isdigit() else f"dtn://{name}/"


def _shifted(plan: PlanSpec, now_ns: int) -> dict[str, Any]:
    """``plan``, its times from now on; of what is over only that it was planned."""
    epoch = plan.get("epoch_unix_s")
    passed = 0 if epoch is None else now_ns - epoch * 10**9
    rows: dict[str, list[dict[str, Any]]] = {"contacts": [], "ranges": []}
    for key, of in rows.items():
        held: list[dict[str, Any]] = plan.get(key, [])  # type: ignore[assignment]
        for one in held:
            stop = FOREVER_NS if one["stop_ns"] >= FOREVER_NS else one["stop_ns"] - passed
            if stop > 0:
                of.append(one | {"start_ns": max(0, one["start_ns"] - passed), "stop_ns": stop})
    planned = dict.fromkeys((one["from"], one["to"]) for one in plan["contacts"])
    left = {(one["from"], one["to"]) for one in rows["contacts"]}
    over = [{"from": start, "to": end} for start, end in planned if (start, end) not in left]
    return {"epoch_unix_s": None, "nodes": list(plan.get("nodes", ())), **rows, "over": over}


def _doors(one: RealNeighbour, layer: ClaSpec, source: str, tls: NeighbourTls) -> list[NeighbourPlan]:
    key = f"neighbour.{one.name}"
    kind = socket.SOCK_DGRAM if one.layer in DATAGRAMS else socket.SOCK_STREAM
    peer = None if one.peer is None else _address(one.peer, f"{key}.peer", source, kind)
    six = peer is not None and peer.startswith("[")
    usual = LTP_PORT if layer["kind"] == "ltp" else 0
    any_port = f"[::]:{usual}" if six else f"0.0.0.0:{usual}"
    if layer["kind"] == "ltp":
        layer["header_bytes"] = UDP_HEADERS[6 if six else 4]
        layer["segment_bytes"] = MTU_BYTES if one.mtu is None else one.mtu.bytes
    listen = any_port if one.listen is None else _address(one.listen, f"{key}.listen", source, kind)
    if peer is not None and one.listen is not None and peer.startswith("[") != listen.startswith("["):
        raise ScenarioError([(f"{key}.peer", f"found {peer}, and listen = {listen} of the other IP")], source)
    quic = defaults(MTU_BYTES, 6, (WINDOW_BYTES, WINDOW_BYTES))
    quic |= {"crypto": "rustls"}
    each = one.connections == "each"
    ways = [(listen, None, False), (any_port, peer, True)] if each else [(listen, peer, True)]
    return [
        {
            "neighbour": one.name,
            "layer": layer,
            "listen": at,
            "peer": to,
            "sends": sends,
            "with_contact": one.opened == "with_contact",
            "closes": one.closed == "with_contact",
            "on_return": one.on_return,
            "quic": quic,
            "congestion": {"name": one.congestion, "options": {}},
            "idle_timeout_ns": one.idle_timeout.ns,
            "by_plan": one.by_plan,
            "tls": tls,
        }
        for at, to, sends in ways
    ]


def _policy(one: RealNeighbour, found: NodeFile) -> str:
    """Whether the layer begins TLS: it has to where the neighbour has to prove who it is."""
    proves = one.layer == "tcpcl" and (found.authority is not None or one.pin is not None)
    return "require" if proves else one.tls


def _tls(one: RealNeighbour, found: NodeFile, folder: Path) -> NeighbourTls:
    """What a neighbour is shown, and what it has to show."""
    files: CertificateFiles | None = None
    if found.certificate is not None and found.key is not None:
        files = {"certificate": str(folder / found.certificate), "key": str(folder / found.key)}
    # whose key is known needs nobody's word
    authority = None if found.authority is None or one.pin else str(folder / found.authority)
    return {
        "certificate": files,
        "fingerprint": one.fingerprint,
        "authority": authority,
        "pin": one.pin,
    }


def _address(text: str, key: str, source: str, kind: int) -> str:
    """``ADDRESS:PORT`` of a host and a port. Raises ScenarioError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    least = 1 if key.endswith(".peer") else 0
    if (
        not colon
        or not host
        or not (port.isascii() and port.isdigit())
        or not least <= int(port[:6]) <= 65_535
    ):
        example = 'expected "ADDRESS:PORT", such as "192.0.2.1:4556" or "[2001:db8::1]:4556"'
        raise ScenarioError([(key, f'found "{text}", {example}')], source)
    try:
        found = socket.getaddrinfo(host, int(port), type=kind)[0]
    except OSError as error:
        raise ScenarioError([(key, f'found "{host}": {error.strerror}')], source) from None
    address = found[4][0]
    return f"[{address}]:{port}" if found[0] == socket.AF_INET6 else f"{address}:{port}"
