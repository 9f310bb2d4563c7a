"""``bentpipe verify``: an independent check of traced runs.

It shares no code with the engine. It reads what a run was asked for and every step of every packet, works out
from the former what the latter may be, and says what cannot be: bytes that come from nowhere, a link that was
faster than its rate or sooner than its delay, a queue longer than its limit, packets over a link that was
down, drops without a cause, time that runs backwards, counters that do not count. Of bundles it reads what
nodes tell, for which no steps are needed.

Reading order: ``trace``, ``changing`` (hand-overs), ``losses``, ``passing``, ``disciplines``, ``sharing``,
``serving``, ``radiating``, ``attempting``, ``slotting``, ``adapting``, ``holding``, ``counting``,
``calling``; of bundles ``bundling``, ``storing``, ``forwarding``, ``acknowledging``, ``proving``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.store.files import MissingTableError, StoreError
from bentpipe.store.reader import Store
from bentpipe.trace_check import (
    acm,
    airtime,
    bundle_acks,
    bundle_forwarding,
    bundle_integrity,
    bundle_store,
    bundle_trace,
    counters,
    datagrams,
    nr_slots,
    queues,
    radio_attempts,
    stages,
    store_and_forward,
    user_queues,
)
from bentpipe.trace_check.trace import Finding, Trace, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl

    from bentpipe.trace_check.handovers import Spec

__all__ = ["Finding", "Verdict", "bundle_findings", "findings", "verify"]

_RULES = {**acm.RULES, **stages.RULES, **airtime.RULES, **queues.RULES, **nr_slots.RULES}
_SUMS = {"radio": airtime.added, "nr": nr_slots.added}

_TABLES = ("summary", "link_summary", "flows", "links", "packets", "stages")


@dataclass(frozen=True)
class Verdict:
    """What was looked at in a run, and what was found."""

    run: str
    packets: int
    steps: int
    findings: tuple[Finding, ...]
    bundles: int | None = None
    """Events of bundles; None in a run without bundle nodes."""


def verify(store: Store) -> Iterator[Verdict]:
    """Checks every run of ``store`` that has its steps, or bundle nodes.

    Raises:
        bentpipe.StoreError: no run has, or the store cannot be read.
    """
    tables: dict[str, pl.DataFrame] = {}
    with suppress(MissingTableError):
        tables = {name: store.table(name) for name in _TABLES}
    for name in ("attempts", "holds", "users", "user_queues", "calls", "call_delays", *bundle_trace.TABLES):
        with suppress(MissingTableError):
            tables[name] = store.table(name)
    traced = tables["stages"]["run"].unique().to_list() if "stages" in tables else []
    specs = store.specs(store.runs["run"].to_list())
    # In real time nodes have clocks of their own, and what links do is not to the nanosecond.
    virtual = not store.engine.endswith("-emu")
    runs = [run for run, spec in specs.items() if run in traced or (virtual and "dtn" in spec)]
    if not runs and any("dtn" in spec for spec in specs.values()):
        raise StoreError(
            f"{store.path}: its bundles went in real time, and are followed in virtual time alone"
        )
    if not runs:
        raise StoreError(
            f"{store.path}: no run has its packets' steps; run the scenario with --set trace.stages=true"
        )
    for run in runs:
        own = {name: table.filter(table["run"] == run) for name, table in tables.items()}
        found: list[Finding] = []
        packets = steps = 0
        if run in traced:
            trace = load(specs[run], own)
            packets, steps = len(trace.sent), len(own["stages"])
            found += findings(trace)
        bundles = None
        if virtual and "dtn" in specs[run]:
            bundles = len(own["bundles"]) if "bundles" in own else 0
            found += bundle_findings(specs[run], own)
        yield Verdict(run, packets, steps, tuple(found), bundles)


def bundle_findings(spec: Spec, tables: Mapping[str, pl.DataFrame]) -> Iterator[Finding]:
    """What cannot be in the tables of a run's bundle nodes."""
    told = bundle_trace.told(spec, tables)
    yield from bundle_store.stores(told)
    yield from bundle_forwarding.moves(told)
    yield from bundle_acks.answers(told)
    yield from bundle_integrity.signatures(told)


def findings(trace: Trace) -> Iterator[Finding]:
    """What cannot be in ``trace``."""
    yield from trace.findings
    for line in trace.lines.values():
        for stage, visits in zip(line.stages, line.visits, strict=True):
            rule = _RULES.get(stage["kind"])
            if rule is None:
                yield Finding("known stages", line.name, f"stage {stage['kind']!r} has no rule here")
            else:
                yield from rule(line, stage, visits, trace.end)
        yield from counters.counters(trace, line)
        yield from airtime.users(trace, line, _SUMS)
        yield from radio_attempts.attempts(trace, line)
        yield from user_queues.queues(trace, line)
    yield from store_and_forward.holds(trace)
    yield from counters.held(trace)
    yield from counters.ways(trace)
    yield from counters.flows(trace)
    yield from counters.groups(trace)
    yield from datagrams.calls(trace)
