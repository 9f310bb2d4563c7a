"""Is TCP split on a real access, and where? What a client can see of it, with the reasoning.

Three round trips are compared. SYN to SYN-ACK ends where TCP ends: at a proxy, if there is one that answers for the
server. ClientHello to ServerHello ends at the server, as a proxy has no key; so does QUIC's handshake. Where the first
is shorter, TCP is split at its distance (Thomas 2018, section 5.1.2). A proxy that waits for the server's answer before
it gives its own hides from that, but not from the growth of what is received: end to end a sender doubles from its
initial window once a round trip (RFC 9293, RFC 5681), a proxy behind the long delay has its window already.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bentpipe.metrics.intervals import format_significant, median_ci

__all__ = ["Fact", "Verdict", "detect_split_tcp", "round_trips"]

MARGIN_MS = 5.0
"""A server's cryptography and its scheduling: by so much ServerHello may be later than a round trip."""

MARGIN_PART = 0.02
"""Of the round trip: access layers that grant air time make two of one path unlike each other."""

REACHED = 0.8
"""Of the largest round trip's bytes: the start-up is over."""

SEGMENT = 1460
LARGEST_WINDOW = 100
"""Segments, on the safe side: RFC 6928 has 10, the servers of Thomas et al. 2019 had 32 (section 2.3)."""


@dataclass(frozen=True)
class Fact:
    """One thing that was measured, and what it says."""

    what: str
    found: str
    says: str

    def row(self) -> dict[str, str]:
        """For a table."""
        return {"measured": self.what, "found": self.found, "says": self.says}


@dataclass(frozen=True)
class Verdict:
    """The answer."""

    answer: Literal["split", "not split", "uncertain"]
    text: str
    facts: tuple[Fact, ...]

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"answer": self.answer, "text": self.text, "facts": [fact.row() for fact in self.facts]}


def round_trips(times_ms: Sequence[tuple[float, int]], rtt_ms: float) -> list[int]:
    """Bytes that came in each round trip from the first on; ``times_ms`` are (instant, bytes)."""
    if not times_ms or rtt_ms <= 0:
        return []
    zero = times_ms[0][0]
    # A flight's packets leave within a round trip and arrive with the spread of the path: half a trip of slack.
    windows = [0] * (int((times_ms[-1][0] - zero) / rtt_ms) + 1)
    for time, count in times_ms:
        windows[int((time - zero) / rtt_ms)] += count
    return windows


def detect_split_tcp(units: Sequence[Mapping[str, Any]]) -> Verdict:
    """What the connections of units say (``connections`` of unit.json)."""
    found = [one for unit in units for one in unit.get("connections", [])]
    tcp = [one for one in found if one["transport"] == "tcp"]
    syn = [one["handshake_ms"] for one in tcp if one["handshake_ms"] is not None and not one["again"]]
    tls = [one["tls_ms"] for one in tcp if one["tls_ms"] is not None and not one["again"]]
    quic = [
        one["handshake_ms"] for one in found if one["transport"] == "quic" and one["handshake_ms"] is not None
    ]
    facts = [
        _times("TCP: SYN to SYN-ACK", syn, "how far TCP's other end is"),
        _times("TCP: ClientHello to ServerHello", tls, "how far the server is"),
        _times("QUIC: first Initial to its answer", quic, "how far the server is"),
    ]
    whole = tls or quic
    if not syn or not whole:
        missing = "SYN" if not syn else "TLS or QUIC handshake"
        return Verdict("uncertain", f"Uncertain: no {missing} was captured.", tuple(facts))
    # The least of each: delay only adds.
    near, far = min(syn), min([*tls, *quic])
    gap = far - near
    margin = max(MARGIN_MS, MARGIN_PART * far)
    growth, verdict = _growth(tcp, far)
    facts += [Fact("the difference of the least ones", f"{gap:.1f} ms", f"a split, if it is above {2 * margin:.1f} ms"),
              growth]  # fmt: skip
    if gap > 2 * margin:
        share = near / far
        where = (
            "close to the client" if share < 0.2 else "close to the server" if share > 0.8 else "on the way"
        )
        text = (
            f"TCP is split: its other end answers after {near:.1f} ms, the server after {far:.1f} ms; the proxy is "
            f"{where}."
        )
        if not quic:
            text += " A proxy that first connects to the server itself has that in its time, too: HTTP/3 would tell."
        return Verdict("split", text, tuple(facts))
    if verdict == "fast":
        text = (
            "TCP is split: its handshake takes as long as the server's answer, but it receives faster than slow start "
            "allows; a proxy relays the handshake. Where it stands does not show."
        )
        return Verdict("split", text, tuple(facts))
    if gap <= margin and verdict == "slow":
        text = (
            "No sign of a split: handshakes take the same time, and what is received grows as in slow start."
        )
        return Verdict("not split", text, tuple(facts))
    why = (
        "the difference is within what a server needs"
        if gap > margin
        else "too little was received to see slow start"
    )
    return Verdict("uncertain", f"Uncertain: {why}; a longer download by HTTP/2 shows more.", tuple(facts))


def _times(what: str, values: Sequence[float], says: str) -> Fact:
    if not values:
        return Fact(what, "–", says)
    found = median_ci(values)
    text = f"least {format_significant(min(values))} ms, median {format_significant(found.estimate)}"
    if found.low is not None and found.high is not None:
        text += f" [{format_significant(found.low)}, {format_significant(found.high)}]"
    return Fact(what, f"{text} ms, n = {len(values)}", says)


def _growth(
    tcp: Sequence[Mapping[str, Any]], rtt_ms: float
) -> tuple[Fact, Literal["fast", "slow", "unknown"]]:
    """Round trips until the rate is reached, against slow start from the largest window that servers have."""
    what = "TCP: round trips until 80 % of the largest one's bytes"
    trips: list[int] = []
    needed: list[int] = []
    for one in tcp:
        windows = round_trips(one["received"], rtt_ms)
        if len(windows) < 3:
            continue
        most = max(windows)
        if REACHED * most <= 2 * LARGEST_WINDOW * SEGMENT:
            continue
        trips.append(next(index for index, size in enumerate(windows) if size >= REACHED * most))
        # From a window W, the k-th round trip after the first brings at most W 2^k.
        needed.append(math.ceil(math.log2(REACHED * most / (LARGEST_WINDOW * SEGMENT))))
    if not trips:
        return Fact(what, "–", "too little came for slow start to show"), "unknown"
    seen, least = sorted(trips)[len(trips) // 2], min(needed)
    says = f"slow start from {LARGEST_WINDOW} segments needs {least}"
    return Fact(what, f"{seen}, n = {len(trips)}", says), "fast" if seen < least else "slow"
