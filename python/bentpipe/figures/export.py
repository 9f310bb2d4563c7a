"""Export of figures to files: selection, formats, width."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bentpipe.metrics.format import CommandOutput
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name

if TYPE_CHECKING:
    from bentpipe.figures.figure import Figure

__all__ = ["DEFAULT", "FORMS", "FigureExport"]

A = TypeVar("A", bound=CommandOutput)

FORMS = ("pdf", "svg", "png")
"""Formats of a figure's file."""

DEFAULT = ("pdf", "svg")
"""Formats without an option."""


@dataclass(frozen=True)
class FigureExport:
    """Settings of ``--figures DIR`` and its related options."""

    out: Path
    """Output directory."""
    forms: tuple[str, ...] = DEFAULT
    """Formats, from :data:`FORMS`."""
    only: tuple[str, ...] = ()
    """Keys of the figures; empty: all figures."""
    wide: float | None = None
    """Width, CSS pixels; None: the width of a page."""
    titled: bool = True
    """Whether files have title and note."""

    def check(self, known: Iterable[str]) -> None:
        """Check the keys of the figures.

        Raises:
            ScenarioError: a key is not in ``known``.
        """
        keys = list(known)
        for key in self.only:
            if key not in keys:
                raise _error(unknown_name(key, keys, "figure"), "figure")

    def write(self, drawn: Iterable[Figure]) -> list[Path]:
        """Write the selected figures as ``KEY.FORMAT``; return the files.

        Args:
            drawn: all available figures.

        Raises:
            ScenarioError: a selected figure has no data, or the width is too small.
        """
        selected = [figure for figure in drawn if not self.only or figure.key in self.only]
        if missing := [key for key in self.only if key not in {figure.key for figure in selected}]:
            raise _error(f"no data for the figure {missing[0]}", "figure")
        self.out.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for figure in selected:
            paths = [self.out / f"{figure.key}.{form}" for form in self.forms]
            try:
                figure.write_all(paths, self.wide, titled=self.titled)
            except ValueError as error:
                raise _error(str(error)) from None
            written += paths
        return written

    def added(self, answer: A, drawn: Iterable[Figure]) -> A:
        """Write the figures and return ``answer`` with their paths."""
        paths = [str(path) for path in self.write(drawn)]
        return replace(
            answer, data={**answer.data, "figures": paths}, shown=(*answer.shown, "\n".join(paths))
        )


def _error(text: str, argument: str = "figures") -> ScenarioError:
    return ScenarioError([(argument, text)], SOURCE_ARGUMENT)
