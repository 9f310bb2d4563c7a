"""Background traffic: simulated users who share an access with a real command, as flows of a scenario.

The same flows make a run in simulation and, by ``bentpipe-rt``, one in emulation, so that both can be
compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KINDS", "MIX", "count_users", "flows", "parse_mix"]

KINDS: Mapping[str, Mapping[str, Any]] = {
    "tcp": {"transport": "tcp", "congestion": "cubic", "direction": "down"},
    "quic": {"transport": "quic", "congestion": "cubic", "direction": "down"},
    "call": {"transport": "udp", "load": {"call": "g711"}},
    "page": {
        "transport": "tcp",
        "congestion": "cubic",
        "load": {"page": "almanac-2024", "http": "2", "loads": 1000, "pause": ["5 s", "15 s"]},
    },
}
"""Kinds of users and their flows.

A user downloads without end by TCP or QUIC, is in a telephone call, or loads one page after the other."""

MIX = "tcp=0.2,call=0.3,page=0.5"
"""Default mix: most users load pages, some are in a call, few download."""

MAX_USERS = 1000
"""Maximum number of users."""


def parse_mix(text: str) -> dict[str, float]:
    """Return the shares of the users by kind, which add up to 1.

    Args:
        text: mix such as :data:`MIX`.

    Raises:
        ScenarioError: the mix is invalid.
    """
    shares: dict[str, float] = {}
    for part in text.split(","):
        kind, equals, share = (part_text.strip() for part_text in part.partition("="))
        if kind not in KINDS:
            raise ScenarioError([("--background-mix", unknown_name(kind, KINDS, "kind of user"))])
        try:
            shares[kind] = shares.get(kind, 0.0) + (float(share) if equals else 1.0)
        except ValueError:
            raise ScenarioError(
                [("--background-mix", f'found {kind}={share}, expected a share such as "{MIX}"')]
            ) from None
        if not 0 <= shares[kind] < float("inf"):
            raise ScenarioError(
                [("--background-mix", f"found {kind}={share}, expected a share of 0 or more")]
            )
    total = sum(shares.values())
    if not total > 0:
        raise ScenarioError([("--background-mix", "all shares are 0, expected one above")])
    return {kind: share / total for kind, share in shares.items()}


def count_users(users: int, mix: Mapping[str, float]) -> dict[str, int]:
    """Return the number of users of each kind, by the largest-remainder method.

    Args:
        users: total number.
        mix: shares by kind.

    Raises:
        ScenarioError: the total is out of range.
    """
    if not 1 <= users <= MAX_USERS:
        raise ScenarioError(
            [("--background-users", f"found {users}, expected a number from 1 to {MAX_USERS:,}")]
        )
    exact = {kind: users * share for kind, share in mix.items()}
    counts = {kind: int(number + 1e-9) for kind, number in exact.items()}
    by_remainder = sorted(exact, key=lambda kind: (counts[kind] - exact[kind], list(exact).index(kind)))
    for kind in by_remainder[: users - sum(counts.values())]:
        counts[kind] += 1
    return {kind: number for kind, number in counts.items() if number}


def flows(users: int, mix: str) -> list[dict[str, Any]]:
    """Return the flow tables of the users, one for each kind. The users start within a second.

    Args:
        users: number of users.
        mix: mix such as :data:`MIX`.

    Raises:
        ScenarioError: the number or the mix is invalid.
    """
    return [
        {"name": kind, "count": number, "start_jitter": "1 s", **KINDS[kind]}
        for kind, number in count_users(users, parse_mix(mix)).items()
    ]
