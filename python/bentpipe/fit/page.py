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
    rows = {str(row["of"]): row for row in fit_quality.rows}
    if (row := rows.get(DISTANCE)) is not None:
        own, other, half = (row[name] for name in ("model", "model of the first", "second half"))
        if other is None or half is None:
            return (
                f"The model's delays have a distribution that is {_share(own)} from the log's at most; the log is too "
                "short to judge it by a part that it was not fitted to."
            )
        than = "no further than" if other <= half else "further than"
        return (
            f"The model of the first half has delays whose distribution is {_share(other)} from the second half's at "
            f"most, {than} the first half's own, which is {_share(half)} from it."
        )
    output = [
        f"{format_significant(row['model'], 3)} Mbit/s {name.split()[3][:-1]} "
        f"(the log's: {format_significant(row['data'], 3)})"
        for name, row in rows.items() if name.startswith("mean of slots")
    ]  # fmt: skip
    return f"The model's slots have a mean of {join_names(output)}."


def _share(percent: float) -> str:
    """Return the maximum distance of two distributions as text."""
    return f"{format_significant(percent, 2)} %"


def render_page(
    figures: Sequence[Figure], output: CommandOutput, fit_quality: GoodnessOfFit, source: str
) -> str:
    """Return the HTML of the page."""
    page = Page(f"Slots fitted to {source}")
    first, *texts = [part for part in output.shown if isinstance(part, str)]
    return page.render(
        "fit/page.html",
        Headline(headline_text(fit_quality), first),
        texts=texts,
        tables=[(part.title, tabular(part.rows)) for part in output.shown if isinstance(part, TextTable)],
        figures=[page.drawing(figure) for figure in figures],
    )
