"""A pair of places over a constellation: its delays, hops, hand-overs and gaps.

``asking`` makes the question out of words, ``summary`` says what came of it; :func:`run` is ``bentpipe orbit``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.orbit.asking import Question
    from bentpipe.stats.wording import Answer

__all__ = ["run"]


def run(question: Question, out: Path | None = None) -> Answer:
    """Follows the pair, says what came of it and, with ``out``, draws it there.

    Raises:
        ScenarioError: what is wrong with the question.
    """
    from bentpipe.orbit.asking import follow
    from bentpipe.orbit.summary import said

    del out
    return said(question, follow(question))
