"""A worker process: reads runs from its standard input, writes their files to its standard output.

A message is 8 bytes little-endian length and that many bytes. In: JSON, first ``{"controllers", "search",
"coordinator"}``, then one resolved run after the other. Out: ``=`` when it is ready, or ``-`` and a message why it is
not; then for each run one byte (``+`` files, ``-`` an error's text) and a message. It imports the engine and what
encodes its tables, and it ends when its input does.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import IO

from bentpipe.runners import engine
from bentpipe.store.codec import DecodeError, decode, encode

__all__ = ["READY", "format_error", "main", "receive", "send", "serve"]


READY = b"="
"""The first byte that a worker sends."""


def send(stream: IO[bytes], data: bytes) -> None:
    """Writes one message."""
    stream.write(len(data).to_bytes(8, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Reads one message. Raises EOFError when the other side has gone."""
    return exactly(stream, int.from_bytes(exactly(stream, 8), "little"))


def exactly(stream: IO[bytes], count: int) -> bytes:
    """``count`` bytes. Raises EOFError when there are fewer."""
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def main() -> None:
    """Serves until the input ends."""
    source = sys.stdin.buffer
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a controller prints goes to standard error, not between the messages
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        try:
            _ignore_interrupts()
            setup = json.loads(receive(source))
            _end_with(setup["coordinator"])
            classes = engine.load_controllers(setup["controllers"], setup["search"])
        except EOFError:
            raise
        except BaseException as error:  # noqa: BLE001 - a user's module may raise anything
            target.write(b"-")
            send(target, format_error(error).encode(errors="replace"))
            return
        target.write(READY)
        target.flush()
        while True:
            spec = receive(source).decode()
            status, answer = serve(spec, classes)
            target.write(status)
            send(target, answer)
    except (EOFError, BrokenPipeError):
        return


def _ignore_interrupts() -> None:
    """Ctrl-C is the coordinator's to handle. Polars brings a handler of its own when it is imported."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    import numpy  # noqa: F401
    import polars  # noqa: F401

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with(coordinator: int) -> None:
    """A worker whose controller never answers does not outlive who started it, however that ends.

    Elsewhere than on Linux it ends between two runs, when it sees the end of its input.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != coordinator:
            raise EOFError


_PR_SET_PDEATHSIG = 1
"""linux/prctl.h"""


def serve(spec: str, classes: dict[str, type], *, encoded: bool = True) -> tuple[bytes, bytes]:
    """A run: its files, packed, or the engine's bytes; or what went wrong (a panic of the engine is an exception too).

    Raises:
        KeyboardInterrupt: Ctrl-C reached a controller, where that runs in the user's own process.
    """
    try:
        data = engine.run(spec, classes or None)
        if not encoded:
            return b"+", data
        found = decode(data)
        del data  # a long run's may be as large as all else
        return b"+", encode(found).to_bytes()
    except KeyboardInterrupt:
        raise
    except DecodeError as wrong:
        return b"-", str(wrong).encode(errors="replace")
    except BaseException as error:  # noqa: BLE001 - a panic derives from BaseException and must fail one run only
        return b"-", format_error(error).encode(errors="replace")


def format_error(error: BaseException) -> str:
    """An error in one line: whose controller it is (its notes), and its place where that is a controller's source."""
    notes = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    text = f"{notes}{type(error).__name__}: {error}"
    if text.endswith("is not an instance of 'Control'"):
        text += "; on_event answers with bytes, a whole number below 2^64, or Control(cwnd, pacing_rate_bit_s=...)"
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return text
    code = place.tb_frame.f_code
    file = Path(code.co_filename)
    if file.is_relative_to(Path(__file__).parents[1]) or file.name.startswith("<frozen"):
        return text
    return f"{text} ({file.name}, line {place.tb_lineno}, in {code.co_name})"


if __name__ == "__main__":
    main()
