"""Commented scenario from rates, round-trip time, loss and load; ``bentpipe new`` writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from bentpipe.scenario.base import parse_positive_duration
from bentpipe.scenario.presets import preset
from bentpipe.scenario.quantities import Duration, Probability, Rate, Size, UnitError
from bentpipe.scenario.quantity_text import format_decimal, format_value, nearest

__all__ = [
    "LOADS",
    "NewLoad",
    "NewScenario",
    "parse_load",
    "parse_loads",
    "parse_rtt",
    "preset_loss",
    "write_scenario",
]

LOADS = ("page", "call", "download")
"""Loads with a name. Another load is a duration or a size of a download."""

PAGE_BYTES = 5_300_000
"""Size of the page ``target-a``."""

TRANSFER_FACTOR, SETTLE_RTTS = 4, 60
"""Duration of a run with a given size: a multiple of the transfer time, plus round trips, as in a break-even map."""

LOSS_LAW, PACKET_BYTES = 1.22, 1200
"""Mean window of NewReno in packets at loss probability p: ``LOSS_LAW / sqrt(p)`` (Mathis et al. 1997, equation 3).

The packets are the smallest of QUIC (RFC 9000 section 14), so that the estimate is a lower bound.
"""

LOSS_FACTOR = 3
"""Duration of a run with random loss, as a multiple of the transfer time by the law."""

MAX_LOSS_DURATION_S = 3600
"""Longest duration because of random loss; a low rate can take longer."""

PLAIN_S = (
    10,
    15,
    20,
    25,
    30,
    40,
    50,
    60,
    75,
    90,
    120,
    150,
    180,
    240,
    300,
    360,
    480,
    600,
    720,
    900,
    1200,
    1500,
    1800,
)
"""Plain durations. Longer ones are multiples of 10 min."""

MIN_DURATION_S = 10
CALL_DURATION_S = 60
"""Duration of a call, and of a download without time or size."""

LOSS_SEEDS = 5
"""Seeds of a scenario with random loss; without loss one run is exact."""


@dataclass(frozen=True, slots=True)
class NewLoad:
    """Load of a flow: a download for a time, a download of a size, a page or a call."""

    kind: str
    time: Duration | None = None
    size: Size | None = None


_SLOWEST_DOWN, _SLOWEST_UP = Rate(5_000_000), Rate(2_500_000)
_LONGEST_RTT, _NO_LOSS = Duration(750_000_000), Probability(0.0)


@dataclass(frozen=True, slots=True)
class NewScenario:
    """Path with one link, or of a preset, and a flow over it for each load.

    With a ``preset``, rates, RTT and loss only determine the duration of runs. The default rates and RTT are those of
    the slowest presets: 4G's 5 Mbit/s, Konnect's 750 ms.
    """

    loads: tuple[NewLoad, ...]
    down: Rate = _SLOWEST_DOWN
    up: Rate = _SLOWEST_UP
    rtt: Duration = _LONGEST_RTT
    loss: Probability = _NO_LOSS
    preset: str | None = None
    has_seeds: bool = False
    """Whether the path of a preset depends on the seed."""


def parse_rtt(text: str) -> Duration:
    """Return a round-trip time above 0. Raises UnitError."""
    return parse_positive_duration(text)


def parse_loads(texts: str | Sequence[str]) -> tuple[NewLoad, ...]:
    """Return the loads of texts, each with one load or several: ``call and 30 s``, ``call, page``.

    Raises:
        UnitError: a part is no load.
    """
    listed = [texts] if isinstance(texts, str) else texts
    return tuple(parse_load(part.strip()) for text in listed for part in re.split(r",|\band\b|\+", text))


def parse_load(text: str) -> NewLoad:
    """Return a load from ``page``, ``call``, ``download``, a duration such as ``30 s`` or a size such as ``10 MB``.

    Raises:
        UnitError: the text is none of these.
    """
    if text == "download":
        return NewLoad("time", time=Duration(CALL_DURATION_S * 10**9))
    if text in LOADS:
        return NewLoad(text)
    expected = 'a duration such as "30 s", a size such as "10 MB", "page", "call" or "download"'
    unit = text.lstrip("0123456789._ ")
    if unit in Size.units:
        size = Size.parse(text)
        if size.bytes == 0:
            raise UnitError(f"found {format_value(text)}, expected {expected}")
        return NewLoad("bytes", size=size)
    if unit in Duration.units:
        return NewLoad("time", time=parse_positive_duration(text))
    is_number = re.fullmatch(r"\d+(\.\d+)?", text) is not None and float(text) > 0
    near = f"{text} s" if is_number else nearest(text, LOADS)
    hint = f'; did you mean "{near}"?' if near else ""
    raise UnitError(f"found {format_value(text)}, expected {expected}{hint}")


def write_scenario(new: NewScenario) -> str:
    """Return the scenario as TOML with comments; with one load it has at most 25 lines."""
    flows = _named_flows(new.loads)
    sweep = min(flows, key=lambda one: SWEPT.index(one[1].kind))
    title = " beside ".join(name for name, _ in flows)
    seeds = [(f"seeds = {LOSS_SEEDS}", "runs of each cell, each with other random streams")]
    lines = [
        ("", "docs/reference/scenario.md describes every key; `bentpipe schema` prints the JSON schema."),
        (f'title = "{_title(new, title)}"', ""),
        (f'duration = "{_run_duration(new)}"', "virtual time of each run"),
        *(seeds if new.loss.value or new.has_seeds else []),
        ("", ""),
        *_path_lines(new),
        *(line for name, load in flows for line in _flow_lines(name, load)),
        ("", ""),
        ("[sweep]", "every combination of values is a cell"),
        _sweep_line(*sweep),
    ]
    return "".join(f"{_format_line(*line)}\n" for line in lines)


def _title(new: NewScenario, name: str) -> str:
    """Return the title; that of a preset names no preset, because a sweep may replace it."""
    subject = name.capitalize()
    if new.preset is not None:
        return f"{subject} over an access network"
    return f"{subject} at {new.down} down, {new.up} up, RTT {new.rtt}"


def _path_lines(new: NewScenario) -> list[tuple[str, str]]:
    """Return the lines of the path, each with its comment."""
    if new.preset is not None:
        return [
            ("[path]", ""),
            (f'preset = "{new.preset}"', "`bentpipe presets` lists all; a sweep takes several"),
        ]
    return [
        ("[[path.segment]]", "a link; further tables add links, in order from client to server"),
        ('name = "access"', ""),
        (f'delay = "{Duration(new.rtt.ns // 2)}"', "one-way: half of the RTT"),
        (f'down = {{ rate = "{new.down}" }}', "from server to client"),
        (f'up = {{ rate = "{new.up}" }}', "from client to server"),
        (f'both = {{ queue = "1 BDP", loss = "{new.loss}" }}', "keys of both directions"),
        *_burst_lines(new.loss.value),
    ]


BURST_PACKETS = 10
"""Mean length of a burst of losses in the comment of a scenario with random loss."""


def _burst_lines(loss: float) -> list[tuple[str, str]]:
    """Return comments on the law of a loss: bursts with the same mean, which can reverse an order of controllers.

    The mean of the Gilbert-Elliott model is ``p_gb / (p_gb + p_bg)`` (docs/explanation/path.md).
    """
    to_good = 1 / BURST_PACKETS
    if not 0 < loss < 1 / (1 + to_good):  # above it, the probability of a change to bad would exceed 1
        return []
    to_bad = format_decimal(Decimal(f"{loss / (1 - loss) * to_good * 100:.3g}"))
    law = f'gilbert_elliott = {{ good_to_bad = "{to_bad} %", bad_to_good = "{to_good * 100:g} %" }}'
    return [
        ("", f"each packet is lost independently; bursts of {BURST_PACKETS} packets with the same mean:"),
        ("", f"loss = {{ {law} }}"),
    ]


COMMENT_COLUMN = 32
"""Column of a comment beside a key; a longer key moves it to the right."""


def _format_line(key: str, comment: str) -> str:
    if not comment:
        return key
    return f"{key.ljust(COMMENT_COLUMN - 1)} # {comment}" if key else f"# {comment}"


SWEPT = ("time", "bytes", "page", "call")
"""Loads in the order of the sweep: with several, the first one is swept, because it determines the others' share."""

_NAMES = {"time": "download", "bytes": "download"}


def _named_flows(loads: Sequence[NewLoad]) -> list[tuple[str, NewLoad]]:
    """Return each load with the name of its flow; equal names get a number."""
    flows: list[tuple[str, NewLoad]] = []
    for load in loads:
        name = _NAMES.get(load.kind, load.kind)
        count = 1 + sum(_NAMES.get(other.kind, other.kind) == name for _, other in flows)
        flows.append((name if count == 1 else f"{name}-{count}", load))
    return flows


def _flow_lines(name: str, load: NewLoad) -> list[tuple[str, str]]:
    """Return the lines of a flow, each with its comment."""
    head = [("", ""), ("[[flow]]", "a load between client and server"), (f'name = "{name}"', "")]
    if load.kind == "page":
        return [
            *head,
            ('congestion = "cubic"', "the controller of both sides"),
            ('load = { page = "target-a" }', "a picture of 5.3 MB; [page.NAME] defines another page"),
        ]
    if load.kind == "call":
        return [
            *head,
            ('transport = "udp"', "datagrams"),
            ('direction = "both"', 'or "up" or "down"'),
            ('load = { call = "g711" }', "a codec; `bentpipe calls` rates the calls"),
        ]
    amount = f'bytes = "{load.size}"' if load.size is not None else f'time = "{load.time}"'
    return [
        *head,
        ('transport = "quic"', 'or "tcp"'),
        ('congestion = "cubic"', "the controller"),
        ('direction = "down"', 'or "up", from client to server'),
        (f"load = {{ {amount} }}", "data for a time, or a number of bytes"),
    ]


def _sweep_line(name: str, load: NewLoad) -> tuple[str, str]:
    """Return the line of the sweep with its comment."""
    if load.kind == "page":
        return f'"flow.{name}.load.http" = ["2", "3"]', "HTTP/2 over TCP, HTTP/3 over QUIC"
    if load.kind == "call":
        return f'"flow.{name}.load.call" = ["g711", "g729"]', "codecs"
    return f'"flow.{name}.congestion" = ["newreno", "cubic", "bbr"]', ""


def preset_loss(name: str) -> Probability:
    """Return the probability of independent losses over all segments of a preset, in the direction with more."""
    delivered = {"down": 1.0, "up": 1.0}
    for segment in preset(name).segments:
        both = segment.get("both", {})
        for way in delivered:
            loss = {**both, **segment.get(way, {})}.get("loss")
            text = loss.get("probability") if isinstance(loss, dict) else loss
            if text is not None:
                delivered[way] *= 1 - Probability.parse(text).value
    return Probability(1 - min(delivered.values()))


def _run_duration(new: NewScenario) -> Duration:
    """Return the duration of each run: the longest given time, else the longest of the loads."""
    times = [load.time for load in new.loads if load.time is not None]
    if times and all(load.time is not None or load.kind == "call" for load in new.loads):
        return max(times)
    return max([*times, *(_load_duration(new, load) for load in new.loads if load.time is None)])


def _load_duration(new: NewScenario, load: NewLoad) -> Duration:
    """Return the duration of a load without one; a load of a given size has time to finish with NewReno."""
    if load.kind == "call":
        return Duration(CALL_DURATION_S * 10**9)
    size = load.size.bytes if load.size is not None else PAGE_BYTES
    settle_s = SETTLE_RTTS * new.rtt.seconds
    at_rate_s = TRANSFER_FACTOR * size * 8 / new.down.bit_s + settle_s
    at_loss_s = LOSS_FACTOR * _loss_limited_time(size, new) + settle_s
    seconds = max(at_rate_s, min(at_loss_s, MAX_LOSS_DURATION_S), MIN_DURATION_S)
    return Duration(_round_up(seconds) * 10**9)


def _loss_limited_time(size: int, new: NewScenario) -> float:
    """Return the time of a transfer whose window follows the law of random losses, s; 0 without loss."""
    window = LOSS_LAW / math.sqrt(new.loss.value) if new.loss.value else math.inf
    return size / (max(window, 1) * PACKET_BYTES) * new.rtt.seconds


def _round_up(seconds: float) -> int:
    """Return the next plain duration, s."""
    longer = math.ceil(seconds / 600) * 600
    return next((plain for plain in PLAIN_S if plain >= seconds), longer)
