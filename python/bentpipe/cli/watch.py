"""``watch``: a running shell's path in the terminal, with keys that change it."""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli.console import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Group

    from bentpipe.lab.control import LinkState
    from bentpipe.lab.monitor import PathMonitor

__all__ = ["watch"]

LOOK_S = 0.25
"""Between two looks at the session."""

BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 40
"""Of a series and of a slider, characters."""

KEYS = "↑ ↓ choose   ← → change   u put back   q end"
ARROWS = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[D": "less", b"\x1b[C": "more",
          b"k": "up", b"j": "down", b"h": "less", b"l": "more", b"u": "back", b"q": "end"}  # fmt: skip


def watch(
    control: Annotated[
        str | None,
        typer.Option(
            metavar="SOCKET", help="the session's; default: $BENTPIPE_CONTROL, or the one shell that runs"
        ),
    ] = None,
) -> None:
    """Watch the path of a running shell from beside it. Rate, queue and drops over time; keys change the path."""
    from bentpipe.lab.control import CONTROL, get_path
    from bentpipe.lab.monitor import PathMonitor, find_control_socket

    place = control or os.environ.get(CONTROL) or find_control_socket()
    watched = PathMonitor(max_samples=WIDTH)
    watched.add(get_path(control=place, counters=True))
    if sys.stdin.isatty() and sys.stdout.isatty():
        _live(place, watched)
    else:
        _lines(place, watched)


def _look(place: str, watched: PathMonitor) -> bool:
    """One more look; whether the session is still there."""
    from bentpipe.lab.control import get_path
    from bentpipe.scenario.errors import ScenarioError

    try:
        watched.add(get_path(control=place, counters=True))
    except ScenarioError:
        return False
    return True


def _lines(place: str, watched: PathMonitor) -> None:
    """Without a terminal: a line a second for each direction, until the session ends."""
    while True:
        time.sleep(1.0)
        if not _look(place, watched):
            return
        for name, series in watched.series.items():
            now = series[-1]
            print(
                f"{watched.time_s:.1f} s {plain(name)}: {now.rate_bit_s / 1e6:.2f} Mbit/s, "
                f"queue {now.queued_bytes / 1e3:.0f} kB, dropped {watched.dropped[name]}",
                flush=True,
            )


def _live(place: str, watched: PathMonitor) -> None:
    """In a terminal, until a key or the session ends it."""
    from rich.console import Console
    from rich.live import Live

    desk = _Desk(place, watched)
    with _keys(), Live(desk.shown(), console=Console(), screen=True, auto_refresh=False) as live:
        due = time.monotonic()
        while not desk.over:
            due += LOOK_S
            while (left := due - time.monotonic()) > 0 and not desk.over:
                if select.select([sys.stdin], [], [], left)[0]:
                    desk.press(os.read(sys.stdin.fileno(), 64))
                    live.update(desk.shown(), refresh=True)
            if not _look(place, watched):
                desk.over = True
            live.update(desk.shown(), refresh=True)
    print(f"the session ran for {watched.time_s:.0f} s" if desk.ended else "the session goes on")


class _Desk:
    """What is shown, and which of the sliders the keys move."""

    def __init__(self, place: str, watched: PathMonitor) -> None:
        self.place, self.watched = place, watched
        self.begun = {line.name: line for line in watched.lines}
        self.chosen = 0
        self.said = ""
        self.over = False
        self.asked = False

    @property
    def ended(self) -> bool:
        """By the session, not by a key."""
        return not self.asked

    def sliders(self) -> list[tuple[LinkState, str]]:
        from bentpipe.lab.monitor import KINDS

        return [(line, kind) for line in self.watched.lines for kind in KINDS]

    def press(self, keys: bytes) -> None:
        from bentpipe.lab.monitor import step

        what = ARROWS.get(keys)
        sliders = self.sliders()
        if what == "end":
            self.over = self.asked = True
        elif what in ("up", "down"):
            self.chosen = (self.chosen + (1 if what == "down" else -1)) % len(sliders)
        elif what in ("less", "more"):
            line, kind = sliders[self.chosen]
            words = step(line, kind, up=what == "more")
            self.change([words] if words is not None else [])
            if words is None:
                self.said = f"{plain(line.name)}: no {kind} that goes there"
        elif what == "back":
            self.change(list(self.put_back()))

    def put_back(self) -> Iterator[str]:
        """Words that make the path what it was when this began."""
        for line in self.watched.lines:
            old = self.begun[line.name]
            if old.rate is not None and line.rate != old.rate:
                yield f"{line.name}.rate={old.rate.bit_s} bit/s"
            if old.delay is not None and line.delay != old.delay:
                yield f"{line.name}.delay={old.delay.ns} ns"
            if old.loss is not None and line.loss != old.loss:
                yield f"{line.name}.loss={old.loss * 100:.9f} %"

    def change(self, words: Sequence[str]) -> None:
        from bentpipe.lab.control import set_path
        from bentpipe.scenario.errors import ScenarioError

        for one in words:
            try:
                self.said = "; ".join(set_path(one, control=self.place))
            except ScenarioError as error:
                self.said = str(error)
        if words:
            _look(self.place, self.watched)

    def shown(self) -> Group:
        """The whole picture."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        names = max((len(name) for name in self.watched.series), default=0)
        # what is left for each of two series beside their numbers
        room = max(8, min(WIDTH, (shutil.get_terminal_size().columns - names - 34) // 2))
        series = Table(box=None, pad_edge=False)
        for head in ("", "Mbit/s", "", "queue, kB", "", "dropped"):
            series.add_column(head, justify="right" if head else "left", no_wrap=True)
        for name, kept in self.watched.series.items():
            rates = [one.rate_bit_s / 1e6 for one in kept]
            queues = [one.queued_bytes / 1e3 for one in kept]
            series.add_row(
                Text(plain(name)), f"{rates[-1]:.2f}", drawn(rates, room), f"{queues[-1]:.0f}", drawn(queues, room),
                f"{self.watched.dropped[name]:,}",
            )  # fmt: skip
        sliders = Table(box=None, pad_edge=False)
        for _ in range(4):
            sliders.add_column(no_wrap=True)
        for place, (line, kind) in enumerate(self.sliders()):
            style = "bold reverse" if place == self.chosen else ""
            value = line.as_row()[kind]
            sliders.add_row(
                Text(plain(line.name) if kind == "rate" else ""), Text(kind, style=style),
                Text(slider(line, self.begun[line.name], kind)), Text(str(value or "–")),
            )  # fmt: skip
        above = Text(f"{self.watched.time_s:.0f} s   {KEYS}", style="dim")
        return Group(above, Text(), series, Text(), sliders, Text(), Text(self.said))


def drawn(values: Sequence[float], room: int) -> str:
    """The last values over time as bars, the largest the highest."""
    values = values[-room:]
    top = max(values, default=0.0)
    if top <= 0:
        return " " * len(values)
    return "".join(BARS[round(value / top * (len(BARS) - 1))] for value in values).rjust(room)


def slider(line: LinkState, begun: LinkState, kind: str) -> str:
    """Where a number stands between a tenth and ten times of what it was; a loss between 0 and 1, by its steps."""
    import math

    from bentpipe.lab.monitor import LOSSES

    if kind == "loss":
        at = sum(one <= (line.loss or 0.0) for one in LOSSES[1:]) / (len(LOSSES) - 1)
    else:
        now, old = ((one.rate.bit_s if one.rate else 0) if kind == "rate" else (one.delay.ns if one.delay else 0)
                    for one in (line, begun))  # fmt: skip
        if not now:
            return ""
        at = 0.5 + math.log10(now / (old or 1_000_000)) / 2
    place = round(min(1.0, max(0.0, at)) * (WIDTH - 1))
    return "─" * place + "●" + "─" * (WIDTH - 1 - place)


@contextmanager
def _keys() -> Iterator[None]:
    """Keys come at once and are not shown; the terminal is afterwards as it was."""
    import termios
    import tty

    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    tty.setcbreak(handle)
    try:
        yield
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
