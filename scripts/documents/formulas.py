"""Formulas in LaTeX as MathML, which browsers draw without a script."""

from __future__ import annotations

import re

from documents.dialect import outside_code

BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w])\$(?![\s$])([^$\n]+?)(?<!\s)\$(?![\w$])")


def with_mathml(text: str) -> str:
    """``text``, Markdown, with ``$...$`` and ``$$...$$`` outside of code drawn."""

    def change(part: str) -> str:
        part = BLOCK.sub(
            lambda formula: f"\n<div class='formula'>{_mathml(formula[1], 'block')}</div>\n", part
        )
        return INLINE.sub(
            lambda formula: f"<span class='formula'>{_mathml(formula[1], 'inline')}</span>", part
        )

    return outside_code(text, change)


def _mathml(formula: str, display: str) -> str:
    """One formula, on one line, with nothing in it that Markdown would take for its own."""
    from latex2mathml.converter import convert

    drawn = convert(" ".join(formula.split()), display=display)
    return re.sub(r"[*_`\\]", lambda mark: f"&#{ord(mark[0])};", drawn)
