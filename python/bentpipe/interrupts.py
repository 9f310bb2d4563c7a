"""Handlers of signals that end a command; they raise only if the exception reaches the command, and retry otherwise."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["defer_import", "interrupt", "raise_unraisable", "send_later"]

RETRY_S = 0.01
"""Delay in s before a signal is repeated. A person does not notice it; an import takes up to a second."""


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or wait for the end of an import. This is the handler of SIGINT during a command."""
    if not defer_import(number, frame):
        raise KeyboardInterrupt


def defer_import(number: int, frame: FrameType | None) -> bool:
    """Send the signal ``number`` later if it arrived during an import. Return True if it did.

    Libraries lose exceptions during an import: Polars panics, and others continue without the imported module.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            send_later(number)
            return True
        frame = frame.f_back
    return False


def raise_unraisable(arguments: UnraisableHookArgs) -> None:
    """Send SIGINT again if KeyboardInterrupt was unraisable. This is a value of ``sys.unraisablehook``."""
    if issubclass(arguments.exc_type, KeyboardInterrupt):
        send_later(signal.SIGINT)
    else:
        sys.__unraisablehook__(arguments)


def send_later(number: int) -> None:
    """Send the signal ``number`` to this process after ``RETRY_S``."""
    from threading import Timer, main_thread

    # The main thread runs the handlers: the signal must end its system call, not that of another thread.
    retry = Timer(RETRY_S, signal.pthread_kill, (main_thread().ident, number))
    retry.daemon = True
    retry.start()
