"""A question about a bundle in words, as the command has it, and its answer by the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.network.constellations import Instant, parse_instant
from bentpipe.scenario.quantities import Duration, Size, UnitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.dtn.contact_plan import Found

__all__ = ["PRIORITIES", "BundleQuery", "ask", "instant", "pair", "quantity"]

PRIORITIES = ("bulk", "normal", "expedited")


@dataclass(frozen=True)
class BundleQuery:
    """A bundle at a node that has to decide on it; texts as the command has them."""

    source: str
    destination: str
    at: str = "0 s"
    size: str = "1 MB"
    priority: str = "normal"
    lifetime: str | None = None
    critical: bool = False
    fragment: bool = False
    """Whether it may be cut."""
    received_from: str | None = None
    """The node that it came from, which it is not sent back to."""
    return_to_sender: bool = False
    exclude: Sequence[str] = ()
    confidence: float = 0.0
    """Contacts that are less likely are not used."""
    waiting: Sequence[str] = ()
    """``NODE=SIZE[:PRIORITY]``: what waits for a neighbour already."""
    booked: Sequence[str] = ()
    """``PLACE=SIZE[:PRIORITY]``: what is booked of the contact that a place names, such as ``line 3``."""
    static: Sequence[str] = ()
    """``TO=VIA``; TO may be ``*``."""
    alternatives: int = 5


def ask(found: Found, bundle: BundleQuery) -> dict[str, Any]:
    """The engine's answer to :func:`question`. Raises ScenarioError."""
    try:
        return engine.route_bundle(question(found, bundle))
    except ValueError as error:
        if isinstance(error, ScenarioError):
            raise
        field, _, text = str(error).partition(": ")
        sender = bundle.received_from
        if field == "excluded" and sender not in bundle.exclude and text.startswith(f'found "{sender}"'):
            field = "sender"
        raise ScenarioError([(_OPTIONS.get(field, ""), text or str(error))]) from None


_OPTIONS = {
    "from": "FROM", "to": "TO", "excluded": "--exclude", "sender": "--received-from", "static": "--static",
    "waiting": "--queued", "booked": "--booked",
}  # fmt: skip


def question(found: Found, bundle: BundleQuery) -> dict[str, Any]:
    """What is asked, in the engine's words. Raises ScenarioError: what is wrong, by its option."""
    at = instant(found, bundle.at)
    lifetime = None if bundle.lifetime is None else quantity(Duration, "--lifetime", bundle.lifetime).ns
    if bundle.priority not in PRIORITIES:
        raise ScenarioError([("--priority", unknown_name(bundle.priority, PRIORITIES, "priority"))])
    if not 0 <= bundle.confidence <= 1:
        raise ScenarioError([("--confidence", f"found {bundle.confidence}, expected 0 to 1")])
    excluded = list(bundle.exclude)
    if bundle.received_from is not None and not bundle.return_to_sender:
        excluded.append(bundle.received_from)
    statics = [(to, via) for place, to, via in found.statics if place == bundle.source]
    for text in bundle.static:
        to, via = pair("--static", text, "TO=VIA, such as 6=3; TO may be *")
        statics.insert(0, (None if to == "*" else to, via))
    return {
        "plan": dict(found.spec),
        "from": bundle.source,
        "to": bundle.destination,
        "at_ns": at,
        "bytes": quantity(Size, "--size", bundle.size).bytes,
        "priority": bundle.priority,
        "fragmentable": bundle.fragment,
        "deadline_ns": None if lifetime is None else at + lifetime,
        "critical": bundle.critical,
        "excluded": excluded,
        "least_confidence": float(bundle.confidence),
        "waiting": [_amount("--queued", text) for text in bundle.waiting],
        "booked": [_amount("--booked", text) for text in bundle.booked],
        "statics": statics,
        "alternatives": bundle.alternatives,
    }


def instant(found: Found, text: str) -> int:
    """An instant of ``--at`` or a time since the plan's zero, ns. Raises ScenarioError."""
    if text[:4].isdigit() and "T" in text:
        try:
            when: Instant = parse_instant(text)
        except ValueError as error:
            raise ScenarioError([("--at", str(error))]) from None
        epoch = found.spec.get("epoch_unix_s")
        if epoch is None:
            problem = "found an instant, and the plan knows times since its zero only"
            raise ScenarioError([("--at", f'{problem}; expected a duration such as "50 s"')])
        if when.unix_ns < epoch * 10**9:
            raise ScenarioError([("--at", f"found {text}, which is before the plan's zero")])
        return when.unix_ns - int(epoch) * 10**9
    return quantity(Duration, "--at", text).ns


Quantity = TypeVar("Quantity", Duration, Size)


def quantity(kind: type[Quantity], option: str, text: str) -> Quantity:
    """A quantity of an option. Raises ScenarioError."""
    try:
        return kind.parse(text)
    except UnitError as error:
        raise ScenarioError([(option, str(error))]) from None


def pair(option: str, text: str, expected: str) -> tuple[str, str]:
    """Both sides of an equals sign. Raises ScenarioError."""
    left, equals, right = (word.strip() for word in text.partition("="))
    if not (left and equals and right):
        raise ScenarioError([(option, f'found "{text}", expected {expected}')])
    return left, right


def _amount(option: str, text: str) -> tuple[str, str, int]:
    example = "6=2 MB:bulk" if option == "--queued" else "line 3=2 MB:bulk"
    place, rest = pair(option, text, f'a size after "=", such as "{example}"')
    size, _, priority = rest.partition(":")
    priority = priority.strip() or "normal"
    if priority not in PRIORITIES:
        raise ScenarioError([(option, unknown_name(priority, PRIORITIES, "priority"))])
    return place, priority, quantity(Size, option, size.strip()).bytes
