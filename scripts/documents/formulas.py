"""Conversion of LaTeX formulas to MathML, which browsers draw without a script."""

from __future__ import annotations

import re

from documents.dialect import outside_code

BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w])\$(?![\s$])([^$\n]+?)(?<!\s)\$(?![\w$])")


def with_mathml(text: str) -> str:
    """Return Markdown with ``$...$`` and ``$$...$$`` outside of code as MathML."""

    def change(part: str) -> str:
        part = BLOCK.sub(
            lambda formula: f"\n<div class='formula'>{_mathml(formula[1], 'block')}</div>\n", part
        )
        return INLINE.sub(
            lambda formula: f"<span class='formula'>{_mathml(formula[1], 'inline')}</span>", part
        )

    return outside_code(text, change)


def _mathml(formula: str, display: str) -> str:
    """Return a formula on one line, with the special characters of Markdown escaped."""
    from latex2mathml.converter import convert

    drawn = convert(" ".join(formula.split()), display=display)
    return re.sub(r"[*_`\\]", lambda mark: f"&#{ord(mark[0])};", drawn)
