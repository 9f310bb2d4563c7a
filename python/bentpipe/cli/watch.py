"""Command ``watch``: the path of a running shell in the terminal, with keys that change it."""

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

UPDATE_S = 0.25
"""Interval between two updates, s."""

BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 40
"""Width of a time series and of a slider, characters."""

KEYS = "↑ ↓ select   ← → change   u undo   q quit"
ARROWS = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[D": "less", b"\x1b[C": "more",
          b"k": "up", b"j": "down", b"h": "less", b"l": "more", b"u": "back", b"q": "end"}  # fmt: skip


def watch(
    control: Annotated[
        str | None,
        typer.Option(
            metavar="SOCKET",
            help="control socket of the shell [default: $BENTPIPE_CONTROL, or the only running shell]",
        ),
    ] = None,
) -> None:
    """Watch the path of a running shell from another terminal.

    Shows rate, queue and drops over time. Keys change the path.
    """
    from bentpipe.lab.control import CONTROL, get_path
    from bentpipe.lab.monitor import PathMonitor, find_control_socket

    control_socket = control or os.environ.get(CONTROL) or find_control_socket()
    monitor = PathMonitor(max_samples=WIDTH)
    monitor.add(get_path(control=control_socket, counters=True))
    if sys.stdin.isatty() and sys.stdout.isatty():
        _show_live(control_socket, monitor)
    else:
        _print_lines(control_socket, monitor)


def _update(control: str, monitor: PathMonitor) -> bool:
    """Update the samples; return whether the lab still runs."""
    from bentpipe.lab.control import get_path
    from bentpipe.scenario.errors import ScenarioError

    try:
        monitor.add(get_path(control=control, counters=True))
    except ScenarioError:
        return False
    return True


def _print_lines(control: str, monitor: PathMonitor) -> None:
    """Print a line a second for each link direction until the lab ends, without a terminal."""
    while True:
        time.sleep(1.0)
        if not _update(control, monitor):
            return
        for name, series in monitor.series.items():
            sample = series[-1]
            print(
                f"{monitor.time_s:.1f} s {plain(name)}: {sample.rate_bit_s / 1e6:.2f} Mbit/s, "
                f"queue {sample.queued_bytes / 1e3:.0f} kB, dropped {monitor.dropped[name]}",
                flush=True,
            )


def _show_live(control: str, monitor: PathMonitor) -> None:
    """Show the path in the terminal until a key or the end of the lab."""
    from rich.console import Console
    from rich.live import Live

    screen = _Screen(control, monitor)
    with _raw_keys(), Live(screen.render(), console=Console(), screen=True, auto_refresh=False) as live:
        next_update = time.monotonic()
        while not screen.is_over:
            next_update += UPDATE_S
            while (wait_s := next_update - time.monotonic()) > 0 and not screen.is_over:
                if select.select([sys.stdin], [], [], wait_s)[0]:
                    screen.press(os.read(sys.stdin.fileno(), 64))
                    live.update(screen.render(), refresh=True)
            if not _update(control, monitor):
                screen.is_over = True
            live.update(screen.render(), refresh=True)
    print(f"the shell ran for {monitor.time_s:.0f} s" if screen.ended else "the shell still runs")


class _Screen:
    """Contents of the screen, and the slider that the keys move."""

    def __init__(self, control: str, monitor: PathMonitor) -> None:
        self.control, self.monitor = control, monitor
        self.initial = {line.name: line for line in monitor.lines}
        self.chosen = 0
        self.message = ""
        self.is_over = False
        self.quit_requested = False

    @property
    def ended(self) -> bool:
        """Return whether the lab ended the display, not a key."""
        return not self.quit_requested

    def sliders(self) -> list[tuple[LinkState, str]]:
        """Return the link direction and the setting of each slider."""
        from bentpipe.lab.monitor import KINDS

        return [(line, kind) for line in self.monitor.lines for kind in KINDS]

    def press(self, keys: bytes) -> None:
        """Handle a key."""
        from bentpipe.lab.monitor import step

        action = ARROWS.get(keys)
        sliders = self.sliders()
        if action == "end":
            self.is_over = self.quit_requested = True
        elif action in ("up", "down"):
            self.chosen = (self.chosen + (1 if action == "down" else -1)) % len(sliders)
        elif action in ("less", "more"):
            line, kind = sliders[self.chosen]
            change_text = step(line, kind, up=action == "more")
            self.change([change_text] if change_text is not None else [])
            if change_text is None:
                self.message = f"{plain(line.name)}: {kind} cannot change further"
        elif action == "back":
            self.change(list(self.restore()))

    def restore(self) -> Iterator[str]:
        """Yield the changes that restore the path at the start of the display."""
        for line in self.monitor.lines:
            initial = self.initial[line.name]
            if initial.rate is not None and line.rate != initial.rate:
                yield f"{line.name}.rate={initial.rate.bit_s} bit/s"
            if initial.delay is not None and line.delay != initial.delay:
                yield f"{line.name}.delay={initial.delay.ns} ns"
            if initial.loss is not None and line.loss != initial.loss:
                yield f"{line.name}.loss={initial.loss * 100:.9f} %"

    def change(self, changes: Sequence[str]) -> None:
        """Apply changes to the path."""
        from bentpipe.lab.control import set_path
        from bentpipe.scenario.errors import ScenarioError

        for change_text in changes:
            try:
                self.message = "; ".join(set_path(change_text, control=self.control))
            except ScenarioError as error:
                self.message = str(error)
        if changes:
            _update(self.control, self.monitor)

    def render(self) -> Group:
        """Return the contents of the screen."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        names = max((len(name) for name in self.monitor.series), default=0)
        # Two time series share the width beside their numbers.
        bar_width = max(8, min(WIDTH, (shutil.get_terminal_size().columns - names - 34) // 2))
        series = Table(box=None, pad_edge=False)
        for head in ("", "Mbit/s", "", "queue, kB", "", "dropped"):
            series.add_column(head, justify="right" if head else "left", no_wrap=True)
        for name, samples in self.monitor.series.items():
            rates = [sample.rate_bit_s / 1e6 for sample in samples]
            queues = [sample.queued_bytes / 1e3 for sample in samples]
            series.add_row(
                Text(plain(name)), f"{rates[-1]:.2f}", draw_bars(rates, bar_width), f"{queues[-1]:.0f}",
                draw_bars(queues, bar_width),
                f"{self.monitor.dropped[name]:,}",
            )  # fmt: skip
        sliders = Table(box=None, pad_edge=False)
        for _ in range(4):
            sliders.add_column(no_wrap=True)
        for place, (line, kind) in enumerate(self.sliders()):
            style = "bold reverse" if place == self.chosen else ""
            value = line.as_row()[kind]
            sliders.add_row(
                Text(plain(line.name) if kind == "rate" else ""), Text(kind, style=style),
                Text(draw_slider(line, self.initial[line.name], kind)), Text(str(value or "–")),
            )  # fmt: skip
        status = Text(f"{self.monitor.time_s:.0f} s   {KEYS}", style="dim")
        return Group(status, Text(), series, Text(), sliders, Text(), Text(self.message))


def draw_bars(values: Sequence[float], width: int) -> str:
    """Return the last values over time as bars; the largest value has the highest bar."""
    values = values[-width:]
    maximum = max(values, default=0.0)
    if maximum <= 0:
        return " " * len(values)
    return "".join(BARS[round(value / maximum * (len(BARS) - 1))] for value in values).rjust(width)


def draw_slider(line: LinkState, initial: LinkState, kind: str) -> str:
    """Return a slider for a setting.

    A rate or delay is between 0.1 and 10 times its initial value. A loss is between 0 and 1, by its steps.
    """
    import math

    from bentpipe.lab.monitor import LOSSES

    if kind == "loss":
        position = sum(state <= (line.loss or 0.0) for state in LOSSES[1:]) / (len(LOSSES) - 1)
    else:
        current, initial_value = (
            (state.rate.bit_s if state.rate else 0)
            if kind == "rate"
            else (state.delay.ns if state.delay else 0)
            for state in (line, initial)
        )
        if not current:
            return ""
        position = 0.5 + math.log10(current / (initial_value or 1_000_000)) / 2
    column = round(min(1.0, max(0.0, position)) * (WIDTH - 1))
    return "─" * column + "●" + "─" * (WIDTH - 1 - column)


@contextmanager
def _raw_keys() -> Iterator[None]:
    """Read keys without echo; restore the terminal at the end."""
    import termios
    import tty

    handle = sys.stdin.fileno()
    attributes = termios.tcgetattr(handle)
    tty.setcbreak(handle)
    try:
        yield
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, attributes)
