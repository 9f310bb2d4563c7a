"""Estimate a preset from logs of a satellite link (``bentpipe fit``).

The preset has the reconfiguration intervals of the constellation.

- ``log_formats``: ping, Mahimahi, LeoReplayer and CSV logs
- ``iperf3``: JSON logs of iperf3
- ``log_reader``: a file as a log, with its format detected
- ``log_merge``: one log of delays, one of rates for each direction, and their phase
- ``phase``: phase of the intervals
- ``model``: the fitted model, and samples of it
- ``estimate``: distributions of the model from a log
- ``losses``: bounds of single losses by TCP retransmissions
- ``outages``: consecutive losses that single losses do not explain
- ``model_comparison``: distances, autocorrelation and runs of loss
- ``goodness_of_fit``: comparison of the model with the log
- ``simulated``: simulation of TCP over the preset, for a comparison with TCP in the log
- ``figures``: figures of the fit
- ``page``: HTML page of the fit
- ``export``: preset, scenario and traces
- ``summary``: the output of the command
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput

__all__ = ["run"]


def run(
    files: Sequence[str],
    up: Sequence[str],
    out: Path,
    name: str,
    every: str,
    phase: str | None = None,
    figures: FigureExport | None = None,
) -> CommandOutput:
    """Fit the reconfiguration intervals of a link.

    Args:
        files: logs, each a path or ``KIND=PATH``; a rate is of the downlink unless the log states the
            direction.
        up: logs of the uplink's rate.
        out: directory of the preset, the page and the traces.
        name: name of the preset.
        every: length of an interval, with unit.
        phase: first boundary after second 0 of a minute, with unit; ``None`` to estimate it.
        figures: export of figures, in addition.

    Raises:
        ScenarioError: a log is invalid (with its line), too short, or without intervals; or ``figures`` is
            invalid.
    """
    from bentpipe.fit.summary import answer

    return answer(files, up, out, name, every, phase, figures)
