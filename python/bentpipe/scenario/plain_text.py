"""Text without control characters, safe to print on a terminal."""

from __future__ import annotations

import re

__all__ = ["CONTROL", "plain"]

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal: C0 except tab and line feed, C1, and those that change the direction of text."""


def plain(text: str) -> str:
    r"""Return ``text`` with control characters escaped: ``\x1b`` for ESC."""
    return CONTROL.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
