"""The page that lays a fitted model beside its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.report.base import Page
from bentpipe.report.opening import Opening
from bentpipe.report.tabular import tabular
from bentpipe.stats.wording import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.figures.figure import Figure
    from bentpipe.stats.wording import Answer

__all__ = ["rendered"]


def rendered(drawn: Sequence[Figure], said: Answer, source: str) -> str:
    """The page as text."""
    page = Page(f"Slots fitted to {source}")
    first, *texts = [part for part in said.shown if isinstance(part, str)]
    return page.render(
        "fit/page.html",
        Opening(first),
        texts=texts,
        tables=[(part.title, tabular(part.rows)) for part in said.shown if isinstance(part, Table)],
        figures=[page.drawing(figure) for figure in drawn],
    )
