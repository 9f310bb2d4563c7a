"""Text without control characters, for a terminal, which would obey them."""

from __future__ import annotations

import io
import re
from typing import TextIO

__all__ = ["CONTROL", "plain", "plain_stream"]

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal: C0 except tab and new line, C1, and those that change the direction of text."""


def plain(text: str) -> str:
    """Return ``text`` with control characters written out: ``\\x1b`` for ESC."""
    return CONTROL.sub(lambda found: _written_out(found[0]), text)


def _written_out(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


class _PlainStream(io.TextIOWrapper):
    def write(self, text: str) -> int:
        super().write(plain(text))
        return len(text)


def plain_stream(stream: TextIO) -> TextIO:
    """Return a stream in the place of ``stream``, a process' own, that writes control characters out."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    encoding, errors = stream.encoding, stream.errors or "replace"
    return _PlainStream(stream.detach(), encoding, errors, line_buffering=True)
