"""The entry of the command line: Ctrl-C ends it silently from its first statement on, while its modules load."""

from __future__ import annotations

import os
import signal
from types import FrameType

__all__ = ["end_silently", "main"]

INTERRUPTED = 130
"""128 and SIGINT's number, as shells have it."""


def end_silently(_number: int, _frame: FrameType | None) -> None:
    """End the process: a handler of SIGINT for the time in which nothing has begun."""
    os._exit(INTERRUPTED)


def main() -> None:
    """Run the command line, which handles Ctrl-C itself once it is loaded."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell starts what is not in front
        signal.signal(signal.SIGINT, end_silently)
    from bentpipe.cli import main as run

    run()
