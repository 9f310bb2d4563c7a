"""Access network of a map: a preset, a scenario, or rates and round-trip time."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bentpipe.plan.access import DEFAULT_QUEUE, load_access, lowest_rate, parse_loss, parse_numbers
from bentpipe.plan.plan import build_plan
from bentpipe.plan.spec.queries import delays_ns
from bentpipe.runners import engine
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.presets import expand_preset
from bentpipe.scenario.quantities import Duration, Rate

if TYPE_CHECKING:
    from bentpipe.plan.document import ScenarioDocument
    from bentpipe.plan.spec.run_spec import StageSpec

__all__ = ["Access", "access", "numbers", "with_loss"]

_NON_PATH_KEYS = ("flow", "page", "sweep", "seeds", "sample_interval", "bundles")
"""Keys of a scenario that do not describe its path."""


@dataclass(frozen=True)
class Access:
    """Both directions of the bottleneck of an access; the round-trip time is an axis of the map."""

    name: str
    """Name in file names."""
    title: str
    down: Mapping[str, Any]
    up: Mapping[str, Any]
    rtt: Duration | None = None
    """Round-trip time of the whole path without queueing; the headline of the map is about it."""
    folder: Path = field(default_factory=Path)
    """Directory of the files that the directions name."""

    @property
    def down_rate(self) -> Rate:
        """Rate towards the client; the lowest rate of slots."""
        rate = lowest_rate(self.down)
        if rate is None:
            raise ValueError(f"{self.name} has no rate")
        return rate

    @property
    def lossy(self) -> bool:
        """True if a direction has a loss model."""
        return "loss" in self.down or "loss" in self.up

    @property
    def slotted(self) -> bool:
        """True if rates or losses are drawn in slots (reconfiguration intervals)."""
        return "reconfiguration" in self.down or "reconfiguration" in self.up


def access(name: str, overrides: Sequence[tuple[str, object]] = ()) -> Access:
    """Return the bottleneck of a preset or scenario file, without its delay.

    The bottleneck is the segment with the lowest rate towards the client. For slots with random rates, the lowest
    possible rate counts.

    Args:
        name: a preset, or a TOML file, which needs a path only.
        overrides: dotted keys and values, as ``--set`` gives them.

    Raises:
        ScenarioError: the access is unknown or wrong, or no segment has constant rates or rates of slots.
    """
    named = load_access(name, overrides)
    document = named.document
    rtt = _path_rtt(document)
    candidates: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]] = []
    data = copy.deepcopy(dict(document.data))
    expand_preset(data, document.folder)
    for segment in data["path"]["segment"]:
        both = segment.get("both", {})
        down, up = ({**both, **segment.get(side, {})} for side in ("down", "up"))
        down_rate = lowest_rate(down)
        if down_rate is not None and lowest_rate(up) is not None:
            candidates.append((down_rate.bit_s, _without_delay(down), _without_delay(up)))
    if not candidates:
        hint = "expected another access, or its mean rates and RTT as --down, --up and --rtt"
        text = (
            f"{name} has no segment with constant rates, or rates drawn in slots, in both directions; {hint}"
        )
        raise ScenarioError([("access", text)], SOURCE_ARGUMENT)
    _, towards_client, towards_server = min(candidates, key=lambda candidate: candidate[0])
    return Access(named.name, named.title, towards_client, towards_server, rtt, document.folder)


def numbers(down: str | None, up: str | None, rtt: str | None) -> Access:
    """Return an access with two rates and the round-trip time of the whole path.

    Raises:
        ScenarioError: an argument is missing or wrong.
    """
    parsed = parse_numbers(down, up, rtt)
    towards_client, towards_server = (
        {"rate": str(rate), "queue": DEFAULT_QUEUE} for rate in (parsed.down, parsed.up)
    )
    return Access(parsed.name, parsed.title, towards_client, towards_server, parsed.rtt)


def with_loss(access: Access, loss: str | None) -> Access:
    """Return ``access`` with random losses of packets in both directions, in place of its own loss.

    Losses of slots remain.

    Args:
        access: the access.
        loss: probability of each packet, such as ``"1 %"``; None: as the access has it.

    Raises:
        ScenarioError: the loss is wrong.
    """
    if loss is None:
        return access
    probability = parse_loss(loss)
    sides = ({**side, "loss": str(probability)} for side in (access.down, access.up))
    name = f"{access.name}-loss-{str(probability).removesuffix(' %')}"
    return replace(
        access, name=name, title=f"{access.title}, loss {probability}", down=next(sides), up=next(sides)
    )


def _without_delay(direction: Mapping[str, Any]) -> dict[str, Any]:
    """Return a direction without its delay and without delays of slots, because delay is an axis of the map."""
    result = {key: value for key, value in direction.items() if key != "delay"}
    if isinstance(result.get("reconfiguration"), dict):
        slots = {
            key: value for key, value in result.pop("reconfiguration").items() if not key.startswith("delay")
        }
        if slots.keys() & {"rate", "loss", "loss_bursts"}:
            result["reconfiguration"] = slots
    return result


def _path_rtt(document: ScenarioDocument) -> Duration | None:
    """Return the minimum round-trip time through all segments, with the median delay of slots; None if it is 0.

    Raises:
        ScenarioError: the path is missing or wrong.
    """
    data = {key: value for key, value in document.data.items() if key not in _NON_PATH_KEYS}
    if not isinstance(data.get("path"), dict):
        text = "missing, expected [[path.segment]]: a map is of an access, not of a graph"
        raise ScenarioError([("path", text)], document.name)
    data = {"duration": "1 h", **data, "flow": [{"name": "web", "congestion": "cubic"}]}
    plan = build_plan(
        replace(document, data=data),
        "",
        catalogue=engine.catalogue(),
        orbits=engine.orbit,
        is_simulated=False,
    )
    stages = [
        stage
        for link in plan.runs[0].spec["graph"]["links"]
        for side in ("up", "down")
        for stage in link[side]
    ]
    rtt_ns = sum(map(_delay_ns, stages))
    return Duration(rtt_ns) if rtt_ns else None


def _delay_ns(stage: StageSpec) -> int:
    if (
        stage["kind"] == "reconfiguration_delay"
    ):  # lists of quantiles: their median is that of the distribution
        return round(median(stage["delay_ns"]) + median(stage["jitter_ns"] or [0]))
    return min(delays_ns(stage), default=0)
