"""Interpretations of what chapter 5 leaves open, one change at a time, and the statements that each supports.

An interpretation is the same scenario with one change. Its store has only the cells that its statements need.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.verdicts import Claim, Verdict
from bentpipe_studies.andreotti_2025.dtn.cells import CONTROLLERS, LONG, SHORT, STREAM, cells_of, long, short
from bentpipe_studies.andreotti_2025.dtn.claims import CRITERIA, InterpretationRuns, checks_of
from bentpipe_studies.andreotti_2025.dtn.measures import Bundles
from bentpipe_studies.evidence import FilteredCubic, LeapingCubic, ScaledHybla, UnfrozenHybla
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import read_toml

__all__ = [
    "INTERPRETATIONS",
    "NEARER",
    "Interpretation",
    "cell_filters",
    "combined_runs",
    "evaluate",
    "parts",
    "supporting_text",
    "tables",
]

NEARER = {
    "filtered-cubic": FilteredCubic,
    "leaping-cubic": LeapingCubic,
    "scaled-hybla": ScaledHybla,
    "unfrozen-hybla": UnfrozenHybla,
}
"""User-supplied controllers."""

Axes = dict[str, Any]
FLOWS = {"one-six": ("vm1", "vm6"), "one-three": ("vm1", "vm3"), "three-six": ("vm3", "vm6")}
LONG_S, SWITCH_S = 180, 70
"""Duration of the long runs: 50 s after the contact is back, or the span of figure 5.3."""

DIRECT = ("d1", "d3", "d4", "d5", "d7", "d8", "d9")
RELAYED = ("d2", "d6", "d10")


def _keep(_: Axes) -> None:
    """Leave the axes unchanged."""


@dataclass(frozen=True)
class Interpretation:
    """One change to the runs that receive verdicts."""

    key: str
    label: str
    claims: tuple[str, ...]
    change: Callable[[Axes], None] = _keep
    settings: Mapping[str, object] = field(default_factory=dict)
    controller: str = "cubic"
    words: str = "-W 32 -P 1M -T {} -l 600"
    start_s: float = 0.0
    own_way: bool = False

    def store(self, part: str) -> str:
        """Return the part that replaces ``part``."""
        return f"{part}-{self.key}"

    @property
    def long_s(self) -> int:
        """Duration of its long runs, s."""
        return LONG_S if "d7" in self.claims else SWITCH_S


def _rates(direct: str, relay: str) -> Callable[[Axes], None]:
    """Return a change of the rates that the plan states for the hops."""

    def change(axes: Axes) -> None:
        for axis in ("relay", "disruption"):
            for value in axes[axis]:
                for contact in value.get("dtn.contact", ()):
                    contact["rate"] = direct if {contact["from"], contact["to"]} == {"vm1", "vm6"} else relay

    return change


def _hops(delay: str) -> Callable[[Axes], None]:
    """Return a change of the delay of hops 1-3 and 3-6, in the links and in the plan."""

    def change(axes: Axes) -> None:
        for value in axes["rtt"]:
            value |= {"graph.to-relay.delay": delay, "graph.from-relay.delay": delay}
            for one in value["dtn.range"]:
                if "vm3" in (one["from"], one["to"]):
                    one["owlt"] = delay

    return change


def _queue(packets: str) -> Callable[[Axes], None]:
    def change(axes: Axes) -> None:
        for value in axes["rtt"]:
            value |= {key: packets for key in value if key.endswith(".queue")}

    return change


def _later(seconds: float) -> Callable[[Axes], None]:
    """Return a change that delays disruptions."""

    def change(axes: Axes) -> None:
        for value in axes["disruption"]:
            for outage in value.get("graph.direct.outages", ()):
                outage["at"] = f"{float(outage['at'].removesuffix(' s')) + seconds:g} s"

    return change


_WAITS = {f"graph.{link}.netem": False for link in ("direct", "to-relay", "from-relay")}
_LARGER = {"quic.initial_window": "93696 B", "quic.unpaced_burst": 10}

INTERPRETATIONS = (
    Interpretation("hybla", "QUIC controller: Hybla", DIRECT, controller="hybla"),
    Interpretation("unfrozen", "QUIC controller: Hybla with growth in the RTT after a reduction, as in picoquic",
            DIRECT, controller="unfrozen-hybla"),
    Interpretation("pico", "QUIC controller: CUBIC with the loss filter of picoquic", DIRECT,
            controller="filtered-cubic"),
    Interpretation("leap", "the same with the start of picoquic: 94 kB, then half of the BDP of the fastest ACK train",
            DIRECT, settings=_LARGER, controller="leaping-cubic"),
    Interpretation("newreno", "QUIC controller: NewReno", DIRECT, controller="newreno"),
    Interpretation("bbr1", "QUIC controller: BBR version 1", DIRECT, controller="bbr1"),
    Interpretation("room", "queue: one BDP of packets in addition to those in flight", DIRECT, settings=_WAITS),
    Interpretation("thousand", "queue: 1000 packets, the default of tc", DIRECT, _queue("1000 packets")),
    Interpretation("lifetime", "lifetime: 60 s, as dtnperf", ("d4", "d7"), words="-W 32 -P 1M -T {}"),
    Interpretation("own-way", "return path: each node opens its own connection", ("d1", "d3", "d4", "d7", "d8"),
            own_way=True),
    Interpretation("open", "connections are open 20 s before the client starts", ("d1", "d3", "d4", "d8"), _later(20.0),
            {"duration": "110 s", "flow.one-six.start": "20 s"}, start_s=20.0),
    Interpretation("plan-90", "plan: 90 Mb/s for every hop", RELAYED, _rates("90 Mbit/s", "90 Mbit/s")),
    Interpretation("plan-50", "plan: 50 Mb/s for every hop", RELAYED, _rates("50 Mbit/s", "50 Mbit/s")),
    Interpretation("plan-slow", "plan: 5 Mb/s for hops 1-3 and 3-6", RELAYED, _rates("100 Mbit/s", "5 Mbit/s")),
    Interpretation("blind", "backlog not counted: bundles of a convergence layer do not wait in the node", RELAYED,
            settings={"dtn.backlog": "ignored"}),
    Interpretation("blind-90", "the same with 90 Mb/s for every hop in the plan", RELAYED,
            _rates("90 Mbit/s", "90 Mbit/s"), {"dtn.backlog": "ignored"}),
    Interpretation("client", "a second client at the relay, also with a window of 32", RELAYED,
            settings={"flow.three-six.load.bundles.dtnperf": "-W 32 -P 1M -T {} -l 600"}),
    Interpretation("near", "hops 1-3 and 3-6: 0.5 ms each way", RELAYED, _hops("0.5 ms")),
    Interpretation("distant", "hops 1-3 and 3-6: 62.5 ms each way", RELAYED, _hops("62.5 ms")),
    Interpretation("together",
            "together: Hybla as above, initial window times rho; backlog not counted, 75 Mb/s in the plan",
            tuple(CRITERIA), _rates("75 Mbit/s", "75 Mbit/s"), {"dtn.backlog": "ignored"}, controller="scaled-hybla"),
)  # fmt: skip
"""Changes to the runs that receive verdicts (CUBIC and BBR); the last combines the best-supported ones."""


def _cells(interpretation: Interpretation, part: str, claim: str) -> list[dict[str, str]]:
    """Return the cells of a part that a statement needs."""
    c = interpretation.controller
    if part == LONG:
        ways = {"d2": "with relay", "d6": "with relay", "d7": "without relay"}
        return [long(c, "10 ms", "100 s", ways[claim])] if claim in ways else []
    return {
        "d1": [short(c, "10 ms")],
        "d3": [short(c, "2 s")],
        "d4": [short(c, "125 ms", loss=loss) for loss in ("0.01 %", "1 %")],
        "d5": [short(c, "10 ms", disruption="none", streams=streams) for streams in STREAM],
        "d8": [short(c, "10 ms"), short(c, "125 ms")],
        "d9": [short(c, "10 ms", disruption="none")],
        "d10": [short(c, "10 ms", disruption=one, relay="in the plan") for one in ("none", "1 s")],
    }.get(claim, [])


def _needed(interpretation: Interpretation, part: str) -> list[dict[str, str]]:
    return [cell for claim in interpretation.claims for cell in _cells(interpretation, part, claim)]


def _settings(interpretation: Interpretation, part: str, table: Mapping[str, Any]) -> dict[str, object]:
    """Return the changed keys of the scenario of a part."""
    axes: Axes = copy.deepcopy(dict(table["sweep"]))
    axes.setdefault("relay", [])
    controllers = {f"flow.{flow}.congestion": interpretation.controller for flow in FLOWS}
    axes["controller"] = [{"label": interpretation.controller, **controllers}]
    interpretation.change(axes)
    if part == LONG:
        del axes["relay"]
    cells = _needed(interpretation, part)
    for axis, values in axes.items():
        if axis in cells[0]:  # the values that are needed
            labels = {cell[axis] for cell in cells}
            axes[axis] = [one for one in values if (one["label"] if isinstance(one, dict) else one) in labels]
    seconds = interpretation.long_s if part == LONG else 30
    words = interpretation.words.format(seconds)
    settings: dict[str, object] = {
        key: value.format(seconds) if isinstance(value, str) else value
        for key, value in interpretation.settings.items()
    }
    if part == LONG:
        settings["duration"] = f"{interpretation.long_s} s"
    flows = copy.deepcopy(table["flow"])
    flows[0]["load"]["bundles"]["dtnperf"] = words
    if interpretation.own_way:
        flows += [
            {"name": f"{name}-back", "client": there, "server": here, "congestion": interpretation.controller,
             "load": {"bundles": {"layer": "quiccl"}}}
            for name, (here, there) in FLOWS.items()
        ]  # fmt: skip
    return {"flow": flows, **settings, "sweep": axes}


def parts(place: Path) -> list[Part]:
    """Return a part for each interpretation and each of the two scenarios that it needs."""
    tables = {part: read_toml(place / f"{part}.toml") for part in (SHORT, LONG)}
    return [
        Part(
            interpretation.store(part),
            place / f"{part}.toml",
            {name: kind for name, kind in NEARER.items() if name == interpretation.controller},
            _settings(interpretation, part, tables[part]),
        )
        for interpretation in INTERPRETATIONS
        for part in (SHORT, LONG)
        if _needed(interpretation, part)
    ]


def cell_filters() -> dict[str, CellFilter]:
    """Return the filter of cells of every interpretation."""
    return {
        interpretation.store(part): cells_of(cells)
        for interpretation in INTERPRETATIONS
        for part in (SHORT, LONG)
        if (cells := _needed(interpretation, part))
    }


def _runs(measurements: Measurements) -> Iterator[tuple[str, tuple[str, ...], InterpretationRuns]]:
    """Yield every interpretation, its statements, and its runs."""
    plain = Bundles(measurements)
    for controller in CONTROLLERS:
        yield f"as run: {controller.upper()}", tuple(CRITERIA), InterpretationRuns(plain, controller)
    for interpretation in INTERPRETATIONS:
        stores = {part: interpretation.store(part) for part in (SHORT, LONG)}
        bundles = Bundles(measurements, stores, interpretation.start_s)
        yield (
            interpretation.label,
            interpretation.claims,
            InterpretationRuns(bundles, interpretation.controller, end_s=float(interpretation.long_s)),
        )


Claims = dict[str, dict[str, Claim]]
"""Claims by interpretation and statement."""


def evaluate(measurements: Measurements) -> Claims:
    """Return the claims of what has run; empty when no interpretation has."""
    found: Claims = {}
    for label, touched, asked in _runs(measurements):
        for name in touched:
            if checks := checks_of(name, asked):
                found.setdefault(label, {})[name] = Claim(name, "", "", label, checks)
    return found if any(interpretation.label in found for interpretation in INTERPRETATIONS) else {}


def combined_runs(measurements: Measurements) -> InterpretationRuns:
    """Return the runs of the combined change."""
    return next(asked for label, _, asked in _runs(measurements) if label == INTERPRETATIONS[-1].label)


def _format_verdict(claim: Claim) -> str:
    """Return the verdict, and the first failed check of one that does not agree."""
    if claim.verdict is Verdict.AGREES:
        return claim.verdict.value
    worst = next(check for check in claim.checks if check.verdict is claim.verdict)
    return f"{claim.verdict.value}: {worst.measured}, required {worst.needed}"


def tables(found: Claims) -> tuple[TextTable, ...]:
    """Return a line for each interpretation and a column for each statement that not every interpretation supports."""
    disputed = [
        name
        for name in CRITERIA
        if any(name in claims and claims[name].verdict is not Verdict.AGREES for claims in found.values())
    ]
    lines = [
        {
            "interpretation": label,
            **{name: _format_verdict(claims[name]) if name in claims else "" for name in disputed},
        }
        for label, claims in found.items()
    ]
    title = "Interpretations of open points of chapter 5, single changes"
    return (TextTable(title, tuple(lines)),) if lines else ()


def supporting_text(found: Claims) -> tuple[str, ...]:
    """Return the interpretations that support each statement."""
    if not found:
        return ()
    lines = [
        (
            "Interpretations use CUBIC unless they name a controller. An empty field is "
            "unaffected. Failed checks show the measured and the required value."
        )
    ]
    for name in CRITERIA:
        verdicts = {label: claims[name].verdict for label, claims in found.items() if name in claims}
        holds = [label for label, verdict in verdicts.items() if verdict is Verdict.AGREES]
        fails = [label for label in verdicts if label not in holds]
        most = len(fails) < len(holds)
        start = f"all{' but ' if fails else ''}" if most else ""
        names = start + "; ".join(fails if most else holds)
        lines.append(
            f"{name} is supported by {len(holds)} of {len(verdicts)} "
            f"interpretations{f': {names}' if names else ''}."
        )
    return tuple(lines)
