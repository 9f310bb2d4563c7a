"""What follows from a scenario before anything runs: ``bentpipe check`` as data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.api.engine_choice import check_engine
from bentpipe.api.plan import plan_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import polars as pl

    from bentpipe.api.engine_choice import Engine
    from bentpipe.plan.analysis.bounds import Bound
    from bentpipe.plan.analysis.lint import LintMessage
    from bentpipe.plan.plan import Plan
    from bentpipe.scenario.model import Scenario

__all__ = ["CheckResult", "CodedBits", "NrUse", "check", "coded_bits", "nr_links"]

_WHOLE = ("rate_bit_s", "bdp_bytes", "queue_bytes", "queue_packets")
"""Bounds that are whole numbers."""


@dataclass(frozen=True)
class CodedBits:
    """How the link layer of a radio link codes a frame."""

    cell: Mapping[str, Any]
    """The first of the sweep's cells that has it."""
    link: str
    """``LINK.up`` or ``LINK.down``."""
    information_bits: int
    coded_bits: tuple[int, ...]
    """In each attempt; the last holds for all that follow."""


def coded_bits(plan: Plan) -> tuple[CodedBits, ...]:
    """Of every radio link, each once; those of Adaptive-HARQ come of its channel, in a quarter of a second each."""
    from bentpipe.runners import engine

    found: dict[str, CodedBits] = {}
    for cell in plan.cells:
        for link in cell.resolved.spec["graph"]["links"]:
            for way, stages in (("up", link["up"]), ("down", link["down"])):
                for stage in stages:
                    name = f"{link['name']}.{way}"
                    if stage["kind"] != "radio":
                        continue
                    layer = stage["link_layer"]
                    key = json.dumps([name, stage["channel"], layer], sort_keys=True)
                    if key not in found:
                        bits = tuple(engine.coded_bits(stage))
                        found[key] = CodedBits(cell.values, name, layer["frame_bytes"] * 8, bits)
    return tuple(found.values())


@dataclass(frozen=True)
class NrUse:
    """How much of its slots a 5G link can use."""

    cell: Mapping[str, Any]
    """The first of the sweep's cells that has it."""
    link: str
    """``LINK.up`` or ``LINK.down``."""
    processes: int
    without_feedback: int
    cycle_slots: int
    """From one block of a process to the next."""
    utilisation: float
    rate_bit_s: float
    """Of transport blocks, each sent once."""


def nr_links(plan: Plan) -> tuple[NrUse, ...]:
    """Of every 5G link, each once."""
    from bentpipe.plan.link.nr import cycle_slots, utilisation
    from bentpipe.plan.spec.queries import rate_bit_s

    found: dict[tuple[object, ...], NrUse] = {}
    for cell in plan.cells:
        for link in cell.resolved.spec["graph"]["links"]:
            for way, stages in (("up", link["up"]), ("down", link["down"])):
                for stage in stages:
                    if stage["kind"] != "nr":
                        continue
                    name, used = f"{link['name']}.{way}", utilisation(stage)
                    rate = (rate_bit_s(stage) or 0.0) * used
                    use = (
                        name,
                        stage["processes"],
                        stage["without_feedback"],
                        cycle_slots(stage),
                        used,
                        rate,
                    )
                    found.setdefault(use, NrUse(cell.values, *use))
    return tuple(found.values())


@dataclass(frozen=True)
class CheckResult:
    """A scenario that is in order, and what no run of it can beat."""

    title: str
    engine: str
    """Version of the engine that would run it."""
    cells: int
    """Combinations of the sweep's values."""
    runs: int
    link_seconds: float
    """Time of all runs together, on their own clocks."""
    estimated_seconds: float
    """How long they take here, on all processors; in real time, one after the other."""
    bounds: tuple[Bound, ...]
    """Of every flow in every cell: BDP, slow start, least RTT, most goodput."""
    warnings: tuple[LintMessage, ...]
    """What is in order and yet hardly meant, once a key."""
    coded_bits: tuple[CodedBits, ...] = ()
    """Of radio links."""
    nr_links: tuple[NrUse, ...] = ()
    """Of 5G links: what their HARQ processes leave of the slots."""

    def frame(self) -> pl.DataFrame:
        """The bounds, one row per cell and flow: the sweep's keys as text and, behind quantities, as numbers; then
        ``flow, rate_bit_s, min_rtt_ms, bdp_bytes, queue_bytes, queue_packets, slow_start_s, goodput_bit_s,
        slow_start_one_way_s, first_byte_s``; null is unbounded, or does not apply."""
        import polars as pl

        from bentpipe.scenario.sweep_columns import column_headings, column_name
        from bentpipe.store.numeric_columns import add_numeric_columns, axes, text

        cells = [bound.cell for bound in self.bounds]
        keys = list(dict.fromkeys(key for cell in cells for key in cell))
        rows = [asdict(bound) for bound in self.bounds]
        names = [name for name in rows[0] if name not in ("cell", "segments")] if rows else []
        called = column_headings({column_name(key): key for key in keys}, names)
        columns: dict[str, list[Any]] = {
            called[column_name(key)]: [text(cell.get(key)) for cell in cells] for key in keys
        }
        columns |= {name: [row[name] for row in rows] for name in names}
        kinds = {name: pl.Int64() if name in _WHOLE else pl.Float64() for name in names if name != "flow"}
        frame = pl.DataFrame(columns, schema_overrides=kinds).lazy()
        return add_numeric_columns(
            frame, axes(cells), {key: called[column_name(key)] for key in keys}
        ).collect()


def check(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    *,
    seeds: int | None = None,
    settings: Mapping[str, object] | None = None,
    engine: Engine = "sim",
) -> CheckResult:
    """What follows from a scenario; nothing runs. Arguments are those of :func:`bentpipe.run`.

    Raises:
        bentpipe.ScenarioError: what is wrong with it, by key.
        ValueError: no such engine.
    """
    from bentpipe.plan.analysis.bounds import bounds
    from bentpipe.plan.analysis.lint import lint_plan
    from bentpipe.plan.cost.estimate import estimate_seconds
    from bentpipe.runners.local import cores

    check_engine(engine)
    plan = plan_scenario(scenario, settings, seeds=seeds, engine=engine)
    seconds = estimate_seconds(plan, cores()) if engine == "sim" else plan.link_seconds
    return CheckResult(
        plan.title, plan.engine, len(plan.cells), len(plan.runs), plan.link_seconds, round(seconds, 1),
        tuple(bounds(plan)), lint_plan(plan), coded_bits(plan), nr_links(plan),
    )  # fmt: skip
