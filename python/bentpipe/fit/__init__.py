"""From logs of a link to a preset of its slots (``bentpipe fit``).

``formats``, ``iperf3`` and ``logs`` read, ``phase`` finds where slots begin, ``gathering`` puts logs together;
``model`` samples slots, ``outages`` are runs of losses, ``fitting`` makes the distributions, ``losses`` bounds single
losses by TCP's retransmissions; ``comparing`` and ``judging`` say how far they are from the data, ``simulated`` how
far TCP over them is from the log's own; ``drawing`` and ``page`` show it, ``writing`` has the preset and traces,
``answering`` what is said; :func:`run` is the command.
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
    """Fits the slots of a link.

    Args:
        files: logs, each a path or ``KIND=PATH``; a rate in them is of the downlink unless the log says otherwise.
        up: logs of the uplink's rate.
        out: where the preset, the page and the traces go.
        name: of the preset.
        every: length of a slot.
        phase: the first boundary after second 0 of a minute; None: it is looked for.
        figures: as files of their own, too.

    Raises:
        ScenarioError: what is wrong with a log, by its line; too short; without slots; or with ``figures``.
    """
    from bentpipe.fit.summary import answer

    return answer(files, up, out, name, every, phase, figures)
