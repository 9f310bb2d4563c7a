"""Queue disciplines in the formats of other tools. Everything that depends on a discipline is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.preset_export.access import MTU

if TYPE_CHECKING:
    from bentpipe.preset_export.access import Queue

__all__ = ["describe_mahimahi", "describe_qdisc", "mahimahi_options", "qdisc"]

UNLIMITED_BYTES = 10**9
"""Limit of a queue without one: tbf requires a limit."""
_CODEL = ("codel", "fq_codel")
_QDISCS = {"drop_tail": "pfifo", "drop_head": "pfifo_head_drop", "codel": "codel", "fq_codel": "fq_codel"}
"""Qdisc with a limit in packets by discipline."""
_MAHIMAHI = {"drop_tail": "droptail", "drop_head": "drophead", "codel": "codel"}
"""Queue of mm-link by discipline."""


def qdisc(queue: Queue) -> tuple[str, int]:
    """Return the qdisc below tbf, and its limit in its own unit.

    A change of tbf sets the limit of a first-in-first-out queue below it, so that it must repeat this number.
    """
    packets = queue.packets
    if packets is None:
        return f"bfifo limit {UNLIMITED_BYTES}", UNLIMITED_BYTES
    name = _QDISCS.get(queue.discipline, "pfifo")
    if name == "pfifo" and queue.limit_bytes is not None:
        return f"bfifo limit {queue.limit_bytes}", queue.limit_bytes
    words = f"{name} limit {packets}"
    if name in _CODEL and queue.target_ns and queue.interval_ns:
        words += f" target {queue.target_ns // 1000}us interval {queue.interval_ns // 1000}us"
    return words, packets


def describe_qdisc(queue: Queue) -> str | None:
    """Return what the qdisc lacks of a queue; None if nothing."""
    name = queue.discipline.replace("_", "-")
    if queue.discipline not in _QDISCS:
        return f"queue {name}: drop-tail"
    if _QDISCS[queue.discipline] != "pfifo" and queue.limit_bytes is not None:
        return f"a {name} queue with a limit in bytes: in packets of {MTU} bytes"
    return None


def mahimahi_options(link: str, queue: Queue) -> str:
    """Return the options of mm-link for ``uplink`` or ``downlink``."""
    if queue.packets is None:
        return f"--{link}-queue=infinite"
    name = _MAHIMAHI.get(queue.discipline, "droptail")
    limit = f"packets={queue.packets}" if queue.limit_bytes is None else f"bytes={queue.limit_bytes}"
    if name in _CODEL and queue.target_ns and queue.interval_ns:
        limit += f", target={queue.target_ns // 10**6}, interval={queue.interval_ns // 10**6}"
    return f'--{link}-queue={name} --{link}-queue-args="{limit}"'


def describe_mahimahi(queue: Queue) -> str | None:
    """Return what mm-link lacks of a queue; None if nothing."""
    if queue.discipline in _MAHIMAHI:
        return None
    return f"queue {queue.discipline.replace('_', '-')}: drop-tail"
