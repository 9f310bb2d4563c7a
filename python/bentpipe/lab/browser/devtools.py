"""Chromium's DevTools protocol over a pipe: JSON messages, each followed by a zero byte."""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from bentpipe.lab.browser.chromium import ChromiumError

if TYPE_CHECKING:
    from bentpipe.lab.browser.chromium import Chromium

__all__ = ["DevTools", "Event", "HungError"]

Event = dict[str, Any]

ANSWER_S = 20.0
"""An idle browser answers in milliseconds, one that starts on a busy machine in seconds."""

MOST_BYTES = 64 << 20
"""Of a message: more is not one of ours."""


class HungError(ChromiumError):
    """The browser did not answer in time, or closed its pipe."""


class DevTools:
    """Calls and events. An event that comes while a call waits is kept for :meth:`events`."""

    def __init__(self, browser: Chromium) -> None:
        """Speaks with ``browser``."""
        self.browser = browser
        self._last = 0
        self._bytes = bytearray()
        self._waiting: deque[Event] = deque()

    def call(
        self, method: str, session: str | None = None, *, timeout: float = ANSWER_S, **parameters: Any
    ) -> dict[str, Any]:
        """The result of ``method``.

        Raises:
            HungError: no answer within ``timeout`` seconds.
            ChromiumError: the browser refuses.
        """
        asked = self.start(method, session, **parameters)
        until = time.monotonic() + timeout
        while True:
            found = self._receive(until)
            if found is None:
                raise HungError(f"the browser did not answer {method} within {timeout:g} s")
            if found.get("id") != asked:
                if "method" in found:
                    self._waiting.append(found)
                continue
            if "error" in found:
                raise ChromiumError(f"{method}: {found['error'].get('message')}")
            result: dict[str, Any] = found["result"]
            return result

    def start(self, method: str, session: str | None = None, **parameters: Any) -> int:
        """Asks for ``method`` without waiting for its answer, which is dropped; returns the number of the question."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        try:
            _write_all(self.browser.writing, json.dumps(message).encode() + b"\0")
        except OSError:
            raise HungError(f"the browser has ended before it could be asked for {method}") from None
        return self._last

    def forget(self) -> None:
        """Drops the events that wait."""
        self._waiting.clear()

    def rest(self) -> list[Event]:
        """The events that wait."""
        found = list(self._waiting)
        self._waiting.clear()
        return found

    def event(self, until: float) -> Event | None:
        """The next event; None at ``until`` (time.monotonic). Raises HungError when the browser has ended."""
        while True:
            if self._waiting:
                return self._waiting.popleft()
            found = self._receive(until)
            if found is None or "method" in found:
                return found

    def _receive(self, until: float) -> Event | None:
        while (end := self._bytes.find(b"\0")) < 0:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.browser.reading], [], [], left)[0]:
                return None
            more = os.read(self.browser.reading, 1 << 18)
            if not more:
                raise HungError("the browser has ended")
            self._bytes += more
            if len(self._bytes) > MOST_BYTES:
                raise HungError("the browser sent a message without end")
        message: Event = json.loads(self._bytes[:end])
        del self._bytes[: end + 1]
        return message


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
