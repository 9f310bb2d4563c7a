"""Checks of accesses, kept among the user's caches: what an access was measured to be on this machine needs no second
measurement before a command that is to begin at once.

A check is kept with what the emulator has measured of its own wake-ups, for one path, program, kernel and machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.lab.process_plans import to_json
from bentpipe.store.cache_dir import cache_directory
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.lab.process_plans import LabPlan, Wakes

__all__ = ["Kept", "aged", "keep", "kept"]

CALM_NS = 1_000_000
"""A check that waited longer for a processor says little of the path, and is not kept: as much as ``bentpipe-rt``
tolerates unsaid (crates/rt/src/lab/session.rs)."""


@dataclass(frozen=True)
class Kept:
    """A check that was made before."""

    age_s: float
    rtt_ms: float
    up_bit_s: float | None
    down_bit_s: float | None
    calibrations: Sequence[Sequence[Wakes]]
    """Of every segment, up and down."""

    def line(self) -> str:
        """What is said of it before the command starts."""
        up, down = ("unlimited" if rate is None else f"{rate / 1e6:.4f} Mbit/s"
                    for rate in (self.up_bit_s, self.down_bit_s))  # fmt: skip
        return (
            f"bentpipe: measured {aged(self.age_s)} ago: RTT {self.rtt_ms:.1f} ms, up {up}, down {down}; "
            "--check measures it anew"
        )


def kept(plan: LabPlan, program: Path) -> Kept | None:
    """What was kept of the path of ``plan`` for ``program`` (``bentpipe-rt``); None where that is nothing, or nothing
    that can be read."""
    place = _place(plan, program)
    if place is None:
        return None
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(place.read_text(encoding="utf-8"))
        age_s = time.time() - float(found["time_s"])
        check = found["check"]
        if age_s >= 0:
            return Kept(
                age_s,
                float(check["rtt_ns"]) / 1e6,
                None if check["up_bit_s"] is None else float(check["up_bit_s"]),
                None if check["down_bit_s"] is None else float(check["down_bit_s"]),
                [[{"arrival": float(way["arrival"]), "long_sleep": float(way["long_sleep"]),
                   "short_sleep": float(way["short_sleep"])} for way in ways]
                 for ways in found["calibrations"]],
            )  # fmt: skip
    return None


def keep(plan: LabPlan, program: Path, result: Mapping[str, Any]) -> None:
    """Keeps the check of a session by its ``result``, if it says something of the path. Without a place to keep it in,
    it is not kept."""
    check, place = result.get("check"), _place(plan, program)
    if check is None or place is None:
        return
    if int(check["waited_ns"]) + int(check["late_ns"] or 0) > CALM_NS:
        return
    found = {
        "time_s": time.time() - float(result["wall_s"]),
        "check": check,
        "calibrations": [
            [one[way]["calibration_us"] for way in ("up", "down")] for one in result["segments"]
        ],
    }
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, json.dumps(found).encode())


def aged(seconds: float) -> str:
    """An age in words, in its largest unit: ``3 minutes``."""
    for unit, of in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= of:
            return f"{int(seconds / of)} {unit}{'' if int(seconds / of) == 1 else 's'}"
    return "less than a minute"


def _place(plan: LabPlan, program: Path) -> Path | None:
    """The file of a check: another path, program, kernel, machine or kind of user has another one."""
    folder = cache_directory()
    if folder is None:
        return None
    built, system = program.stat(), os.uname()
    what = [str(program), built.st_size, built.st_mtime_ns, *system, os.geteuid() == 0]
    path = to_json({"lab": plan["lab"], "near": [], "proxies": plan.get("proxies", ())})
    name = hashlib.sha256(json.dumps(what).encode() + path).hexdigest()[:24]
    return folder / "checks" / f"{name}.json"
