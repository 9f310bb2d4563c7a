"""Cache of path checks: a known access needs no second measurement before a command that is to start at once.

A check is stored with the emulator's wake-up calibration, for one path, executable, kernel and host.
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
from bentpipe.metrics.intervals import format_significant
from bentpipe.store.cache_dir import cache_directory
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.lab.process_plans import LabPlan, Wakes

__all__ = ["CachedCheck", "format_age", "load_check", "save_check"]

MAX_WAIT_NS = 1_000_000
"""Maximum wait for a processor during a check that is stored, ns. A longer wait makes the check unreliable.

``bentpipe-rt`` tolerates as much without a message (crates/rt/src/lab/session.rs)."""


@dataclass(frozen=True)
class CachedCheck:
    """Stored result of a path check."""

    age_s: float
    """Age of the check, s."""
    rtt_ms: float
    """Round-trip time, ms."""
    up_bit_s: float | None
    """Rate of the up direction, bit/s; None: unlimited."""
    down_bit_s: float | None
    """Rate of the down direction, bit/s; None: unlimited."""
    calibrations: Sequence[Sequence[Wakes]]
    """Wake-up costs of every segment, up and down."""

    def line(self) -> str:
        """Return the message before the command starts."""
        up, down = ("unlimited" if rate is None else f"{format_significant(rate / 1e6, 3)} Mbit/s"
                    for rate in (self.up_bit_s, self.down_bit_s))  # fmt: skip
        rtt = format_significant(self.rtt_ms, 3)
        return (
            f"bentpipe: measured {format_age(self.age_s)} ago: RTT {rtt} ms, up {up}, "
            f"down {down}; --path-check repeats the measurement"
        )


def load_check(plan: LabPlan, program: Path) -> CachedCheck | None:
    """Return the stored check of the path of ``plan``; None if there is none that can be read.

    Args:
        plan: the lab.
        program: path of ``bentpipe-rt``.
    """
    file = _cache_file(plan, program)
    if file is None:
        return None
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(file.read_text(encoding="utf-8"))
        age_s = time.time() - float(data["time_s"])
        check = data["check"]
        if age_s >= 0:
            return CachedCheck(
                age_s,
                float(check["rtt_ns"]) / 1e6,
                None if check["up_bit_s"] is None else float(check["up_bit_s"]),
                None if check["down_bit_s"] is None else float(check["down_bit_s"]),
                [[{"arrival": float(direction["arrival"]), "long_sleep": float(direction["long_sleep"]),
                   "short_sleep": float(direction["short_sleep"])} for direction in directions]
                 for directions in data["calibrations"]],
            )  # fmt: skip
    return None


def save_check(plan: LabPlan, program: Path, result: Mapping[str, Any]) -> None:
    """Store the path check of a lab if it is reliable. Without a cache directory, nothing is stored.

    Args:
        plan: the lab.
        program: path of ``bentpipe-rt``.
        result: result of the lab.
    """
    check, file = result.get("check"), _cache_file(plan, program)
    if check is None or file is None:
        return
    if int(check["waited_ns"]) + int(check["late_ns"] or 0) > MAX_WAIT_NS:
        return
    data = {
        "time_s": time.time() - float(result["wall_s"]),
        "check": check,
        "calibrations": [
            [segment[direction]["calibration_us"] for direction in ("up", "down")]
            for segment in result["links"]
        ],
    }
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, json.dumps(data).encode())


def format_age(seconds: float) -> str:
    """Return an age in its largest unit: ``3 minutes``."""
    for unit, unit_s in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= unit_s:
            return f"{int(seconds / unit_s)} {unit}{'' if int(seconds / unit_s) == 1 else 's'}"
    return "less than a minute"


def _cache_file(plan: LabPlan, program: Path) -> Path | None:
    """Return the file of a check; None without a cache directory.

    The file depends on path, executable, kernel, host and privileges.
    """
    folder = cache_directory()
    if folder is None:
        return None
    program_status, system = program.stat(), os.uname()
    identity = [str(program), program_status.st_size, program_status.st_mtime_ns, *system, os.geteuid() == 0]
    path = to_json({"lab": plan["lab"], "commands": [], "proxies": plan.get("proxies", ())})
    name = hashlib.sha256(json.dumps(identity).encode() + path).hexdigest()[:24]
    return folder / "checks" / f"{name}.json"
