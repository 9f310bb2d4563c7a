"""Independent check of traced runs (``bentpipe verify``).

It shares no code with the engine. It reads the specification of a run and every step of every packet, computes the
possible steps from the specification and reports violations. Examples are bytes without a source, a link above its rate
or below its delay, and a queue above its limit. Other examples are packets on a link that is down, drops without a
cause, decreasing time and wrong counters. The checks of bundles need only the tables of the nodes, no packet steps.

``trace``: steps of a traced run
``handovers``: changes at given instants
``losses``: loss stages
``stages``: delays and outages
``disciplines``: properties and AQM laws of queue disciplines
``user_queues``: queues of the users of a link and their schedulers
``queues``: transmitters and their queues
``airtime``: bounds on the airtime of radio links
``radio_attempts``: each transmission attempt of radio links
``nr_slots``: 5G links
``acm``: links with adaptive coding and modulation
``store_and_forward``: nodes that keep packets while no route exists
``counters``: paths, bytes and counters
``datagrams``: datagram flows and calls
``bundle_trace``: events of bundles
``bundle_store``: stores, lifetimes and fragments of bundles
``bundle_forwarding``: routes and transmissions of bundles
``bundle_acks``: dtnperf clients, acknowledgements and status reports
``bundle_integrity``: signatures of bundles
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
from bentpipe.trace_check.trace import Finding, Trace, load_trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl

    from bentpipe.trace_check.handovers import Spec

__all__ = ["Finding", "Verdict", "bundle_findings", "findings", "verify"]

_RULES = {**acm.RULES, **stages.RULES, **airtime.RULES, **queues.RULES, **nr_slots.RULES}
_SUMS = {"radio": airtime.check_sums, "nr": nr_slots.check_sums}

_TABLES = ("flow_summary", "link_summary", "flows", "links", "packets", "packet_steps")


@dataclass(frozen=True)
class Verdict:
    """Extent and findings of the check of one run."""

    run: str
    packets: int
    steps: int
    findings: tuple[Finding, ...]
    bundles: int | None = None
    """Events of bundles; None in a run without bundle nodes."""


def verify(store: Store) -> Iterator[Verdict]:
    """Check every run of ``store`` that has packet steps or bundle nodes.

    Raises:
        bentpipe.StoreError: no run has either, or the store is unreadable.
    """
    tables: dict[str, pl.DataFrame] = {}
    with suppress(MissingTableError):
        tables = {name: store.table(name) for name in _TABLES}
    for name in (
        "radio_attempts",
        "node_buffers",
        "radio_users",
        "user_queues",
        "calls",
        "call_delays",
        *bundle_trace.TABLES,
    ):
        with suppress(MissingTableError):
            tables[name] = store.table(name)
    traced = tables["packet_steps"]["run"].unique().to_list() if "packet_steps" in tables else []
    specs = store.specs(store.runs["run"].to_list())
    # In emulation each node has its own clock, and links are not exact to the nanosecond.
    virtual = not store.engine.endswith("-emu")
    runs = [run for run, spec in specs.items() if run in traced or (virtual and "dtn" in spec)]
    if not runs and any("dtn" in spec for spec in specs.values()):
        raise StoreError(
            f"{store.path}: bundle nodes in emulation cannot be checked; rerun with --engine sim"
        )
    if not runs:
        raise StoreError(
            f"{store.path}: no packet steps in this store; rerun with --set trace.packet_steps=true"
        )
    for run in runs:
        run_tables = {name: table.filter(table["run"] == run) for name, table in tables.items()}
        found: list[Finding] = []
        packets = steps = 0
        if run in traced:
            trace = load_trace(specs[run], run_tables)
            packets, steps = len(trace.sent), len(run_tables["packet_steps"])
            found += findings(trace)
        bundles = None
        if virtual and "dtn" in specs[run]:
            bundles = len(run_tables["bundles"]) if "bundles" in run_tables else 0
            found += bundle_findings(specs[run], run_tables)
        yield Verdict(run, packets, steps, tuple(found), bundles)


def bundle_findings(spec: Spec, tables: Mapping[str, pl.DataFrame]) -> Iterator[Finding]:
    """Check the tables of the bundle nodes of a run."""
    bundles = bundle_trace.read_bundle_trace(spec, tables)
    yield from bundle_store.check_stores(bundles)
    yield from bundle_forwarding.check_forwarding(bundles)
    yield from bundle_acks.check_acknowledgements(bundles)
    yield from bundle_integrity.check_signatures(bundles)


def findings(trace: Trace) -> Iterator[Finding]:
    """Check the steps and counters of a traced run."""
    yield from trace.findings
    for direction in trace.directions.values():
        for stage, visits in zip(direction.stages, direction.visits, strict=True):
            rule = _RULES.get(stage["kind"])
            if rule is None:
                yield Finding("known stages", direction.name, f"stage {stage['kind']!r} has no rule here")
            else:
                yield from rule(direction, stage, visits, trace.end)
        yield from counters.check_link_counters(trace, direction)
        yield from airtime.check_users(trace, direction, _SUMS)
        yield from radio_attempts.check_attempts(trace, direction)
        yield from user_queues.check_user_counters(trace, direction)
    yield from store_and_forward.check_node_buffers(trace)
    yield from counters.check_node_counters(trace)
    yield from counters.check_paths(trace)
    yield from counters.check_flows(trace)
    yield from counters.check_groups(trace)
    yield from datagrams.check_datagrams(trace)
