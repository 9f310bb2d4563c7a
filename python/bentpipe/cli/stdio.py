"""Standard output and standard error of a command: either may be closed, a full disk, or a pipe that nobody reads.

A message that cannot be written ends nothing. A result that cannot be written is an error, which is said once.
Control characters of what a command was given (titles, names, what it read in files) do not pass: a terminal would
obey them. Colours and the progress bar, which are ours, go by ``styled``.
"""

from __future__ import annotations

import io
import os
import sys
from typing import BinaryIO, TextIO, cast

from bentpipe.cli.console import plain

__all__ = ["OutputError", "close", "drop", "open_all"]


class OutputError(OSError):
    """Standard output did not take a result."""


class _Results(io.TextIOWrapper):
    """Standard output, whose errors name it."""

    def write(self, text: str) -> int:
        self.write_styled(plain(text))
        return len(text)

    def write_styled(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise _named(error) from None

    @property
    def styled(self) -> _Styled:
        return _Styled(self)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise _named(error) from None


class _Messages(io.TextIOWrapper):
    """Standard error, which has no errors of its own: there would be nobody to tell."""

    def write(self, text: str) -> int:
        self.write_styled(plain(text))
        return len(text)

    def write_styled(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    @property
    def styled(self) -> _Styled:
        return _Styled(self)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            return


class _Styled(io.TextIOBase):
    """A stream for those who have made their texts plain themselves, and add what a terminal is to obey."""

    def __init__(self, stream: _Results | _Messages) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def write(self, text: str) -> int:
        return self._stream.write_styled(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def open_all() -> None:
    """Makes both streams ready, if they are the process' own. A terminal without the letters of a title shows
    question marks."""
    _occupy()
    if sys.stdout is sys.__stdout__:
        sys.stdout = _Results(*_taken(sys.stdout, 1), "replace", line_buffering=os.isatty(1))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _Messages(*_taken(sys.stderr, 2), "replace", line_buffering=True)


def _taken(stream: TextIO | None, descriptor: int) -> tuple[BinaryIO, str]:
    """Buffer and encoding of a stream, which is none where its descriptor was closed."""
    if stream is None:
        return open(descriptor, "wb", closefd=False), "utf-8"
    encoding = stream.encoding
    return cast("BinaryIO", cast("io.TextIOWrapper", stream).detach()), encoding


def close() -> None:
    """Writes what standard output still holds.

    Raises:
        OutputError: it cannot be written.
    """
    sys.stdout.flush()


def drop() -> None:
    """Forgets what standard output still holds: the interpreter would complain of it as it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _occupy() -> None:
    """Puts something in the place of descriptors that are closed, where the next file would be: nothing to read, no
    messages, and a standard output that takes no result (EBADF)."""
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, mode)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
            os.set_inheritable(descriptor, True)


def _named(error: OSError) -> OSError:
    if isinstance(error, BrokenPipeError):
        return error
    return OutputError(error.errno, error.strerror, "standard output")
