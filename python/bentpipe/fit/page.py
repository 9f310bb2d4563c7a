"""HTML page of a fitted model beside its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.fit.goodness_of_fit import DISTANCE
from bentpipe.metrics.format import TextTable
from bentpipe.metrics.intervals import format_significant
from bentpipe.report.headline import Headline, join_names
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.figures.figure import Figure
    from bentpipe.fit.goodness_of_fit import GoodnessOfFit
    from bentpipe.metrics.format import CommandOutput

__all__ = ["headline_text", "render_page"]


def headline_text(fit_quality: GoodnessOfFit) -> str:
    """Return the distance of the model from data: from the data outside its fit, if there are any."""
    rows = {str(row["quantity"]): row for row in fit_quality.rows}
    if (row := rows.get(DISTANCE)) is not None:
        own, other, half = (row[name] for name in ("model", "model of training data", "test data"))
        if other is None or half is None:
            return (
                "The delay distribution of the model differs from that of the log by at most "
                f"{_share(own)}. The log is too short for test data."
            )
        than = "no more than" if other <= half else "more than"
        return (
            "Fitted to the first half of the log, the model differs from the second half by at most "
            f"{_share(other)} of its delay distribution. This is {than} the difference between the halves, "
            f"{_share(half)}."
        )
    output = [
        f"{format_significant(row['model'], 3)} Mbit/s {name.split()[3][:-1]} "
        f"(log: {format_significant(row['data'], 3)})"
        for name, row in rows.items() if name.startswith("mean of intervals")
    ]  # fmt: skip
    return f"The intervals of the model have a mean of {join_names(output)}."


def _share(percent: float) -> str:
    """Return the maximum distance of two distributions as text."""
    return f"{format_significant(percent, 2)} %"


def render_page(
    figures: Sequence[Figure], output: CommandOutput, fit_quality: GoodnessOfFit, source: str
) -> str:
    """Return the HTML of the page."""
    page = Page(f"Reconfiguration intervals fitted to {source}")
    first, *texts = [part for part in output.shown if isinstance(part, str)]
    return page.render(
        "fit/page.html",
        Headline(headline_text(fit_quality), first),
        texts=texts,
        tables=[(part.title, tabular(part.rows)) for part in output.shown if isinstance(part, TextTable)],
        figures=[page.drawing(figure) for figure in figures],
    )
