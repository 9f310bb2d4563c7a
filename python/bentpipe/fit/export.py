"""Output files of ``fit``: the preset, a scenario that runs it, and the log as traces.

A scenario, Mahimahi and LENS's readers replay the traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.fit.losses import bound_losses, direction_losses
from bentpipe.fit.model_comparison import runs
from bentpipe.scenario.presets import segments
from bentpipe.scenario.quantities import Probability
from bentpipe.scenario.toml_writer import inline
from bentpipe.scenario.traces import MAHIMAHI_BYTES

if TYPE_CHECKING:
    from bentpipe.fit.log_merge import MergedLogs
    from bentpipe.fit.model import Floats, Model, Points, Rates

__all__ = ["preset", "replay", "single_losses", "taken_losses"]

SIDES = ("down", "up")
BASE_PRESET = "starlink"
"""Preset that supplies the settings without a log."""
MAX_OPPORTUNITIES = 5_000_000
"""Maximum lines of a Mahimahi trace; beyond, a table of rates replaces it."""


def preset(found: MergedLogs, model: Model, name: str, source: str) -> tuple[dict[str, str], list[str]]:
    """Return preset and scenario by file name, and the settings that no log determines."""
    text, taken = _preset(found, model, source)
    return {f"{name}.toml": text, "scenario.toml": _scenario(name, source)}, taken


def _ms(values: list[float]) -> list[str]:
    return [f"{round(1000 * value)} us" for value in values]


def _chances(values: list[float]) -> list[str]:
    return [f"{100 * value:.4g} %" for value in values]


def taken_losses(side: str) -> list[float]:
    """Return the quantiles of single losses of one direction of the preset :data:`BASE_PRESET`."""
    (known,) = segments(BASE_PRESET)
    return [Probability.parse(one).value for one in known[side]["reconfiguration"]["loss"]]


def single_losses(found: MergedLogs, model: Model, side: str) -> list[float]:
    """Return the quantiles of single losses of one direction, within what retransmissions allow; empty without losses.

    A half of a round trip's, all of a one-way delay's; of rates alone those of the preset :data:`BASE_PRESET`.
    """
    if found.points is None:
        return bound_losses(taken_losses(side), 1.0, model.most_loss.get(side))
    return direction_losses(model, 1.0 if found.one_way else 0.5, side)


def _preset(found: MergedLogs, model: Model, source: str) -> tuple[str, list[str]]:
    """Return a segment with intervals in both directions.

    Each direction gets half of the round-trip delay and half of the single losses. Jitter goes to the uplink, where
    a terminal waits for grants.
    """
    one_way, has_delays = found.one_way, found.points is not None
    (known,) = segments(BASE_PRESET)
    lines = [
        f"title = {inline(f'Reconfiguration intervals of {model.every_s:g} s, fitted to {source}')}",
        "",
        "[[path.segment]]",
        f"name = {inline(BASE_PRESET)}",
    ]
    taken = []
    for side in SIDES:
        other = known[side]["reconfiguration"]
        slots: dict[str, Any] = {"interval": f"{model.every_s:g} s", "phase": f"{model.phase_s:g} s"}
        if has_delays:
            slots |= _delays(model, 1.0 if one_way else 0.5, jitter=one_way or side == "up")
            if losses := single_losses(found, model, side):
                slots["loss"] = _chances(losses)
            slots |= _bursts(model)
        else:
            slots |= {key: value for key, value in other.items() if key not in (*slots, "rate")}
            if (losses := single_losses(found, model, side)) != taken_losses(side):
                slots["loss"] = _chances(losses)
            taken.append(f"delay and losses {side}")
        if side in model.rate_bit_s:
            slots["rate"] = [f"{round(value)} bit/s" for value in model.rate_bit_s[side]]
        else:
            slots["rate"] = other["rate"]
            taken.append(f"rate {side}")
        lines += ["", f"[path.segment.{side}]"]
        lines += [f"{key} = {inline(known[side][key])}" for key in ("queue", "aqm")]
        lines += [f"[path.segment.{side}.reconfiguration]"]
        lines += [f"{key} = {inline(value)}" for key, value in slots.items()]
    comments = [
        f"# `bentpipe fit` of {source}: {model.slots} intervals. Lists are quantiles, equally spaced from 0 to 1."
    ]
    if not one_way and has_delays:
        comments += [
            "# Each direction has half of the round-trip delay and losses. The uplink has the jitter within intervals."
        ]
    comments += [
        f"# Single losses {side}: at most {100 * most:.3g} %, from the retransmissions of iperf3."
        for side, most in model.most_loss.items()
        if model.loss or not has_delays
    ]
    comments += [f"# From preset {BASE_PRESET}, not in any log: {', '.join(['queues', *taken])}."]
    return "\n".join([*comments, *lines]) + "\n", taken


def _delays(model: Model, part: float, *, jitter: bool) -> dict[str, Any]:
    slots: dict[str, Any] = {"delay": _ms([part * value for value in model.delay_ms])}
    if jitter and model.jitter_ms[-1] > 0:
        slots["delay_jitter"] = _ms(model.jitter_ms)
        slots["delay_step"] = f"{round(1e6 * model.step_s)} us"
        slots["delay_correlation"] = round(model.correlation, 3)
    return slots


def _bursts(model: Model) -> dict[str, Any]:
    """Return the outages, which begin with slots and are both directions'."""
    if model.bursts is None:
        return {}
    probability = f"{100 * model.bursts.probability:.3g} %"
    return {"loss_bursts": {"probability": probability, "duration": _ms(list(model.bursts.length_ms))}}


FLOW = """
[[flow]]
name = "download"
transport = "tcp"
congestion = "cubic"
direction = "down"
"""


def _scenario(name: str, source: str) -> str:
    return f"""# Run: bentpipe run scenario.toml. Shell over the link: bentpipe shell {name}.toml
title = {inline(f"Download over reconfiguration intervals fitted to {source}")}
duration = "120 s"
seeds = 5

[path]
preset = "{name}.toml"
{FLOW}load = {{ time = "120 s" }}
"""


def replay(found: MergedLogs, source: str) -> dict[str, str]:
    """Return the log as files: LENS's columns, delays and losses for scenarios, Mahimahi's opportunities."""
    written = {}
    spans = []
    both: dict[str, Any] = {}
    points = found.points
    if points is not None:
        begin = float(points.at_s[0])
        spans.append(float(points.at_s[-1]) - begin)
        lost = np.isnan(points.delay_ms)
        trips = np.where(lost, -1.0, points.delay_ms * (2 if found.one_way else 1))
        rows = (f"{at:.6f},{took:.4f}" for at, took in zip(points.at_s, trips, strict=True))
        written["pings.csv"] = _text(["timestamp,rtt", *rows])
        part = 1.0 if found.one_way else 0.5
        known = zip(points.at_s[~lost], points.delay_ms[~lost], strict=True)
        steps = _rising([(round(1e6 * (at - begin)), f"{delay * part:.4f}") for at, delay in known])
        written["delay.csv"] = _text(["time_us,delay_ms", *steps])
        both["delay"] = {"trace": "delay.csv"}
        if lost.any():
            written["loss.csv"] = _text(["time_us,loss", *_rising(_losses(points, begin))])
            both["loss"] = {"trace": "loss.csv"}
    (known_segment,) = segments(BASE_PRESET)
    ways = {}
    for side in SIDES:
        way = {key: known_segment[side][key] for key in ("queue", "aqm")}
        if side in found.rates:
            rates = found.rates[side]
            instants = found.instants.get(side) or _opportunities(rates)
            if instants is None:
                times_s = rates.at_s - rates.at_s[0]
                pairs = zip(times_s, np.maximum(1.0, rates.bit_s) / 1e6, strict=True)
                table = [f"{at:.6f},{rate:.6f}" for at, rate in pairs]
                spans.append(float(times_s[-1]))
                written[f"{side}.csv"] = _text(["time_s,rate_Mbit_s", *table])
                way["rate"] = {"trace": f"{side}.csv"}
            elif instants:
                spans.append(instants[-1] / 1000)
                written[f"{side}.mahimahi"] = _text([str(at) for at in instants])
                way["trace"] = f"{side}.mahimahi"
        if "trace" not in way and "rate" not in way:
            table = known_segment[side]["reconfiguration"]["rate"]
            way["rate"] = table[len(table) // 2]
        ways[side] = way | both
    duration = f"{max(1, int(min(spans)))} s"
    lines = [
        "# Run: bentpipe run replay.toml",
        f"title = {inline(f'{source}, replayed')}",
        f"duration = {inline(duration)}",
        "",
        "[[path.segment]]",
        f"name = {inline(BASE_PRESET)}",
        *(f"{side} = {inline(way)}" for side, way in ways.items()),
    ]
    written["replay.toml"] = "\n".join(lines) + f"\n{FLOW}load = {{ time = {inline(duration)} }}\n"
    return written


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _rising(rows: list[tuple[int, str]]) -> list[str]:
    """Return rows with rising times; the first of equal microseconds stays."""
    lines: list[str] = []
    before = -1
    for at, value in rows:
        if at > before:
            lines.append(f"{at},{value}")
            before = at
    return lines


def _losses(points: Points, begin: float) -> list[tuple[int, str]]:
    """Return loss steps: everything is lost from a lost packet to the next delivered one."""
    rows = [] if np.isnan(points.delay_ms[0]) else [(0, "0")]
    for start, stop in zip(*runs(points), strict=True):
        rows.append((round(1e6 * (float(points.at_s[start]) - begin)), "1"))
        if stop < len(points.at_s):
            rows.append((round(1e6 * (float(points.at_s[stop]) - begin)), "0"))
    return rows


def _opportunities(rates: Rates) -> list[int] | None:
    """Return the instants of Mahimahi's packets, ms; a rate holds until the next one. ``None`` if too many."""
    at_s: Floats = rates.at_s - rates.at_s[0]
    steps = np.diff(at_s, append=at_s[-1] + (float(np.median(np.diff(at_s))) if len(at_s) > 1 else 1.0))
    edges = np.concatenate([[0.0], np.cumsum(steps)])
    packets = np.concatenate([[0.0], np.cumsum(rates.bit_s * steps / (8 * MAHIMAHI_BYTES))])
    if packets[-1] > MAX_OPPORTUNITIES:
        return None
    wanted = np.arange(1, int(packets[-1]) + 1)
    return [int(at) for at in np.ceil(np.interp(wanted, packets, edges) * 1000)]
