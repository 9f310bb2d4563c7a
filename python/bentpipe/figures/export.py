"""Figures as files of their own: which of them, in which forms, how wide."""

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
DEFAULT = ("pdf", "svg")


@dataclass(frozen=True)
class FigureExport:
    """What ``--figures DIR`` and the options beside it ask for."""

    out: Path
    """The directory."""
    forms: tuple[str, ...] = DEFAULT
    """Of :data:`FORMS`."""
    only: tuple[str, ...] = ()
    """Keys of the figures that are wanted; all without."""
    wide: float | None = None
    """CSS pixels, where it is not to be a page's width."""
    titled: bool = True
    """With title and note."""

    def check(self, known: Iterable[str]) -> None:
        """Raises ScenarioError for a key that is not among the ``known``."""
        there = list(known)
        for key in self.only:
            if key not in there:
                raise _wrong(unknown_name(key, there, "figure"))

    def write(self, drawn: Iterable[Figure]) -> list[Path]:
        """Writes ``KEY.pdf`` and ``KEY.svg`` of those that are wanted; ``drawn`` are all there are.

        Raises ScenarioError: nothing to draw for one that is wanted; no room in the width.
        """
        wanted = [figure for figure in drawn if not self.only or figure.key in self.only]
        if lacking := [key for key in self.only if key not in {figure.key for figure in wanted}]:
            raise _wrong(f"there is nothing to draw for {lacking[0]}")
        self.out.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for figure in wanted:
            paths = [self.out / f"{figure.key}.{form}" for form in self.forms]
            try:
                figure.write_all(paths, self.wide, titled=self.titled)
            except ValueError as error:
                raise _wrong(str(error)) from None
            written += paths
        return written

    def added(self, answer: A, drawn: Iterable[Figure]) -> A:
        """``answer``, and which files :meth:`write` has made."""
        paths = [str(path) for path in self.write(drawn)]
        return replace(
            answer, data={**answer.data, "figures": paths}, shown=(*answer.shown, "\n".join(paths))
        )


def _wrong(text: str) -> ScenarioError:
    return ScenarioError([("figures", text)], SOURCE_ARGUMENT)
