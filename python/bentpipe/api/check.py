"""Validation of a scenario and bounds of its plan: ``bentpipe check`` as data."""

from __future__ import annotations

import html
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.api.engine_choice import check_engine
from bentpipe.api.plan import plan_scenario
from bentpipe.api.user_code import check_user_classes, fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import polars as pl

    from bentpipe.api.engine_choice import Engine
    from bentpipe.plan.analysis.bounds import Bound
    from bentpipe.plan.analysis.lint import LintMessage
    from bentpipe.plan.plan import Plan
    from bentpipe.scenario.model import Scenario

__all__ = ["CheckResult", "CodedBits", "NrUse", "check", "list_coded_bits", "list_nr_links"]

_INTEGER_BOUNDS = ("rate_bit_s", "bdp_bytes", "queue_bytes", "queue_packets")
"""Bounds that are integers."""


@dataclass(frozen=True)
class CodedBits:
    """Coded bits of a frame in the link layer of a radio link."""

    cell: Mapping[str, Any]
    """First cell of the sweep with this link."""
    link: str
    """``LINK.up`` or ``LINK.down``."""
    information_bits: int
    coded_bits: tuple[int, ...]
    """Coded bits of each attempt; the last value applies to all later attempts."""


def list_coded_bits(plan: Plan) -> tuple[CodedBits, ...]:
    """Return the coded bits of every distinct radio link.

    Those of Adaptive-HARQ depend on the channel and take 0.25 s for each link.
    """
    from bentpipe.runners import engine

    results: dict[str, CodedBits] = {}
    for cell in plan.cells:
        for link in cell.resolved.spec["graph"]["links"]:
            for direction, stages in (("up", link["up"]), ("down", link["down"])):
                for stage in stages:
                    name = f"{link['name']}.{direction}"
                    if stage["kind"] != "radio":
                        continue
                    layer = stage["link_layer"]
                    key = json.dumps([name, stage["channel"], layer], sort_keys=True)
                    if key not in results:
                        bits = tuple(engine.coded_bits(stage))
                        results[key] = CodedBits(cell.values, name, layer["frame_bytes"] * 8, bits)
    return tuple(results.values())


@dataclass(frozen=True)
class NrUse:
    """Slot utilisation of a 5G link."""

    cell: Mapping[str, Any]
    """First cell of the sweep with this link."""
    link: str
    """``LINK.up`` or ``LINK.down``."""
    processes: int
    without_feedback: int
    cycle_slots: int
    """Slots between two blocks of a HARQ process."""
    utilisation: float
    rate_bit_s: float
    """Rate of transport blocks in bit/s, each sent once."""


def list_nr_links(plan: Plan) -> tuple[NrUse, ...]:
    """Return the slot utilisation of every distinct 5G link."""
    from bentpipe.plan.link.nr import cycle_slots, utilisation
    from bentpipe.plan.spec.queries import rate_bit_s

    results: dict[tuple[object, ...], NrUse] = {}
    for cell in plan.cells:
        for link in cell.resolved.spec["graph"]["links"]:
            for direction, stages in (("up", link["up"]), ("down", link["down"])):
                for stage in stages:
                    if stage["kind"] != "nr":
                        continue
                    name, used_ratio = f"{link['name']}.{direction}", utilisation(stage)
                    rate = (rate_bit_s(stage) or 0.0) * used_ratio
                    values = (
                        name,
                        stage["processes"],
                        stage["feedback_disabled_processes"],
                        cycle_slots(stage),
                        used_ratio,
                        rate,
                    )
                    results.setdefault(values, NrUse(cell.values, *values))
    return tuple(results.values())


@dataclass(frozen=True, repr=False)
class CheckResult:
    """Plan of a valid scenario, with performance bounds and lint warnings."""

    title: str
    engine: str
    """Version of the engine."""
    cells: int
    """Number of cells of the sweep."""
    runs: int
    link_seconds: float
    """Sum of the durations of all runs in seconds."""
    estimated_seconds: float
    """Estimated wall time in seconds on all processors of this host; in real time, one run at a time."""
    run_events: int
    """Estimated events of the run with the most."""
    run_memory_bytes: int
    """Estimated peak memory in bytes of the run with the most."""
    bounds: tuple[Bound, ...]
    """Bounds of every flow in every cell: BDP, slow start, smallest RTT, largest goodput."""
    warnings: tuple[LintMessage, ...]
    """Lint warnings, one for each key."""
    coded_bits: tuple[CodedBits, ...] = ()
    """Coded bits of radio links."""
    nr_links: tuple[NrUse, ...] = ()
    """Slot utilisation of 5G links with their HARQ processes."""

    def __repr__(self) -> str:
        """Return title and counts."""
        counts = [
            f"{number} {noun if number == 1 else f'{noun}s'}"
            for number, noun in ((self.cells, "cell"), (self.runs, "run"), (len(self.warnings), "warning"))
        ]
        return f"<bentpipe check: {self.title}, {', '.join(counts)}, {self.link_seconds:g} s of link time>"

    def _repr_html_(self) -> str:
        lines = [repr(self).strip("<>"), *(f"{message.key}: {message.text}" for message in self.warnings)]
        return "".join(f"<p>{html.escape(line)}</p>" for line in lines) + self.frame()._repr_html_()

    def frame(self) -> pl.DataFrame:
        """Return the bounds, one row per cell and flow.

        Returns:
            The swept keys as text and, after quantities, as numbers; then ``flow, rate_bit_s, min_rtt_ms, bdp_bytes,
            queue_bytes, queue_packets, slow_start_s, goodput_bit_s, slow_start_one_way_s, first_byte_s``. Null means no
            bound or not applicable.
        """
        import polars as pl

        from bentpipe.scenario.sweep_columns import column_headings, column_name
        from bentpipe.store.numeric_columns import add_numeric_columns, axes, text

        cells = [bound.cell for bound in self.bounds]
        keys = list(dict.fromkeys(key for cell in cells for key in cell))
        rows = [asdict(bound) for bound in self.bounds]
        names = [name for name in rows[0] if name not in ("cell", "segments")] if rows else []
        headings = column_headings({column_name(key): key for key in keys}, names)
        columns: dict[str, list[Any]] = {
            headings[column_name(key)]: [text(cell.get(key)) for cell in cells] for key in keys
        }
        columns |= {name: [row[name] for row in rows] for name in names}
        kinds = {
            name: pl.Int64() if name in _INTEGER_BOUNDS else pl.Float64() for name in names if name != "flow"
        }
        frame = pl.DataFrame(columns, schema_overrides=kinds).lazy()
        return add_numeric_columns(
            frame, axes(cells), {key: headings[column_name(key)] for key in keys}
        ).collect()


def check(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    *,
    seeds: int | None = None,
    settings: Mapping[str, object] | None = None,
    engine: Engine = "sim",
    controllers: Mapping[str, type | str] | None = None,
    schedulers: Mapping[str, type | str] | None = None,
) -> CheckResult:
    """Validate a scenario and return its plan, bounds and lint warnings without running it.

    The arguments are those of :func:`bentpipe.run`.

    Raises:
        bentpipe.ScenarioError: an invalid scenario, with the key of each problem.
        ValueError: unknown engine.
    """
    from bentpipe.plan.analysis.bounds import bounds
    from bentpipe.plan.analysis.lint import lint_plan
    from bentpipe.plan.cost import estimate_plan
    from bentpipe.runners.local import cores

    check_engine(engine)
    fingerprints = {
        name: fingerprint(class_) for name, class_ in check_user_classes(controllers, schedulers).items()
    }
    plan = plan_scenario(scenario, settings, seeds=seeds, engine=engine, fingerprints=fingerprints)
    estimate = estimate_plan(plan, cores())
    seconds = estimate.seconds if engine == "sim" else plan.link_seconds
    return CheckResult(
        plan.title, plan.engine, len(plan.cells), len(plan.runs), plan.link_seconds, round(seconds, 1),
        round(estimate.run_events), round(estimate.run_memory_bytes),
        tuple(bounds(plan)), lint_plan(plan), list_coded_bits(plan), list_nr_links(plan),
    )  # fmt: skip
