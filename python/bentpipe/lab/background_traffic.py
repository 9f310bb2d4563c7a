"""Simulated users who share an access with a real command: who they are, as flows of a scenario.

The same flows make a run in virtual time and, by ``bentpipe-rt``, one under the real clock: the two can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KINDS", "MIX", "flows", "mix_of", "numbers"]

KINDS: Mapping[str, Mapping[str, Any]] = {
    "tcp": {"transport": "tcp", "congestion": "cubic", "send": "down"},
    "quic": {"transport": "quic", "congestion": "cubic", "send": "down"},
    "call": {"transport": "udp", "load": {"call": "g711"}},
    "page": {
        "transport": "tcp",
        "congestion": "cubic",
        "load": {"page": "almanac-2024", "http": "2", "loads": 1000, "pause": ["5 s", "15 s"]},
    },
}
"""What a user may do: download without end, by TCP or QUIC; be in a telephone call; load one page after the other."""

MIX = "tcp=0.2,call=0.3,page=0.5"
"""Most look at pages, some talk, few download."""

MOST = 1000


def mix_of(text: str) -> dict[str, float]:
    """Shares of the users by what they do, which add up to 1. Raises ScenarioError."""
    found: dict[str, float] = {}
    for part in text.split(","):
        kind, equals, share = (word.strip() for word in part.partition("="))
        if kind not in KINDS:
            raise ScenarioError([("--background-mix", unknown_name(kind, KINDS, "kind of user"))])
        try:
            found[kind] = found.get(kind, 0.0) + (float(share) if equals else 1.0)
        except ValueError:
            raise ScenarioError(
                [("--background-mix", f'found {kind}={share}, expected a share such as "{MIX}"')]
            ) from None
        if not 0 <= found[kind] < float("inf"):
            raise ScenarioError([("--background-mix", f"found {kind}={share}, expected a share of 0 or more")])
    whole = sum(found.values())
    if not whole > 0:
        raise ScenarioError([("--background-mix", "all shares are 0, expected one above")])
    return {kind: share / whole for kind, share in found.items()}


def numbers(users: int, mix: Mapping[str, float]) -> dict[str, int]:
    """How many do what: by the largest remainders, so that all are ``users``. Raises ScenarioError."""
    if not 1 <= users <= MOST:
        raise ScenarioError([("--background-users", f"found {users}, expected a number from 1 to {MOST:,}")])
    exact = {kind: users * share for kind, share in mix.items()}
    count = {kind: int(number + 1e-9) for kind, number in exact.items()}
    by_rest = sorted(exact, key=lambda kind: (count[kind] - exact[kind], list(exact).index(kind)))
    for kind in by_rest[: users - sum(count.values())]:
        count[kind] += 1
    return {kind: number for kind, number in count.items() if number}


def flows(users: int, mix: str) -> list[dict[str, Any]]:
    """Their tables of flows, one a kind. They begin within a second. Raises ScenarioError."""
    return [
        {"name": kind, "count": number, "start_jitter": "1 s", **KINDS[kind]}
        for kind, number in numbers(users, mix_of(mix)).items()
    ]
