"""Notes on the validity of sessions: missed deadlines, incomplete captures, killed browsers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["units", "validity_notes"]

BUSY = 0.9
"""Ratio of busy CPU time of all processors during a session above which its times may be too long."""


def units(store: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the finished sessions.

    Raises:
        StoreError: a record cannot be read.
    """
    from bentpipe.store.files import StoreError
    from bentpipe.store.reader import Store

    for file in Store(store).files("unit.json"):
        try:
            yield json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise StoreError(
                f"{file} is damaged; remove {file.parent}, then rerun the command to repeat the session"
            ) from None


def validity_notes(store: Path) -> list[str]:
    """Return notes on the validity of the sessions, one sentence each."""
    found = list(units(store))
    total = len(found)
    notes = []
    invalid = [lab for unit in found if (lab := unit.get("lab")) and not lab.get("valid", True)]
    if invalid:
        why = next((reason for lab in invalid for reason in lab.get("reasons", [])), "")
        notes.append(f"{len(invalid)} of {total} sessions invalid: the emulator missed its deadlines ({why})")
    errors = {unit["capture"]["error"] for unit in found if unit.get("capture", {}).get("error")}
    notes += [f"no capture: {reason}" for reason in sorted(errors)]
    unused = [one for unit in found for one in unit.get("connections", []) if not one["used"]]
    if unused:
        kinds = ", ".join(f"{sum(o['transport'] == k for o in unused)} by {k.upper()}" for k in ("tcp", "quic")
                          if any(o["transport"] == k for o in unused))  # fmt: skip
        notes.append(f"unused connections (backups, lost races): {kinds}")
    missed = sum(unit.get("capture", {}).get("missed", 0) for unit in found)
    if missed:
        notes.append(f"the captures miss {missed} packets that overflowed the kernel's buffer")
    loads = [load for unit in found for load in unit["loads"]]
    failed = [load for load in loads if not load["finished"]]
    if failed:
        notes.append(f"{len(failed)} of {len(loads)} loads did not finish ({failed[0]['error']})")
    killed = sum(not load["quit_by_itself"] for load in loads)
    if killed:
        notes.append(f"the browser was killed after {killed} of {len(loads)} loads")
    busy_ratios = [
        unit["cpu"]["busy_mean"] for unit in found if unit.get("cpu", {}).get("busy_mean") is not None
    ]
    if busy_ratios and max(busy_ratios) > BUSY:
        notes.append(
            f"processors were busy up to {max(busy_ratios):.0%} of a session: load times may be too long"
        )
    return notes
