"""``bentpipe verify``: an independent check of traced runs.

It shares no code with the engine. It reads what a run was asked for and every step of every packet, works out from the
former what the latter may be, and says what cannot be: bytes that come from nowhere, a link that was faster than its
rate or sooner than its delay, a queue longer than its limit, packets over a link that was down, drops without a cause,
time that runs backwards, counters that do not count.

Reading order: ``trace``, ``changing`` (hand-overs), ``passing``, ``sharing``, ``serving``, ``radiating``, ``slotting``,
``adapting``, ``holding``, ``counting``, ``calling``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.store.files import NoTableError, StoreError
from bentpipe.store.reader import Store
from bentpipe.tools.verify import (
    adapting,
    calling,
    counting,
    holding,
    passing,
    radiating,
    serving,
    sharing,
    slotting,
)
from bentpipe.tools.verify.trace import Finding, Trace, load

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Finding", "Verdict", "findings", "verify"]

_RULES = {**adapting.RULES, **passing.RULES, **radiating.RULES, **serving.RULES, **slotting.RULES}
_SUMS = {"radio": radiating.added, "nr": slotting.added}

_TABLES = ("summary", "link_summary", "flows", "links", "packets", "stages")


@dataclass(frozen=True)
class Verdict:
    """What was looked at in a run, and what was found."""

    run: str
    packets: int
    steps: int
    findings: tuple[Finding, ...]


def verify(store: Store) -> Iterator[Verdict]:
    """Checks every run of ``store`` that has its steps.

    Raises:
        bentpipe.StoreError: no run has, or the store cannot be read.
    """
    try:
        tables = {name: store.table(name) for name in _TABLES}
    except NoTableError:
        raise StoreError(
            f"{store.path}: no run has its packets' steps; run the scenario with --set trace.stages=true"
        ) from None
    for name in ("holds", "users", "user_queues", "calls", "call_delays"):
        with suppress(NoTableError):
            tables[name] = store.table(name)
    runs = tables["stages"]["run"].unique(maintain_order=True).to_list()
    specs = store.specs(runs)
    for run in runs:
        own = {name: table.filter(table["run"] == run) for name, table in tables.items()}
        trace = load(specs[run], own)
        yield Verdict(run, len(trace.sent), len(own["stages"]), tuple(findings(trace)))


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
        yield from counting.counters(trace, line)
        yield from radiating.users(trace, line, _SUMS)
        yield from sharing.queues(trace, line)
    yield from holding.holds(trace)
    yield from counting.held(trace)
    yield from counting.ways(trace)
    yield from counting.flows(trace)
    yield from counting.groups(trace)
    yield from calling.calls(trace)
