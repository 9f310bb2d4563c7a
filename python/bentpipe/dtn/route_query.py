"""Query about a bundle, from texts of options, and its answer by the engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.network.constellations import Instant, parse_instant
from bentpipe.scenario.quantities import Duration, Size, UnitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.dtn.contact_plan import CheckedPlan

__all__ = ["PRIORITIES", "BundleQuery", "ask", "instant", "pair", "quantity"]

PRIORITIES = ("bulk", "normal", "expedited")


@dataclass(frozen=True)
class BundleQuery:
    """Bundle at a node that decides about it; texts as in the options."""

    source: str
    destination: str
    at: str = "0 s"
    size: str = "1 MB"
    priority: str = "normal"
    lifetime: str | None = None
    critical: bool = False
    fragment: bool = False
    """Whether the bundle may be fragmented."""
    received_from: str | None = None
    """Previous node, to which the bundle is not returned."""
    return_to_sender: bool = False
    exclude: Sequence[str] = ()
    confidence: float = 0.0
    """Minimum confidence of contacts."""
    waiting: Sequence[str] = ()
    """``NODE=SIZE[:PRIORITY]``: bytes that wait for a neighbour."""
    booked: Sequence[str] = ()
    """``PLACE=SIZE[:PRIORITY]``: bytes booked on the contact of a place, such as ``line 3``."""
    static: Sequence[str] = ()
    """``TO=VIA``; TO may be ``*``."""
    alternatives: int = 5


def ask(plan: CheckedPlan, bundle: BundleQuery) -> dict[str, Any]:
    """Return the answer of the engine to :func:`question`; raise ScenarioError."""
    try:
        return engine.route_bundle(question(plan, bundle))
    except ValueError as error:
        if isinstance(error, ScenarioError):
            raise
        field, _, text = str(error).partition(": ")
        sender = bundle.received_from
        if field == "excluded" and sender not in bundle.exclude and text.startswith(f'found "{sender}"'):
            field = "sender"
        raise ScenarioError([(_OPTIONS.get(field, ""), text or str(error))]) from None


_OPTIONS = {
    "from": "FROM", "to": "TO", "excluded": "--exclude", "sender": "--received-from", "static_routes": "--static",
    "backlog": "--queued", "booked": "--booked",
}  # fmt: skip


def question(plan: CheckedPlan, bundle: BundleQuery) -> dict[str, Any]:
    """Return the query as the engine reads it.

    Args:
        plan: contact plan.
        bundle: query.

    Raises:
        ScenarioError: invalid option.
    """
    time_ns = instant(plan, bundle.at)
    lifetime = None if bundle.lifetime is None else quantity(Duration, "--lifetime", bundle.lifetime).ns
    if bundle.priority not in PRIORITIES:
        raise ScenarioError([("--priority", unknown_name(bundle.priority, PRIORITIES, "priority"))])
    if not 0 <= bundle.confidence <= 1:
        raise ScenarioError([("--confidence", f"found {bundle.confidence}, expected 0 to 1")])
    excluded = list(bundle.exclude)
    if bundle.received_from is not None and not bundle.return_to_sender:
        excluded.append(bundle.received_from)
    statics = [(to, via) for node, to, via in plan.statics if node == bundle.source]
    for text in bundle.static:
        to, via = pair("--static", text, "TO=VIA, such as 6=3; TO may be *")
        statics.insert(0, (None if to == "*" else to, via))
    return {
        "plan": dict(plan.spec),
        "from": bundle.source,
        "to": bundle.destination,
        "at_ns": time_ns,
        "bytes": quantity(Size, "--size", bundle.size).bytes,
        "priority": bundle.priority,
        "fragmentable": bundle.fragment,
        "deadline_ns": None if lifetime is None else time_ns + lifetime,
        "critical": bundle.critical,
        "excluded": excluded,
        "min_confidence": float(bundle.confidence),
        "backlog": [_amount("--queued", text) for text in bundle.waiting],
        "booked": [_amount("--booked", text) for text in bundle.booked],
        "static_routes": statics,
        "alternatives": bundle.alternatives,
    }


def instant(plan: CheckedPlan, text: str) -> int:
    """Return the instant of ``--at`` in ns since the zero of the plan; raise ScenarioError."""
    if text[:4].isdigit() and "T" in text:
        try:
            time: Instant = parse_instant(text)
        except ValueError as error:
            raise ScenarioError([("--at", str(error))]) from None
        epoch = plan.spec.get("epoch_unix_s")
        if epoch is None:
            line = {
                ".toml": 'the key epoch = "2026-11-22T12:00:00Z"',
                ".json": '"epoch": "2026-11-22T12:00:00Z"',
            }.get(PurePath(plan.name).suffix, 'a first line "@ 2026/11/22-12:00:00"')
            problem = f"found an instant, but the plan has no epoch; add {line} to it"
            raise ScenarioError([("--at", f'{problem}, or use a duration such as "50 s"')])
        if time.unix_ns < epoch * 10**9:
            raise ScenarioError([("--at", f"found {text}, which is before the plan's zero")])
        return time.unix_ns - int(epoch) * 10**9
    return quantity(Duration, "--at", text).ns


Quantity = TypeVar("Quantity", Duration, Size)


def quantity(kind: type[Quantity], option: str, text: str) -> Quantity:
    """Parse the quantity of an option; raise ScenarioError."""
    try:
        return kind.parse(text)
    except UnitError as error:
        raise ScenarioError([(option, str(error))]) from None


def pair(option: str, text: str, expected: str) -> tuple[str, str]:
    """Return both sides of an equals sign; raise ScenarioError."""
    left, equals, right = (word.strip() for word in text.partition("="))
    if not (left and equals and right):
        raise ScenarioError([(option, f'found "{text}", expected {expected}')])
    return left, right


def _amount(option: str, text: str) -> tuple[str, str, int]:
    example = "6=2 MB:bulk" if option == "--queued" else "line 3=2 MB:bulk"
    target, rest = pair(option, text, f'a size after "=", such as "{example}"')
    size, _, priority = rest.partition(":")
    priority = priority.strip() or "normal"
    if priority not in PRIORITIES:
        raise ScenarioError([(option, unknown_name(priority, PRIORITIES, "priority"))])
    return target, priority, quantity(Size, option, size.strip()).bytes
