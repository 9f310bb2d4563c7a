"""Plan of a bundle node on real sockets from its file (``NodePlan`` of ``lab/process_plans.py``).

Time zero of a node is its start. A contact plan with an epoch is shifted to it; one without an epoch begins with it.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bentpipe.dtn.bundle_keys import read_secrets
from bentpipe.plan.dtn.integrity import integrity_spec
from bentpipe.plan.dtn.nodes import CONTACT_START, SINCE_2000_S, check_ltp_rate
from bentpipe.plan.flow.quic import MTU_BYTES, defaults
from bentpipe.scenario.base import construct_table
from bentpipe.scenario.dtn.generated import TRANSPORTS, ClaOptions
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.network.contact_plan import FOREVER_NS

if TYPE_CHECKING:
    from bentpipe.dtn.node_config import NodeFile, RealNeighbour
    from bentpipe.lab.process_plans import BundleNodePlan, CertificateFiles, NeighbourPlan, NeighbourTls
    from bentpipe.plan.spec.run_spec import ClaSpec, DtnSpec, PlanSpec
    from bentpipe.scenario.dtn.integrity import Integrity

__all__ = ["node_id", "node_plan"]

WINDOW_BYTES = 64 << 20
"""Flow control and send buffer in bytes: 600 ms of a geostationary path at 890 Mbit/s."""

LTP_PORT = 1113
"""Default port of LTP (RFC 5326 section 10.1)."""

UDP_HEADERS = {4: 28, 6: 48}
"""Bytes of IP and UDP headers by IP version."""


def node_plan(config: NodeFile, contacts: PlanSpec, name: str | None, source: str) -> BundleNodePlan:
    """Return the plan of the node of a file.

    Args:
        config: file.
        contacts: contact plan of the file.
        name: name of the node, which overrides the file.
        source: path of the file, for messages.

    Raises:
        ScenarioError: invalid setting, with its key.
    """
    node_name = name or config.name
    if node_name is None:
        raise ScenarioError([("name", "is missing, expected this node's name, or --name")], source)
    neighbours = [neighbour.name for neighbour in config.neighbour]
    if node_name in neighbours:
        raise ScenarioError([(f"neighbour.{node_name}", "is this node itself, expected another one")], source)
    for number, hop in enumerate(config.route, 1):
        if hop.at == node_name and hop.via not in neighbours:
            text = unknown_name(hop.via, neighbours, "neighbour")
            raise ScenarioError([(f"route[{number}].via", text)], source)
    folder = Path(source).parent
    interfaces = []
    for neighbour in config.neighbour:
        options = construct_table(
            ClaOptions, tls=_tls_policy(neighbour, config), rate=neighbour.rate, owlt=neighbour.owlt
        )
        layer = options.to_spec(neighbour.layer)
        try:
            check_ltp_rate(
                layer, (node_name, neighbour.name), contacts["contacts"], f"neighbour.{neighbour.name}.rate"
            )
        except ScenarioError as error:
            raise error.with_source(source) from None
        interfaces += _interfaces(neighbour, layer, source, _tls(neighbour, config, folder))
    plan: BundleNodePlan = {
        "name": node_name,
        "dtn": _dtn(config, contacts, node_name),
        "neighbours": interfaces,
    }
    if config.integrity is not None:
        _add_integrity(plan, config.integrity, None if config.keys is None else folder / config.keys, source)
    return plan


def _add_integrity(plan: BundleNodePlan, settings: Integrity, keys: Path | None, source: str) -> None:
    """Add signing and verification to ``plan``; raise ScenarioError."""
    nodes = plan["dtn"]["nodes"]
    try:
        integrity = integrity_spec(settings, [node["name"] for node in nodes], "integrity")
    except ScenarioError as error:
        raise error.with_source(source) from None
    next(node for node in nodes if node["name"] == plan["name"])["integrity"] = integrity
    plan["keys"] = read_secrets(settings, keys, source)


def _dtn(config: NodeFile, contacts: PlanSpec, node_name: str) -> DtnSpec:
    now_ns = time.time_ns()
    node_settings = {entry.name: entry for entry in config.node}
    neighbours = [entry.name for entry in config.neighbour]
    hops = [(hop.to, hop.via) for hop in config.route if hop.at == node_name]
    if not contacts["contacts"] and config.routing == "sabr":
        routed = {to for to, _ in hops}
        hops += [(entry, entry) for entry in neighbours if entry not in routed]
        if len(neighbours) == 1 and None not in routed:
            hops.append((None, neighbours[0]))
    contact_nodes = [node for entry in contacts["contacts"] for node in (entry["from"], entry["to"])]
    routes = [node for hop in config.route for node in (hop.at, hop.to, hop.via) if node is not None]
    names = dict.fromkeys([node_name, *neighbours, *node_settings, *contact_nodes, *routes])
    nodes = [
        {
            "name": name,
            "eid": (node_settings[name].eid if name in node_settings else None) or node_id(name),
            "store_bytes": store.bytes
            if name in node_settings and (store := node_settings[name].store)
            else None,
            "routes": [{"to": to, "via": via} for to, via in hops] if name == node_name else [],
        }
        for name in names
    ]
    spec: dict[str, Any] = {
        "epoch_ms": now_ns // 10**6 - SINCE_2000_S * 1000,
        "nodes": nodes,
        "links": [],
        "plan": _shift(contacts, now_ns),
    }
    if config.routing == "epidemic":
        spec["epidemic"] = {} if config.copies is None else {"copies": config.copies}
    return cast("DtnSpec", spec)


def node_id(name: str) -> str:
    """Return the node id of a name: equal in the files of all nodes."""
    if ":" in name:
        return name
    return f"ipn:{name}.0" if name.isascii() and name.isdigit() else f"dtn://{name}/"


def _shift(plan: PlanSpec, now_ns: int) -> dict[str, Any]:
    """Return ``plan`` with times from now on; past contacts only as planned pairs."""
    epoch = plan.get("epoch_unix_s")
    elapsed = 0 if epoch is None else now_ns - epoch * 10**9
    rows: dict[str, list[dict[str, Any]]] = {"contacts": [], "ranges": []}
    for key, target in rows.items():
        source: list[dict[str, Any]] = plan.get(key, [])  # type: ignore[assignment]
        for entry in source:
            stop = FOREVER_NS if entry["stop_ns"] >= FOREVER_NS else entry["stop_ns"] - elapsed
            if stop > 0:
                target.append(entry | {"start_ns": max(0, entry["start_ns"] - elapsed), "stop_ns": stop})
    pairs = dict.fromkeys((entry["from"], entry["to"]) for entry in plan["contacts"])
    remaining = {(entry["from"], entry["to"]) for entry in rows["contacts"]}
    over = [
        {"from": start, "to": destination}
        for start, destination in pairs
        if (start, destination) not in remaining
    ]
    return {"epoch_unix_s": None, "nodes": list(plan.get("nodes", ())), **rows, "expired_pairs": over}


def _interfaces(
    neighbour: RealNeighbour, layer: ClaSpec, source: str, tls: NeighbourTls
) -> list[NeighbourPlan]:
    key = f"neighbour.{neighbour.name}"
    kind = socket.SOCK_STREAM if TRANSPORTS[neighbour.layer] == "tcp" else socket.SOCK_DGRAM
    peer = None if neighbour.peer is None else _address(neighbour.peer, f"{key}.peer", source, kind)
    is_ipv6 = peer is not None and peer.startswith("[")
    default_port = LTP_PORT if layer["kind"] == "ltp" else 0
    any_address = f"[::]:{default_port}" if is_ipv6 else f"0.0.0.0:{default_port}"
    if layer["kind"] == "ltp":
        layer["header_bytes"] = UDP_HEADERS[6 if is_ipv6 else 4]
        layer["segment_bytes"] = MTU_BYTES if neighbour.mtu is None else neighbour.mtu.bytes
    listen = (
        any_address if neighbour.listen is None else _address(neighbour.listen, f"{key}.listen", source, kind)
    )
    if peer is not None and neighbour.listen is not None and peer.startswith("[") != listen.startswith("["):
        raise ScenarioError([(f"{key}.peer", f"found {peer}, and listen = {listen} of the other IP")], source)
    quic = defaults(MTU_BYTES, 6, (WINDOW_BYTES, WINDOW_BYTES))
    quic |= {"crypto": "rustls"}
    is_separate = neighbour.connections == "each"
    endpoints = [(listen, None, False), (any_address, peer, True)] if is_separate else [(listen, peer, True)]
    return [
        {
            "neighbour": neighbour.name,
            "cla": layer,
            "listen": listen_address,
            "peer": peer_address,
            "can_send": sends,
            "opens_with_contact": neighbour.opened == "with_contact",
            "closes_after_contact": neighbour.closed == "with_contact",
            "on_contact_start": CONTACT_START[neighbour.on_return],
            "quic": quic,
            "congestion": {"name": neighbour.congestion, "options": {}},
            "idle_timeout_ns": neighbour.idle_timeout.ns,
            "adapts_to_plan": neighbour.by_plan,
            "tls": tls,
        }
        for listen_address, peer_address, sends in endpoints
    ]


def _tls_policy(neighbour: RealNeighbour, config: NodeFile) -> str:
    """Return the TLS policy of the layer: TLS is required where the neighbour must authenticate."""
    must_authenticate = neighbour.layer == "tcpcl" and (
        config.authority is not None or neighbour.pin is not None
    )
    return "require" if must_authenticate else neighbour.tls


def _tls(neighbour: RealNeighbour, config: NodeFile, folder: Path) -> NeighbourTls:
    """Return the certificate for a neighbour, and the one that it must present."""
    files: CertificateFiles | None = None
    if config.certificate is not None and config.key is not None:
        files = {"certificate": str(folder / config.certificate), "key": str(folder / config.key)}
    # a pinned key needs no authority
    authority = None if config.authority is None or neighbour.pin else str(folder / config.authority)
    return {
        "certificate": files,
        "fingerprint": neighbour.fingerprint,
        "authority": authority,
        "pin": neighbour.pin,
    }


def _address(text: str, key: str, source: str, kind: int) -> str:
    """Return ``ADDRESS:PORT`` of a host and a port; raise ScenarioError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    min_port = 1 if key.endswith(".peer") else 0
    if (
        not colon
        or not host
        or not (port.isascii() and port.isdigit())
        or not min_port <= int(port[:6]) <= 65_535
    ):
        example = 'expected "ADDRESS:PORT", such as "192.0.2.1:4556" or "[2001:db8::1]:4556"'
        raise ScenarioError([(key, f'found "{text}", {example}')], source)
    try:
        info = socket.getaddrinfo(host, int(port), type=kind)[0]
    except OSError as error:
        raise ScenarioError([(key, f'found "{host}": {error.strerror}')], source) from None
    address = info[4][0]
    return f"[{address}]:{port}" if info[0] == socket.AF_INET6 else f"{address}:{port}"
