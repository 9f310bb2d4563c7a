"""Simulated TCP flows over a fitted preset, beside those of the logs."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.intervals import format_significant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.fit.log_formats import Side, Transfer
    from bentpipe.fit.log_merge import MergedLogs

__all__ = ["Comparison", "compare_with_link", "headline_text"]

TOLERANCE = 0.25
"""Relative difference of goodputs below which they agree."""
SECONDS, SEEDS = 120, 5
MAX_STREAMS = 16
CONTROLLERS = {"cubic": "cubic", "reno": "newreno", "bbr": "bbr1", "hybla": "hybla", "westwood": "westwood"}
"""Names of Linux and of bentpipe; any other is simulated as CUBIC, Linux's default."""
CAUSES = {
    "single losses": ("loss",),
    "bursts of loss": ("loss_bursts",),
    "jitter": ("delay_jitter", "delay_step", "delay_correlation"),
}
"""Keys of intervals that may limit TCP."""


@dataclass(frozen=True)
class Comparison:
    """Goodput of iperf3 in a direction, and of the same flows over the preset."""

    side: Side
    congestion: str
    streams: int
    log_bit_s: float
    preset_bit_s: float
    without_bit_s: dict[str, float] = field(default_factory=dict)
    """Goodput over the preset without one of :data:`CAUSES`; empty if the goodput agrees."""

    @property
    def agrees(self) -> bool:
        """Whether the goodput is within :data:`TOLERANCE`."""
        return abs(self.preset_bit_s - self.log_bit_s) <= TOLERANCE * self.log_bit_s

    def row(self) -> dict[str, Any]:
        """Return it as data, rates in Mbit/s."""
        return {
            "direction": self.side,
            "congestion": self.congestion,
            "streams": self.streams,
            "log_Mbit_s": self.log_bit_s / 1e6,
            "preset_Mbit_s": self.preset_bit_s / 1e6,
            "agrees": self.agrees,
            "without_Mbit_s": {cause: rate / 1e6 for cause, rate in self.without_bit_s.items()},
        }


def compare_with_link(found: MergedLogs, preset: str) -> list[Comparison]:
    """Simulate the TCP flows of each log of iperf3 over ``preset``, a TOML text.

    If a goodput does not agree, one run without each cause shows which of them lowers it.
    """
    segments = tomllib.loads(preset)["path"]["segment"]
    made = []
    for side, transfer in found.transfers.items():
        congestion = CONTROLLERS.get(transfer.congestion, "cubic")
        streams = min(max(1, transfer.streams), MAX_STREAMS)
        log_bit_s = float(found.rates[side].bit_s.mean())
        one = Comparison(side, congestion, streams, log_bit_s, _goodput(segments, side, congestion, streams))
        if not one.agrees:
            for cause, keys in CAUSES.items():
                if any(
                    key in direction["reconfiguration"] for direction in _directions(segments) for key in keys
                ):
                    rate = _goodput(_without(segments, keys), side, congestion, streams)
                    one.without_bit_s[cause] = rate
        made.append(one)
    return made


def _directions(segments: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    return (segment[side] for segment in segments for side in ("down", "up"))


def _without(segments: list[dict[str, Any]], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    def shortened(direction: dict[str, Any]) -> dict[str, Any]:
        intervals = {key: value for key, value in direction["reconfiguration"].items() if key not in keys}
        return {**direction, "reconfiguration": intervals}

    return [{**one, "down": shortened(one["down"]), "up": shortened(one["up"])} for one in segments]


def _goodput(segments: list[dict[str, Any]], side: str, congestion: str, streams: int) -> float:
    """Return the mean goodput of all flows together, bit/s."""
    import polars as pl

    from bentpipe.api.run import run

    time = f"{SECONDS} s"
    flow = {"transport": "tcp", "congestion": congestion, "direction": side, "load": {"time": time}}
    cells = run(
        {
            "duration": time,
            "seeds": SEEDS,
            "path": {"segment": segments},
            "flow": [{"name": f"iperf{number}", **flow} for number in range(streams)],
        }
    ).cells()
    return float(cells.filter(pl.col("metric") == "goodput_bit_s")["mean"].sum())


def headline_text(one: Comparison, transfer: Transfer) -> str:
    """Return the goodput over the preset against the log's, and the causes that lower it."""
    flows = "one flow" if one.streams == 1 else f"{one.streams} flows"
    text = (
        f"In simulation over the preset, {flows} of {one.congestion} "
        f"{'has' if one.streams == 1 else 'have'} {format_significant(one.preset_bit_s / 1e6, 3)} "
        f"Mbit/s {one.side}. The log has "
        f"iperf3{f' ({transfer.congestion})' if transfer.congestion else ''} at "
        f"{format_significant(one.log_bit_s / 1e6, 3)}: "
    )
    bound = f"within {100 * TOLERANCE:.0f} %."
    if one.agrees:
        return text + bound
    rates = [
        f"{format_significant(rate / 1e6, 3)} without {cause}" for cause, rate in one.without_bit_s.items()
    ]
    return f"{text}not {bound}" + (f" The simulated goodput is {', '.join(rates)}." if rates else "")
