"""Signals that end a command: their handlers raise where an exception reaches the command, and otherwise wait."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["defer_import", "interrupt", "raise_unraisable", "send_later"]

RETRY_S = 0.01
"""Time after which a signal is sent again. A person does not notice it; an import takes up to a second."""


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or wait for the end of an import. A handler of SIGINT while a command works."""
    if not defer_import(number, frame):
        raise KeyboardInterrupt


def defer_import(number: int, frame: FrameType | None) -> bool:
    """Send the signal ``number`` later if it came during an import. Return whether it did.

    Libraries lose exceptions there: Polars panics, and others go on without what they wanted to import.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            send_later(number)
            return True
        frame = frame.f_back
    return False


def raise_unraisable(found: UnraisableHookArgs) -> None:
    """Send SIGINT again if KeyboardInterrupt came where nothing can be raised. A value of ``sys.unraisablehook``."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        send_later(signal.SIGINT)
    else:
        sys.__unraisablehook__(found)


def send_later(number: int) -> None:
    """Send this process the signal ``number`` once more, in ``RETRY_S``."""
    from threading import Timer, main_thread

    # To the main thread, which runs the handlers: its system call ends then, and not another thread's.
    retry = Timer(RETRY_S, signal.pthread_kill, (main_thread().ident, number))
    retry.daemon = True
    retry.start()
