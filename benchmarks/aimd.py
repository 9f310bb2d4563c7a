"""AIMD in Python, by the same rules as ``aimd`` of the engine: the user-supplied controller of the benchmark.

``examples/controller.py`` has the same class as a template, and shows that both give the same run.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Aimd"]


class Aimd:
    """Controller that adds a packet per round trip and halves on congestion (docs/how-to/controllers.md)."""

    def __init__(self, config: Any) -> None:
        self.mss: int = config.mss
        self.cwnd: int = config.initial_window
        self.credit = 0
        self.ssthresh: int | None = None

    def on_event(self, now: int, event: Any) -> int:  # noqa: ARG002 - the engine passes the time
        """Return the congestion window after ``event``, in bytes."""
        if event.kind == "mss":
            self.mss = event.mss
        elif event.kind == "timeout" or event.persistent:
            self._cut(collapse=True)
        elif event.congestion:
            self._cut(collapse=False)
        elif event.kind == "ack":
            self._grow(event.credited)
        return self.cwnd

    def _cut(self, *, collapse: bool) -> None:
        self.ssthresh, self.credit = max(self.cwnd // 2, 2 * self.mss), 0
        self.cwnd = 2 * self.mss if collapse else self.ssthresh

    def _grow(self, acked: int) -> None:
        if self.ssthresh is None or self.cwnd < self.ssthresh:
            self.cwnd += acked
            return
        self.credit += acked
        if self.credit >= self.cwnd:
            self.credit -= self.cwnd
            self.cwnd += self.mss
