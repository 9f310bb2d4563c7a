"""What a stage of a resolved run says of its rate and its propagation, read in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["delays_ns", "rate_bit_s"]


def delays_ns(stage: Mapping[str, Any], *, changed: bool = True) -> list[int]:
    """Propagation of a stage: as it begins, then as its trace or (``changed``) its changes have it; none of others.

    Jitter is no propagation, nor is what waits.
    """
    if stage["kind"] in ("delay", "netem"):
        later = stage.get("changes", ()) if changed else ()
        return [int(stage["delay_ns"]), *(int(change["delay_ns"]) for change in later)]
    return [int(delay) for _, delay in stage["points"]] if stage["kind"] == "delay_trace" else []


def rate_bit_s(stage: Mapping[str, Any]) -> float | None:
    """Rate of a stage as it begins, where it is a number."""
    if stage["kind"] == "netem":
        return float(stage["rate_bit_s"])
    if stage["kind"] == "transmit" and stage["service"]["kind"] == "rate":
        return float(stage["service"]["rate_bit_s"])
    return None
