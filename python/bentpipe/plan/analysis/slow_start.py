"""Closed forms of how a connection begins: slow start, and round trips to the first byte of a response.

``docs/models/web.md`` has the table of round trips that ``first_byte_ns`` computes.
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
    """log2(BDP / initial window) round trips, in seconds; 0 where the window holds the BDP.

    ``one_way`` takes the BDP of one way (half of the round trip), else that of the whole round trip.
    """
    bdp = rate_bit_s * rtt_ns / 8e9 / (2 if one_way else 1)
    return math.log2(bdp / window_bytes) * rtt_ns / 1e9 if bdp > window_bytes else 0.0


@dataclass(frozen=True, slots=True)
class SplitConnection:
    """The way between two nodes that end TCP connections; a proxy at a side, or None for the flow's own end."""

    name: str
    links: int
    rtt_ns: int
    client_side: ProxySpec | None
    server_side: ProxySpec | None


def split_connections(spec: RunSpec, up: Sequence[Hop], down: Sequence[Hop]) -> list[SplitConnection]:
    """The route of a flow, cut at the proxies of the resolved run."""
    proxies = {proxy["node"]: proxy for proxy in spec.get("proxies", ())}
    links = {link["name"]: link for link in spec["graph"]["links"]}
    found: list[SplitConnection] = []
    names: list[str] = []
    rtt = 0
    before: ProxySpec | None = None
    for there, back in zip(up, reversed(down), strict=True):
        link, way = there.name.rsplit(".", 1)
        names.append(link)
        rtt += there.delay_ns + back.delay_ns
        end = links[link]["server_side" if way == "up" else "client_side"]
        if end in proxies:
            found.append(SplitConnection("+".join(names), len(names), rtt, before, proxies[end]))
            names, rtt, before = [], 0, proxies[end]
    return [*found, SplitConnection("+".join(names), len(names), rtt, before, None)]


def first_byte_ns(spec: RunSpec, flow: FlowSpec, up: Sequence[Hop], down: Sequence[Hop]) -> int | None:
    """responseStart - connectStart of a page's first load: propagation only, without Fast Open; None without a page.

    A host that is connected beforehand takes one round trip, and so does one to which a redirect has led before.
    """
    load = flow["load"]
    if load["kind"] != "page":
        return None
    whole = sum(hop.delay_ns for hop in (*up, *down))
    page, total = load["page"], 0
    connected = {number for number, host in enumerate(page["hosts"]) if host["open"]}
    for one in document_chain(page):
        total += one["think_ns"] + whole
        if one["host"] in connected:
            continue
        connected.add(one["host"])
        has_tls = page["hosts"][one["host"]].get("tls", True)
        if has_tls and load["http"] == "3":
            total += whole
        else:
            total += handshake_ns(split_connections(spec, up, down))
            total += TLS_ROUNDS[load["tls"]["version"]] * whole if has_tls else 0
    return total


def handshake_ns(way: Sequence[SplitConnection]) -> int:
    """How much later than at once the first data reaches the server, over the TCP handshakes of all legs."""
    syn = [sum(leg.rtt_ns for leg in way[:index]) // 2 for index in range(len(way))]
    ready = [0] * len(way)
    for index in reversed(range(len(way))):
        leg = way[index]
        answered = syn[index] + leg.rtt_ns // 2
        if leg.server_side is not None and leg.server_side["setup"] == "relayed":
            answered = max(answered, ready[index + 1])
        pooled = leg.client_side is not None and leg.client_side["setup"] == "pooled"
        ready[index] = syn[index] if pooled else answered + leg.rtt_ns // 2
    data = 0
    for index, leg in enumerate(way):
        data = max(data, ready[index]) + leg.rtt_ns // 2
    return data - sum(leg.rtt_ns for leg in way) // 2
