"""Comparison of controllers with another one: the compared measure of each scenario, seed by seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.metrics.compare import Comparison, Draws, Pairs, compare_pairs

if TYPE_CHECKING:
    from bentpipe.suite.results import SuiteResult

__all__ = ["compare_controllers"]


def compare_controllers(result: SuiteResult, against: str) -> Comparison:
    """Compare every controller with ``against`` in all scenarios and cells.

    Args:
        result: the suite, with ``against`` among its controllers.
        against: label of the controller that is the baseline.
    """
    pairs = []
    for entry in result.entries:
        before = result.of(entry, against)
        for controller in result.controllers:
            after = result.of(entry, controller)
            if controller == against or before is None or after is None:
                continue
            for case, values in after.compared.items():
                base = before.compared.get(case, ())
                count = max(len(values), len(base))
                first, second = ([*side, *[None] * (count - len(side))] for side in (base, values))
                cell = {"scenario": entry, "case": case, "controller": controller}
                metric = after.entry.compared
                pairs.append(Pairs(metric, first, second, cell, primary=True, draws=Draws.UNKNOWN))
    return Comparison(compare_pairs(pairs))
