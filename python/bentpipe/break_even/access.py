"""The access that a map is about: of a preset, of a scenario of one's own, or of three numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bentpipe.plan.document import ScenarioDocument, load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.spec.queries import delays_ns
from bentpipe.runners import engine
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.presets import presets
from bentpipe.scenario.quantities import Duration, Rate, UnitError

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import StageSpec

__all__ = ["Access", "access", "numbers"]

OWN_QUEUE = "1 BDP"
"""Of an access that is only numbers: draft-kuhn-quic-4-sat-07's, section 4."""

_OTHERS = ("flow", "page", "sweep", "seeds", "sample", "bundles")
"""Tables of a scenario that say nothing of its path."""


@dataclass(frozen=True)
class Access:
    """What of an access the map is about: both directions of its bottleneck. Round-trip time is an axis of the map."""

    name: str
    """In names of files."""
    title: str
    down: Mapping[str, Any]
    up: Mapping[str, Any]
    rtt: Duration | None = None
    """The whole one of its path, without queues: where the map's answer is read."""
    folder: Path = field(default_factory=Path)
    """Where files are that its directions name."""

    @property
    def down_rate(self) -> Rate:
        """Rate towards the client; of slots the least."""
        found = _least_rate(self.down)
        if found is None:
            raise ValueError(f"{self.name} has no rate")
        return found

    @property
    def slotted(self) -> bool:
        """Whether rates or losses of it are drawn in slots."""
        return "slots" in self.down or "slots" in self.up


def access(name: str, overrides: Sequence[tuple[str, object]] = ()) -> Access:
    """The access of a preset or of a scenario file: the segment with the lowest rate towards the client, as it is but
    for its delay. Of slots, whose rates and losses are drawn, that is the lowest they can have.

    Args:
        name: a preset, or a TOML file, of which the path is enough.
        overrides: dotted keys and values, as ``--set`` gives them.

    Raises:
        ScenarioError: there is none; what is wrong with it; no segment has rates that are constant or of slots.
    """
    known = {preset.name: preset for preset in presets()}
    if name in known:
        document = load_scenario({"path": {"preset": name}}, overrides)
        called, title = name, known[name].title
    elif name.endswith(".toml") or Path(name).is_file():
        document = load_scenario(name, overrides)
        called, title = Path(name).stem, str(document.data.get("title", Path(name).stem))
    else:
        raise ScenarioError(
            [("access", f"{unknown_name(name, known, 'preset')}; or a scenario (TOML)")], SOURCE_ARGUMENT
        )
    rtt = _round_trip(document)
    found: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]] = []
    for segment in document.data["path"]["segment"]:
        both = segment.get("both", {})
        down, up = ({**both, **segment.get(side, {})} for side in ("down", "up"))
        least = _least_rate(down)
        if least is not None and _least_rate(up) is not None:
            found.append((least.bit_s, _bottleneck(down), _bottleneck(up)))
    if not found:
        instead = "expected another access, or what it has on the average as --down, --up and --rtt"
        text = f"{name} has no segment whose rates both ways are constant, or drawn in slots; {instead}"
        raise ScenarioError([("access", text)], SOURCE_ARGUMENT)
    _, towards_client, towards_server = min(found, key=lambda one: one[0])
    return Access(called, title, towards_client, towards_server, rtt, document.folder)


def numbers(down: str | None, up: str | None, rtt: str | None) -> Access:
    """The access of both rates and the whole round-trip time. Raises ScenarioError where one is missing or wrong."""
    given = {
        "down": (down, Rate.parse, "50 Mbit/s"),
        "up": (up, Rate.parse, "6 Mbit/s"),
        "rtt": (rtt, _above_0, "620 ms"),
    }
    there = " and ".join(f"--{key}" for key, (text, _, _) in given.items() if text is not None)
    problems: list[tuple[str, str]] = []
    for key, (text, parse, example) in given.items():
        try:
            if text is None:
                problems.append((key, f'missing beside {there}, expected it too, such as "{example}"'))
            else:
                parse(text)
        except UnitError as error:
            problems.append((key, str(error)))
    if problems or down is None or up is None or rtt is None:
        raise ScenarioError(problems, SOURCE_ARGUMENT)
    whole, towards_client, towards_server = Duration.parse(rtt), Rate.parse(down), Rate.parse(up)
    words = (towards_client, towards_server, whole)
    return Access(
        "-".join(str(word).replace(" ", "").replace("/s", "") for word in words),
        f"{towards_client} down, {towards_server} up, {whole}",
        {"rate": str(towards_client), "queue": OWN_QUEUE},
        {"rate": str(towards_server), "queue": OWN_QUEUE},
        whole,
    )


def _above_0(text: str) -> Duration:
    found = Duration.parse(text)
    if found.ns == 0:
        raise UnitError(f'found "{text}", expected a time above 0 such as "620 ms"')
    return found


def _least_rate(direction: Mapping[str, Any]) -> Rate | None:
    """The rate of a direction, the least of slots; None where it is neither constant nor of these."""
    rate = direction.get("rate")
    if isinstance(rate, dict):
        rate = rate.get("constant")
    slots = direction.get("slots")
    if rate is None and isinstance(slots, dict):
        rate = (slots.get("rate") or [None])[0]
    return Rate.parse(rate) if isinstance(rate, str) else None


def _bottleneck(direction: Mapping[str, Any]) -> dict[str, Any]:
    """A direction without its delay, which is an axis; nor has a slot one of its own."""
    found = {key: value for key, value in direction.items() if key != "delay"}
    if isinstance(found.get("slots"), dict):
        slots = {key: value for key, value in found.pop("slots").items() if not key.startswith("delay")}
        if slots.keys() & {"rate", "loss", "bursts"}:
            found["slots"] = slots
    return found


def _round_trip(document: ScenarioDocument) -> Duration | None:
    """The least round-trip time of a path, both ways through all its segments, each slot in the middle of what it can
    have; of a path without delay, None.

    Raises ScenarioError: what is wrong with the path; there is none.
    """
    data = {key: value for key, value in document.data.items() if key not in _OTHERS}
    if not isinstance(data.get("path"), dict):
        text = "missing, expected [[path.segment]]: a map is of an access, not of a graph"
        raise ScenarioError([("path", text)], document.name)
    data = {"duration": "1 h", **data, "flow": [{"name": "web", "congestion": "cubic"}]}
    plan = build_plan(
        replace(document, data=data), "", catalogue=engine.catalogue(), orbits=engine.orbit, check_cost=False
    )
    stages = [
        stage
        for link in plan.runs[0].spec["graph"]["links"]
        for side in ("up", "down")
        for stage in link[side]
    ]
    whole = sum(map(_delay_ns, stages))
    return Duration(whole) if whole else None


def _delay_ns(stage: StageSpec) -> int:
    if stage["kind"] == "slot_delay":  # lists of quantiles, whose middle is the median
        return round(median(stage["delay_ns"]) + median(stage["jitter_ns"] or [0]))
    return min(delays_ns(stage), default=0)
