"""Standard output and standard error of a command.

Either may be closed, a full disk, or a pipe without a reader. A message that cannot be written is ignored. A
result that cannot be written is an error, which is reported once. Control characters of the input (titles,
names, contents of files) are removed, because a terminal would obey them. Colours and the progress bar of
bentpipe use ``styled``.
"""

from __future__ import annotations

import io
import os
import sys
from typing import BinaryIO, TextIO, cast

from bentpipe.cli.console import plain

__all__ = ["OutputError", "close", "drop", "open_all"]


class OutputError(OSError):
    """Standard output rejected a result."""


class _Results(io.TextIOWrapper):
    """Standard output; its errors name it."""

    def write(self, text: str) -> int:
        self.write_styled(plain(text))
        return len(text)

    def write_styled(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise _name_error(error) from None

    @property
    def styled(self) -> _Styled:
        return _Styled(self)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise _name_error(error) from None


class _Messages(io.TextIOWrapper):
    """Standard error; its errors are ignored, because they cannot be reported."""

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
    """Stream for texts without control characters and for the styles of a terminal."""

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
    """Replace both streams, if they are those of the process.

    A terminal without the characters of a text shows question marks.
    """
    _open_closed_descriptors()
    if sys.stdout is sys.__stdout__:
        sys.stdout = _Results(*_detach(sys.stdout, 1), "replace", line_buffering=os.isatty(1))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _Messages(*_detach(sys.stderr, 2), "replace", line_buffering=True)


def _detach(stream: TextIO | None, descriptor: int) -> tuple[BinaryIO, str]:
    """Return buffer and encoding of a stream; None has a closed descriptor."""
    if stream is None:
        return open(descriptor, "wb", closefd=False), "utf-8"
    encoding = stream.encoding
    return cast("BinaryIO", cast("io.TextIOWrapper", stream).detach()), encoding


def close() -> None:
    """Write the buffer of standard output.

    Raises:
        OutputError: the buffer cannot be written.
    """
    sys.stdout.flush()


def drop() -> None:
    """Discard the buffer of standard output, so that the interpreter reports no error at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _open_closed_descriptors() -> None:
    """Open closed standard descriptors, which the next file would otherwise use.

    Standard input is empty, messages are discarded, and standard output rejects results (EBADF).
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, mode)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
            os.set_inheritable(descriptor, True)


def _name_error(error: OSError) -> OSError:
    """Return the error with the name of the stream; a broken pipe remains."""
    if isinstance(error, BrokenPipeError):
        return error
    return OutputError(error.errno, error.strerror, "standard output")
