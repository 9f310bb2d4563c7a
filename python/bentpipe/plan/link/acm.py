"""Adaptive coding and modulation: modes of DVB-S2, and the ``AcmStageSpec`` of a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.link import channel as link_channel
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.quantities import Rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.plan.input_files import Files
    from bentpipe.plan.spec.run_spec import AcmStageSpec, ModcodSpec, QueueSpec
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.link.generated import Channel
    from bentpipe.scenario.link.generated_services import AdaptiveCoding
    from bentpipe.scenario.link.hooks import QueueAndChannel

__all__ = ["MODES", "Mode", "check", "rate_max", "stage"]

FRAME_BITS = 64_800
"""Bits of a normal FECFRAME (ETSI EN 302 307-1, section 5.3)."""
HEADER_BITS = 80
"""Bits of a baseband frame header (section 5.1.6)."""
HEADER_SYMBOLS = 90
"""Symbols of a physical-layer frame header, without pilots (section 5.5.2)."""


@dataclass(frozen=True)
class Mode:
    """A modulation and code rate with normal frames."""

    name: str
    bits_a_symbol: int
    frame_bits: int
    """Bits of a frame before coding (K_bch)."""
    es_n0_db: float
    """Es/N0 in dB at which one in 10^7 MPEG packets is lost."""

    @property
    def data_bits(self) -> int:
        """Bits of a frame that carry packets."""
        return self.frame_bits - HEADER_BITS

    @property
    def symbols(self) -> int:
        """Symbols of a frame."""
        return FRAME_BITS // self.bits_a_symbol + HEADER_SYMBOLS

    @property
    def efficiency(self) -> float:
        """Spectral efficiency in bits per symbol."""
        return self.data_bits / self.symbols


_FRAME = {
    "1/4": 16_008,
    "1/3": 21_408,
    "2/5": 25_728,
    "1/2": 32_208,
    "3/5": 38_688,
    "2/3": 43_040,
    "3/4": 48_408,
    "4/5": 51_648,
    "5/6": 53_840,
    "8/9": 57_472,
    "9/10": 58_192,
}
"""K_bch of normal frames (table 5a)."""

_ES_N0: Sequence[tuple[str, int, dict[str, float]]] = [
    (
        "QPSK",
        2,
        {
            "1/4": -2.35, "1/3": -1.24, "2/5": -0.30, "1/2": 1.00, "3/5": 2.23, "2/3": 3.10, "3/4": 4.03, "4/5": 4.68,
            "5/6": 5.18, "8/9": 6.20, "9/10": 6.42,
        },
    ),
    ("8PSK", 3, {"3/5": 5.50, "2/3": 6.62, "3/4": 7.91, "5/6": 9.35, "8/9": 10.69, "9/10": 10.98}),
    ("16APSK", 4, {"2/3": 8.97, "3/4": 10.21, "4/5": 11.03, "5/6": 11.61, "8/9": 12.89, "9/10": 13.13}),
    ("32APSK", 5, {"3/4": 12.73, "4/5": 13.64, "5/6": 14.28, "8/9": 15.69, "9/10": 16.05}),
]  # fmt: skip

MODES: Sequence[Mode] = [
    Mode(f"{modulation} {rate}", bits, _FRAME[rate], es_n0)
    for modulation, bits, thresholds in _ES_N0
    for rate, es_n0 in thresholds.items()
]
"""Modes of DVB-S2 with normal frames, without pilots, over white noise (ETSI EN 302 307-1, table 13).

The spectral efficiencies of the table are (K_bch - 80) / (64,800 / bits per symbol + 90); a test verifies them."""


def select_modes(acm: AdaptiveCoding, key: str) -> list[Mode]:
    """Return the modes in use, slowest first: no faster mode needs as little Es/N0. Raises ScenarioError."""
    by_name = {mode.name: mode for mode in MODES}
    for name in acm.modes or []:
        if name not in by_name:
            raise ScenarioError([(f"{key}.modes", unknown_name(name, by_name, "mode"))])
    modes = [by_name[name] for name in acm.modes or by_name]
    selected: list[Mode] = []
    for mode in sorted(modes, key=lambda mode: (-mode.efficiency, mode.es_n0_db)):
        if not selected or mode.es_n0_db < selected[-1].es_n0_db:
            selected.append(mode)
    return selected[::-1]


def rate_max(acm: AdaptiveCoding, key: str) -> Rate:
    """Return the rate in the fastest mode. Raises ScenarioError for less than 1 bit/s."""
    mode = select_modes(acm, key)[-1]
    rate = acm.symbol_rate.symbols_s * mode.data_bits // mode.symbols
    if rate == 0:
        raise ScenarioError([(f"{key}.symbol_rate", f"found {acm.symbol_rate}, which is below 1 bit/s")])
    return Rate(rate)


def check(direction: Direction, key: str) -> None:
    """Check the keys beside ``acm``. Raises ScenarioError."""
    if direction.acm is None:
        return
    if direction.channel is None:
        raise ScenarioError([(f"{key}.acm", "requires a channel, which it follows")])
    for name in ("rate", "trace", "netem", "link_layer", "nr", "reordering_buffer"):
        if getattr(direction, name):
            raise ScenarioError(
                [(f"{key}.{name}", "cannot be combined with acm, whose rate follows the channel")]
            )
    if any(change.rate is not None for change in direction.changes or []):
        raise ScenarioError(
            [(f"{key}.changes", "found a change of rate beside acm, whose rate follows the channel")]
        )


def stage(direction: Direction, queue: QueueSpec, files: Files, key: str) -> AcmStageSpec:
    """Return the stage of a link with adaptive coding and modulation. Raises ScenarioError."""
    acm, channel = direction.acm, direction.channel
    if acm is None or channel is None:
        raise ScenarioError([(f"{key}.acm", "missing")])
    return acm.to_spec(_AcmHooks(acm, channel, queue, files, key))


@dataclass(frozen=True, slots=True)
class _AcmHooks:
    """Modes, queue and channel of a link with adaptive coding (``AcmHooks`` of the scenario)."""

    acm: AdaptiveCoding
    channel: Channel
    queue: QueueSpec
    files: Files
    key: str

    def modes(self, names: Sequence[str] | None, key: str) -> list[ModcodSpec]:
        """Return the modes in use, slowest first."""
        del names, key
        return [
            {
                "es_n0_db": mode.es_n0_db,
                "data_bits": mode.data_bits,
                "coded_bits": FRAME_BITS,
                "symbols": mode.symbols,
            }
            for mode in select_modes(self.acm, f"{self.key}.acm")
        ]

    def queue_and_channel(self) -> QueueAndChannel:
        """Return queue and channel of the direction."""
        return {
            "queue": self.queue,
            "channel": link_channel.channel(self.channel, self.files, f"{self.key}.channel"),
        }
