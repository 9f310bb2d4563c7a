"""Closed forms of slow start, and of the round trips to the first byte of a response.

``docs/explanation/web.md`` has the table of round trips of ``first_byte_ns``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.spec.queries import document_chain

if TYPE_CHECKING:
    from bentpipe.plan.network.graph import Hop
    from bentpipe.plan.spec.run_spec import FlowSpec, ProxySpec, RunSpec

__all__ = ["SplitConnection", "first_byte_ns", "slow_start_s", "split_connections"]

TLS_ROUNDS = {"1.2": 2, "1.2-false-start": 1, "1.3": 1}
"""Round trips of a full handshake before the request (RFC 5246 section 7.3, RFC 7918, RFC 8446 section 2)."""


def slow_start_s(rate_bit_s: int, rtt_ns: int, window_bytes: int, *, one_way: bool = False) -> float:
    """Return log2(BDP / initial window) round trips in seconds; 0 if the window is not below the BDP.

    Args:
        rate_bit_s: the rate of the bottleneck.
        rtt_ns: the round-trip time.
        window_bytes: the initial window.
        one_way: whether the BDP is that of one direction, with half of the round-trip time.
    """
    bdp = rate_bit_s * rtt_ns / 8e9 / (2 if one_way else 1)
    return math.log2(bdp / window_bytes) * rtt_ns / 1e9 if bdp > window_bytes else 0.0


@dataclass(frozen=True, slots=True)
class SplitConnection:
    """Route between two nodes that terminate TCP; a side is a proxy, or None for an end of the flow."""

    name: str
    links: int
    rtt_ns: int
    client_side: ProxySpec | None
    server_side: ProxySpec | None


def split_connections(spec: RunSpec, up: Sequence[Hop], down: Sequence[Hop]) -> list[SplitConnection]:
    """Return the route of a flow, split at the proxies of the resolved run.

    Args:
        spec: the resolved run.
        up: the hops from client to server.
        down: the hops from server to client.
    """
    proxies = {proxy["node"]: proxy for proxy in spec.get("proxies", ())}
    links = {link["name"]: link for link in spec["graph"]["links"]}
    connections: list[SplitConnection] = []
    names: list[str] = []
    rtt = 0
    client_side: ProxySpec | None = None
    for up_hop, down_hop in zip(up, reversed(down), strict=True):
        link, direction = up_hop.name.rsplit(".", 1)
        names.append(link)
        rtt += up_hop.delay_ns + down_hop.delay_ns
        end = links[link]["server_side" if direction == "up" else "client_side"]
        if end in proxies:
            connections.append(SplitConnection("+".join(names), len(names), rtt, client_side, proxies[end]))
            names, rtt, client_side = [], 0, proxies[end]
    return [*connections, SplitConnection("+".join(names), len(names), rtt, client_side, None)]


def first_byte_ns(spec: RunSpec, flow: FlowSpec, up: Sequence[Hop], down: Sequence[Hop]) -> int | None:
    """Return responseStart - connectStart of the first load of a page in ns; None without a page.

    It includes only propagation, without Fast Open. A host with an open connection takes item round trip, also if an
    earlier redirect opened it.
    """
    load = flow["load"]
    if load["kind"] != "page":
        return None
    rtt = sum(hop.delay_ns for hop in (*up, *down))
    page, total = load["page"], 0
    connected = {number for number, host in enumerate(page["hosts"]) if host["open"]}
    for item in document_chain(page):
        total += item["think_ns"] + rtt
        if item["host"] in connected:
            continue
        connected.add(item["host"])
        has_tls = page["hosts"][item["host"]].get("tls", True)
        if has_tls and load["http"] == "3":
            total += rtt
        else:
            total += handshake_ns(split_connections(spec, up, down))
            total += TLS_ROUNDS[load["tls"]["version"]] * rtt if has_tls else 0
    return total


def handshake_ns(connections: Sequence[SplitConnection]) -> int:
    """Return the delay of the first data at the server due to the TCP handshakes of all connections, in ns."""
    syn_ns = [
        sum(connection.rtt_ns for connection in connections[:index]) // 2 for index in range(len(connections))
    ]
    ready_ns = [0] * len(connections)
    for index in reversed(range(len(connections))):
        connection = connections[index]
        syn_ack_ns = syn_ns[index] + connection.rtt_ns // 2
        if connection.server_side is not None and connection.server_side["handshake"] == "relayed":
            syn_ack_ns = max(syn_ack_ns, ready_ns[index + 1])
        is_pooled = connection.client_side is not None and connection.client_side["handshake"] == "pooled"
        ready_ns[index] = syn_ns[index] if is_pooled else syn_ack_ns + connection.rtt_ns // 2
    data_ns = 0
    for index, connection in enumerate(connections):
        data_ns = max(data_ns, ready_ns[index]) + connection.rtt_ns // 2
    return data_ns - sum(connection.rtt_ns for connection in connections) // 2
