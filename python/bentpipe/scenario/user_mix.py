"""Mix of users who share a link: kinds of users with their flows, and the number of each kind."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import NO_FILE, ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["EXAMPLE", "KINDS", "assign_kinds", "count_users", "parse_mix", "parse_share"]

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

EXAMPLE = "tcp=0.2,call=0.3,page=0.5"
"""Mix in messages."""

WEIGHTS = "call=3,page=1"
"""Mix of weights in messages."""

MAX_ROUNDING = 0.01
"""Largest difference of the sum of shares from 1: thirds are often written as 0.33 or 33.3 %."""


def parse_mix(text: str, key: str, source: str = NO_FILE) -> dict[str, float]:
    """Return the shares of the users by kind, which add up to 1.

    Args:
        text: mix such as :data:`EXAMPLE`. Whole numbers are weights; other numbers and percentages must add up to 1.
        key: key of messages.
        source: source of messages.

    Raises:
        ScenarioError: the mix is invalid.
    """

    def error(message: str) -> ScenarioError:
        return ScenarioError([(key, message)], source)

    shares: dict[str, float] = {}
    are_weights = True
    for part in text.split(","):
        kind, equals, share = (part_text.strip() for part_text in part.partition("="))
        if kind not in KINDS:
            raise error(unknown_name(kind, KINDS, "kind of user"))
        try:
            value = parse_share(share) if equals else 1.0
        except ValueError:
            raise error(f'found {kind}={share}, expected a share such as "{EXAMPLE}"') from None
        shares[kind] = shares.get(kind, 0.0) + value
        are_weights &= not equals or share.isdecimal()
        if not 0 <= shares[kind] < float("inf"):
            raise error(f"found {kind}={share}, expected a share of 0 or more")
    total = sum(shares.values())
    if not total > 0:
        raise error("all shares are 0, expected one above")
    if not are_weights and abs(total - 1) > MAX_ROUNDING:
        found = f"found shares that add up to {100 * total:.4g} %, expected 100 %"
        raise error(f'{found}; whole numbers are weights, such as "{WEIGHTS}"')
    return {kind: share / total for kind, share in shares.items()}


def parse_share(text: str) -> float:
    """Return a share given as a number or a percentage: ``0.95``, ``95 %``.

    Raises:
        ValueError: the text is neither.
    """
    text = text.strip()
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def assign_kinds(mix: Mapping[str, float]) -> Iterator[str]:
    """Yield the kind of each further user, by the Sainte-Laguë method.

    One more user leaves the kinds of all others as they are, unlike with the method of largest remainders.

    Args:
        mix: shares by kind.
    """
    counts = dict.fromkeys((kind for kind, share in mix.items() if share > 0), 0)
    while True:
        kind = max(counts, key=lambda kind: mix[kind] / (2 * counts[kind] + 1))
        counts[kind] += 1
        yield kind


def count_users(users: int, mix: Mapping[str, float]) -> dict[str, int]:
    """Return the number of users of each kind that has any, in the order of the mix.

    Args:
        users: total number.
        mix: shares by kind.
    """
    kinds = list(islice(assign_kinds(mix), users))
    return {kind: number for kind in mix if (number := kinds.count(kind))}
