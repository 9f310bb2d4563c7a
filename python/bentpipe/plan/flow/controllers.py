"""The engine's list of congestion controllers, by name: options, the kernel's twin, whether it draws random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["by_name", "deterministic_controllers"]


def by_name(catalogue: Sequence[Mapping[str, Any]] | None) -> dict[str, Mapping[str, Any]]:
    """Entries by every name that a scenario may use."""
    return {
        name: entry
        for entry in catalogue or ()
        for name in (entry["scenario_name"], *entry.get("aliases", ()))
    }


def deterministic_controllers(catalogue: Sequence[Mapping[str, Any]] | None) -> set[str]:
    """Names of the controllers that draw no random numbers; of others they may."""
    return {name for name, entry in by_name(catalogue).items() if not entry.get("draws", True)}
