"""Entry point of the command line; Ctrl-C ends it silently while its modules load."""

from __future__ import annotations

import os
import signal
from types import FrameType

__all__ = ["end_silently", "main"]

INTERRUPTED = 130
"""Exit status after SIGINT: 128 and the number of the signal, as in shells."""


def end_silently(_number: int, _frame: FrameType | None) -> None:
    """End the process. This is the handler of SIGINT before the command line is loaded."""
    os._exit(INTERRUPTED)


def main() -> None:
    """Run the command line, which handles Ctrl-C itself once it is loaded."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell ignores it for background processes
        signal.signal(signal.SIGINT, end_silently)
    from bentpipe.cli import main as run

    run()
