"""Worker process: reads runs from standard input and writes their files to standard output.

A message is a length (8 bytes, little-endian) and that many bytes. Input: JSON, first ``{"controllers", "pickled",
"search", "coordinator"}``, then one run after the other: a line with its limits, and the resolved run. Output: ``=``
when ready, or ``-`` and an error message. For each run follow one byte (``+`` files, ``-`` error text) and a message.
The worker imports the engine and the encoder of tables only, and ends with its input.
"""

from __future__ import annotations

import base64
import ctypes
import io
import json
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bentpipe.runners import engine
from bentpipe.store.codec import DecodeError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["READY", "format_error", "main", "receive", "send", "serve"]


READY = b"="
"""First byte of a ready worker."""


def send(stream: IO[bytes], data: bytes) -> None:
    """Write one message."""
    stream.write(len(data).to_bytes(8, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Read one message; raise EOFError at the end of the stream."""
    return exactly(stream, int.from_bytes(exactly(stream, 8), "little"))


def exactly(stream: IO[bytes], count: int) -> bytes:
    """Read ``count`` bytes; raise EOFError if there are fewer."""
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def main() -> None:
    """Serve runs until the input ends."""
    source = sys.stdin.buffer
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a controller goes to standard error, not between the messages
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        try:
            _ignore_interrupts()
            setup = json.loads(receive(source))
            _end_with(setup["coordinator"])
            classes = engine.load_controllers(setup["controllers"], setup["search"])
            pickled = setup.get("pickled", {}).items()
            classes |= {
                name: pickle.loads(base64.b64decode(text))  # noqa: S301 - the coordinator wrote it
                for name, text in pickled
            }
        except EOFError:
            raise
        except BaseException as error:  # noqa: BLE001 - a user's module may raise anything
            target.write(b"-")
            send(target, format_error(error).encode(errors="replace"))
            return
        target.write(READY)
        target.flush()
        while True:
            limits, _, spec = receive(source).decode().partition("\n")
            status, answer = serve(spec, classes, json.loads(limits))
            target.write(status)
            send(target, answer)
    except (EOFError, BrokenPipeError):
        return


def _ignore_interrupts() -> None:
    """Ignore SIGINT, which the coordinator handles. Polars installs its own handler at import."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    import numpy  # noqa: F401
    import polars  # noqa: F401

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with(coordinator: int) -> None:
    """End with the coordinator, even while a controller never returns.

    On systems other than Linux the worker ends between two runs, at the end of its input.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != coordinator:
            raise EOFError


_PR_SET_PDEATHSIG = 1
"""Constant of linux/prctl.h."""


def serve(
    spec: str, classes: dict[str, type], limits: Sequence[int] | None, *, encoded: bool = True
) -> tuple[bytes, bytes]:
    """Execute a run and return a status byte with its files or with the error (engine panics included).

    Args:
        spec: specification of the run as JSON.
        classes: user-supplied controllers by name.
        limits: numbers of events and of bytes of memory at which the run ends; None: no limits.
        encoded: return encoded files, not the bytes of the engine.

    Raises:
        KeyboardInterrupt: Ctrl-C during a controller in the process of the user.
    """
    try:
        data = engine.run(spec, classes or None, (limits[0], limits[1]) if limits else None)
        if not encoded:
            return b"+", data
        measurements = decode(data)
        del data  # the data of a long run may be as large as everything else
        return b"+", encode(measurements).to_bytes()
    except KeyboardInterrupt:
        raise
    except DecodeError as error_:
        return b"-", str(error_).encode(errors="replace")
    except BaseException as error:  # noqa: BLE001 - a panic derives from BaseException and must fail one run only
        return b"-", format_error(error).encode(errors="replace")


def format_error(error: BaseException) -> str:
    """Return an error in one line: controller (its notes), error, and place if that is in user code."""
    notes = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    text = f"{notes}{type(error).__name__}: {error}"
    if text.endswith("is not an instance of 'Control'"):
        text += "; on_event answers with bytes, a whole number below 2^64, or Control(cwnd, pacing_rate_bit_s=...)"
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return text
    code = frame.tb_frame.f_code
    file = Path(code.co_filename)
    if file.is_relative_to(Path(__file__).parents[1]) or file.name.startswith("<frozen"):
        return text
    return f"{text} ({file.name}, line {frame.tb_lineno}, in {code.co_name})"


if __name__ == "__main__":
    main()
