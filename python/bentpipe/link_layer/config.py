"""Input of a comparison of link-layer settings, and the scenario that computes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bentpipe.link_layer.access import Radio, RadioAccess
from bentpipe.link_layer.overrides import check_overwritten
from bentpipe.metrics.call_quality.playout import Playout, PlayoutError
from bentpipe.metrics.call_quality.playout import parse as parse_playout
from bentpipe.metrics.compare import MIN_SEEDS
from bentpipe.scenario.base import parse_positive_duration
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.flow.codecs import CODECS
from bentpipe.scenario.quantities import Duration, Size, UnitError
from bentpipe.scenario.sweep import format_override

__all__ = ["CALL", "FLOW", "TRAFFIC", "LinkLayerConfig", "Setting", "parse_config", "scenario", "settings_of"]

FLOW = "main"
"""Name of the flow."""

CALL = "call"
TRAFFIC = ("TCP", "QUIC", CALL)
"""Labels of the traffic: a download over each transport, and a call. Each has the path for itself."""

DURATION = "30 s"
SEEDS = MIN_SEEDS

PLAYOUT = Playout("quantile", 0.99)
"""Play-out of the call: at most 1 % of the received datagrams are late.

A de-jitter buffer covers a quantile of the delays (RFC 5481 section 3.2). The adaptive rule adds four mean
deviations. A retransmission of probability p is then late unless p > 1/8. More errors would give better ratings
(docs/explanation/calls.md).
"""

PROCESSES = (32, 16)
"""HARQ processes of 5G: 16, and 32 from Release 17 on."""

BUFFER_PACKETS = 125
"""Reordering buffer of a link layer (Tauran 2018, section 4.2.2)."""

CODE_RATE = "1/2"
"""Code rate without HARQ.

Adaptive-HARQ sends about 17,300 coded bits for 8,920 information bits at 13 dB. An attempt of the other schemes then
takes about the same airtime (docs/explanation/link-layer.md).
"""


@dataclass(frozen=True)
class Setting:
    """Setting of the link layer."""

    label: str
    keys: Mapping[str, Any]
    """Values by dotted key of the scenario."""


@dataclass(frozen=True)
class LinkLayerConfig:
    """Input of a comparison."""

    access: RadioAccess
    settings: tuple[Setting, ...]
    """The first one is the baseline."""
    duration: Duration
    congestion: str = "cubic"
    """Congestion controller of TCP and QUIC."""
    codec: str = "g711"
    size: Size | None = None
    """Size of the downloads; None: they last as long as the run."""
    seeds: int = SEEDS
    playout: Playout = PLAYOUT
    """Play-out of the call."""
    overrides: tuple[str, ...] = ()
    """Other ``KEY=VALUE`` texts that change the scenario."""

    @property
    def title(self) -> str:
        """Title of the access with all overrides of the comparison."""
        joint = ", " if self.access.overrides else " with "
        return (
            f"{self.access.title}{joint}{', '.join(self.overrides)}" if self.overrides else self.access.title
        )

    @property
    def all_overrides(self) -> list[str]:
        """``KEY=VALUE`` texts of the access and of the scenario."""
        return [*(format_override(key, value) for key, value in self.access.overrides), *self.overrides]

    @property
    def labels(self) -> list[str]:
        """Labels of the settings."""
        return [setting.label for setting in self.settings]


def parse_config(
    access: RadioAccess,
    *,
    congestion: str = "cubic",
    codec: str = "g711",
    duration: str = DURATION,
    size: str | None = None,
    seeds: int = SEEDS,
    only: Sequence[str] = (),
    baseline: str | None = None,
    playout: str = str(PLAYOUT),
    settings: Sequence[str] = (),
) -> LinkLayerConfig:
    """Return a checked config.

    Args:
        access: the access.
        congestion: congestion controller of TCP and QUIC.
        codec: codec of the call.
        duration: duration of each run, such as ``"30 s"``.
        size: size of the downloads, such as ``"5 MB"``; None: they last as long as the run.
        seeds: number of seeds.
        only: labels of the settings besides the baseline; empty: all.
        baseline: label of the baseline; None: the first setting.
        playout: play-out of the call: ``"p99"``, ``"60 ms"`` or ``"adaptive"``.
        settings: ``KEY=VALUE`` texts that change the scenario of the comparison.

    Raises:
        ScenarioError: an argument is wrong.
    """
    problems: list[tuple[str, str]] = []
    if codec not in CODECS:
        problems.append(("codec", unknown_name(codec, CODECS, "codec")))
    run_duration, bytes_ = Duration(0), None
    try:
        run_duration = parse_positive_duration(duration)
    except ValueError as error:
        problems.append(("duration", str(error)))
    try:
        bytes_ = None if size is None else Size.parse(size)
    except UnitError as error:
        problems.append(("size", str(error)))
    if bytes_ is not None and bytes_.bytes == 0:
        problems.append(("size", f'found "{size}", expected a size above 0 such as "5 MB"'))
    rule = PLAYOUT
    try:
        rule = parse_playout(playout)
    except PlayoutError as error:
        problems.append(("playout", str(error)))
    known = settings_of(access)
    labels = [setting.label for setting in known]
    problems += [("setting", unknown_name(label, labels, "setting")) for label in only if label not in labels]
    if baseline is not None and baseline not in labels:
        problems.append(("baseline", unknown_name(baseline, labels, "setting")))
    if problems:
        raise ScenarioError(problems, SOURCE_ARGUMENT)
    first = baseline or labels[0]
    chosen = [setting for setting in known if setting.label != first and (not only or setting.label in only)]
    chosen = [setting for setting in known if setting.label == first] + chosen
    if len(chosen) < 2:
        problem = f'found the baseline "{first}" alone, expected another setting: {", ".join(labels)}'
        raise ScenarioError([("setting", problem)], SOURCE_ARGUMENT)
    check_overwritten(access, chosen, settings_of)
    return LinkLayerConfig(
        access, tuple(chosen), run_duration, congestion, codec, bytes_, seeds, rule, tuple(settings)
    )


def settings_of(access: RadioAccess) -> tuple[Setting, ...]:
    """Return the settings that fit the radios of an access; the first one is the baseline."""
    make = _nr_settings if access.kind == "nr" else _arq_settings
    return tuple(
        Setting(
            label,
            {f"{radio.key}.{key}": value for radio in access.radios for key, value in values(radio).items()},
        )
        for label, values in make()
    )


Values = Any
"""Function of a radio that returns the keys of a setting."""


def _nr_settings() -> list[tuple[str, Values]]:
    """Return label and keys of the settings of 5G: HARQ processes and retransmissions, RLC mode, order of PDCP."""
    most, least = PROCESSES

    def bearer(rlc: str, processes: int, *, harq: int | None = None, is_in_order: bool = True) -> Values:
        """Return the keys; ``harq`` is the number of HARQ retransmissions, None that of the access, 0 no feedback."""

        def values(radio: Radio) -> dict[str, Any]:
            base_rlc = radio.table.get("rlc", "am")
            mode = base_rlc.get("mode") if isinstance(base_rlc, dict) else base_rlc
            keys = {
                "processes": processes,
                "feedback_disabled_processes": processes if harq == 0 else 0,
                "retransmissions": (radio.table.get("retransmissions") or 3) if harq is None else harq,
                "rlc": base_rlc if mode == rlc else rlc,
                "in_order": is_in_order,
            }
            return {f"nr.{key}": value for key, value in keys.items()}

        return values

    return [
        (f"HARQ {most} + RLC AM", bearer("am", most)),
        (f"HARQ {least} + RLC AM", bearer("am", least)),
        (f"HARQ {most} + RLC AM out of order", bearer("am", most, is_in_order=False)),
        (f"HARQ {most} (1 retransmission) + RLC AM", bearer("am", most, harq=1)),
        (f"HARQ {most} (1 retransmission) + RLC UM", bearer("um", most, harq=1)),
        ("RLC AM alone", bearer("am", most, harq=0)),
        ("RLC UM alone", bearer("um", most, harq=0)),
    ]


def _arq_settings() -> list[tuple[str, Values]]:
    """Return label and keys of the settings of ``link_layer``: HARQ or ARQ, retransmissions, reordering buffer."""

    def link(*, is_buffered: bool, **changes: Any) -> Values:
        def values(radio: Radio) -> dict[str, Any]:
            keys = dict(changes)
            if keys.get("retransmissions") == 1 and radio.table["scheme"] == "adaptive-harq":
                keys["target_decoded_ratio"] = list(radio.table.get("target_decoded_ratio", ["50 %"]))[:1]
            buffer = (radio.reordering_buffer or BUFFER_PACKETS) if is_buffered else 0
            return {f"link_layer.{key}": value for key, value in keys.items()} | {"reordering_buffer": buffer}

        return values

    arq = {"scheme": "selective-repeat", "code_rate": CODE_RATE, "retransmissions": 3}
    return [
        ("HARQ", link(is_buffered=False)),
        ("HARQ + reordering buffer", link(is_buffered=True)),
        ("HARQ (1 retransmission)", link(is_buffered=False, retransmissions=1)),
        ("HARQ (1 retransmission) + reordering buffer", link(is_buffered=True, retransmissions=1)),
        ("ARQ", link(is_buffered=False, **arq)),
        ("ARQ + reordering buffer", link(is_buffered=True, **arq)),
        ("no retransmission", link(is_buffered=False, scheme="code", code_rate=CODE_RATE)),
    ]


def scenario(config: LinkLayerConfig) -> dict[str, Any]:
    """Return the scenario as parsed TOML."""
    amount = {"time": str(config.duration)} if config.size is None else {"bytes": str(config.size)}
    download = {
        f"flow.{FLOW}.congestion": config.congestion,
        f"flow.{FLOW}.direction": config.access.direction,
        f"flow.{FLOW}.load": amount,
    }
    return {
        "title": f"Link-layer settings, {config.title}",
        "duration": str(config.duration),
        "sample_interval": f"{max(1, math.ceil(config.duration.seconds / 60))} s",
        "seeds": config.seeds,
        "path": dict(config.access.path),
        "flow": [{"name": FLOW}],
        "trace": {"packets": True},
        "sweep": {
            "traffic": [
                {"label": "TCP", f"flow.{FLOW}.transport": "tcp", **download},
                {"label": "QUIC", f"flow.{FLOW}.transport": "quic", **download},
                {"label": CALL, f"flow.{FLOW}.transport": "udp", f"flow.{FLOW}.load": {"call": config.codec}},
            ],
            "setting": [{"label": setting.label, **setting.keys} for setting in config.settings],
        },
    }
