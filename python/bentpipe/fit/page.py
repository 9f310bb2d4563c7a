"""The page that lays a fitted model beside its data."""

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
    from bentpipe.fit.goodness_of_fit import Judged
    from bentpipe.metrics.format import CommandOutput

__all__ = ["headline_text", "rendered"]


def headline_text(judged: Judged) -> str:
    """How far the model is from data: from those that it was not fitted to, where there are some."""
    rows = {str(row["of"]): row for row in judged.rows}
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
    said = [
        f"{format_significant(row['model'], 3)} Mbit/s {name.split()[3][:-1]} "
        f"(the log's: {format_significant(row['data'], 3)})"
        for name, row in rows.items() if name.startswith("mean of slots")
    ]  # fmt: skip
    return f"The model's slots have a mean of {join_names(said)}."


def _share(percent: float) -> str:
    """The largest distance of two distributions: by so much differs what they have below some delay."""
    return f"{format_significant(percent, 2)} %"


def rendered(drawn: Sequence[Figure], said: CommandOutput, judged: Judged, source: str) -> str:
    """The page as text."""
    page = Page(f"Slots fitted to {source}")
    first, *texts = [part for part in said.shown if isinstance(part, str)]
    return page.render(
        "fit/page.html",
        Headline(headline_text(judged), first),
        texts=texts,
        tables=[(part.title, tabular(part.rows)) for part in said.shown if isinstance(part, TextTable)],
        figures=[page.drawing(figure) for figure in drawn],
    )
