"""Detection of split TCP on a real access from captures at the client.

The detection compares three round trips. SYN to SYN-ACK ends at the TCP endpoint, which is a proxy if it answers for
the server. ClientHello to ServerHello ends at the server, because a proxy has no key. The handshake of QUIC ends there
too. If the first round trip is shorter, TCP is split at its distance (Thomas 2018, section 5.1.2).

A proxy that waits for the SYN-ACK of the server before its own is not visible in these times. It is visible in the
growth of the received data. An end-to-end sender doubles its initial window once per round trip (RFC 9293, RFC 5681). A
proxy behind the long delay already has a large window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bentpipe.metrics.intervals import format_significant, median_ci

__all__ = ["Fact", "Verdict", "detect_split_tcp", "round_trips"]

MARGIN_MS = 5.0
"""Maximum delay in ms of ServerHello after a round trip, for cryptography and scheduling of the server."""

MARGIN_RATIO = 0.02
"""Margin as a ratio of the RTT, because access layers that grant airtime vary the RTT of a path."""

STARTUP_END_RATIO = 0.8
"""Ratio of the bytes of a round trip to the largest ones at which the start-up is over."""

SEGMENT = 1460
MAX_INITIAL_WINDOW = 100
"""Upper bound in segments: RFC 6928 has 10, the servers of Thomas et al. 2019 had 32 (section 2.3)."""


@dataclass(frozen=True)
class Fact:
    """Measured quantity, its value and its interpretation."""

    what: str
    found: str
    says: str

    def row(self) -> dict[str, str]:
        """Return the fact as a row of a table."""
        return {"measured": self.what, "found": self.found, "says": self.says}


@dataclass(frozen=True)
class Verdict:
    """Result of the detection."""

    answer: Literal["split", "not split", "uncertain"]
    text: str
    facts: tuple[Fact, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as data for ``--json``."""
        return {"answer": self.answer, "text": self.text, "facts": [fact.row() for fact in self.facts]}


def round_trips(times_ms: Sequence[tuple[float, int]], rtt_ms: float) -> list[int]:
    """Return the received bytes of each round trip; ``times_ms`` are pairs of time in ms and bytes."""
    if not times_ms or rtt_ms <= 0:
        return []
    zero = times_ms[0][0]
    # The packets of a window are sent within a round trip and arrive with the jitter of the path.
    windows = [0] * (int((times_ms[-1][0] - zero) / rtt_ms) + 1)
    for time, count in times_ms:
        windows[int((time - zero) / rtt_ms)] += count
    return windows


def detect_split_tcp(units: Sequence[Mapping[str, Any]]) -> Verdict:
    """Detect split TCP from the connections of sessions (``connections`` of unit.json)."""
    found = [one for unit in units for one in unit.get("connections", [])]
    tcp = [one for one in found if one["transport"] == "tcp"]
    syn = [one["handshake_ms"] for one in tcp if one["handshake_ms"] is not None and not one["again"]]
    tls = [one["tls_ms"] for one in tcp if one["tls_ms"] is not None and not one["again"]]
    quic = [
        one["handshake_ms"] for one in found if one["transport"] == "quic" and one["handshake_ms"] is not None
    ]
    facts = [
        _times("TCP: SYN to SYN-ACK", syn, "RTT to the TCP endpoint"),
        _times("TCP: ClientHello to ServerHello", tls, "RTT to the server"),
        _times("QUIC: first Initial to its response", quic, "RTT to the server"),
    ]
    whole = tls or quic
    if not syn or not whole:
        missing = "SYN" if not syn else "TLS or QUIC handshake"
        return Verdict("uncertain", f"Uncertain: the captures have no {missing}.", tuple(facts))
    # The minimum of each, because queueing only adds delay.
    syn_ms, server_ms = min(syn), min([*tls, *quic])
    difference_ms = server_ms - syn_ms
    margin = max(MARGIN_MS, MARGIN_RATIO * server_ms)
    growth, verdict = _startup_growth(tcp, server_ms)
    facts += [Fact("difference of the minima", f"{difference_ms:.1f} ms",
                   f"a split if above {2 * margin:.1f} ms"), growth]  # fmt: skip
    if difference_ms > 2 * margin:
        share = syn_ms / server_ms
        where = (
            "close to the client" if share < 0.2 else "close to the server" if share > 0.8 else "on the path"
        )
        text = (
            f"TCP is split: its endpoint responds after {syn_ms:.1f} ms, the server after "
            f"{server_ms:.1f} ms; the proxy is {where}."
        )
        if not quic:
            text += (
                " The time includes any connection of the proxy to the server; HTTP/3 would separate them."
            )
        return Verdict("split", text, tuple(facts))
    if verdict == "fast":
        text = (
            "TCP is split: the handshake takes as long as the server's response, but data arrives "
            "faster than slow start allows. A proxy relays the handshake; its position is "
            "unknown."
        )
        return Verdict("split", text, tuple(facts))
    if difference_ms <= margin and verdict == "slow":
        text = "No sign of a split: handshakes take the same time, and received data grows as in slow start."
        return Verdict("not split", text, tuple(facts))
    why = (
        "the difference is within the processing time of a server"
        if difference_ms > margin
        else "too little data to detect slow start"
    )
    return Verdict(
        "uncertain", f"Uncertain: {why}; a longer download over HTTP/2 gives more evidence.", tuple(facts)
    )


def _times(what: str, values: Sequence[float], says: str) -> Fact:
    if not values:
        return Fact(what, "–", says)
    found = median_ci(values)
    text = f"min {format_significant(min(values))} ms, median {format_significant(found.estimate)}"
    if found.low is not None and found.high is not None:
        text += f" [{format_significant(found.low)}, {format_significant(found.high)}]"
    return Fact(what, f"{text} ms, n = {len(values)}", says)


def _startup_growth(
    tcp: Sequence[Mapping[str, Any]], rtt_ms: float
) -> tuple[Fact, Literal["fast", "slow", "unknown"]]:
    """Compare the round trips of the start-up with slow start from the largest initial window of servers."""
    what = "TCP: RTTs until an RTT delivers 80 % of the maximum"
    trips: list[int] = []
    needed: list[int] = []
    for one in tcp:
        windows = round_trips(one["received"], rtt_ms)
        if len(windows) < 3:
            continue
        most = max(windows)
        if STARTUP_END_RATIO * most <= 2 * MAX_INITIAL_WINDOW * SEGMENT:
            continue
        trips.append(next(index for index, size in enumerate(windows) if size >= STARTUP_END_RATIO * most))
        # From a window W, the k-th round trip after the first brings at most W 2^k.
        needed.append(math.ceil(math.log2(STARTUP_END_RATIO * most / (MAX_INITIAL_WINDOW * SEGMENT))))
    if not trips:
        return Fact(what, "–", "too little data to detect slow start"), "unknown"
    measured, expected = sorted(trips)[len(trips) // 2], min(needed)
    says = f"slow start from {MAX_INITIAL_WINDOW} segments needs {expected}"
    return Fact(what, f"{measured}, n = {len(trips)}", says), "fast" if measured < expected else "slow"
