"""The page that lays a fitted model beside its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.fit.drawing import figures
from bentpipe.report.base import Page
from bentpipe.report.tabular import tabular
from bentpipe.stats.wording import Table

if TYPE_CHECKING:
    from bentpipe.fit.gathering import Found
    from bentpipe.fit.judging import Judged
    from bentpipe.fit.model import Model
    from bentpipe.stats.wording import Answer

__all__ = ["rendered"]


def rendered(found: Found, model: Model, judged: Judged, said: Answer, source: str) -> str:
    """The page as text."""
    page = Page(f"Slots fitted to {source}")
    drawn = [page.drawing(figure) for figure in figures(found, model, judged)]
    return page.render(
        "fit/page.html",
        texts=[part for part in said.shown if isinstance(part, str)],
        tables=[(part.title, tabular(part.rows)) for part in said.shown if isinstance(part, Table)],
        figures=drawn,
    )
