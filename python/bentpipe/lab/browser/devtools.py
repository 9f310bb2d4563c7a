"""DevTools protocol of Chromium over a pipe: JSON messages, each followed by a zero byte."""

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
"""Timeout in s. An idle browser answers in milliseconds, a starting one on a busy machine in seconds."""

MOST_BYTES = 64 << 20
"""Maximum length of a message in bytes."""


class HungError(ChromiumError):
    """Missing answer of the browser, or closed pipe."""


class DevTools:
    """Client of the protocol. Events that arrive during a call are queued for :meth:`event`."""

    def __init__(self, browser: Chromium) -> None:
        """Use the pipe of ``browser``."""
        self.browser = browser
        self._last = 0
        self._bytes = bytearray()
        self._events: deque[Event] = deque()

    def call(
        self, method: str, session: str | None = None, *, timeout: float = ANSWER_S, **parameters: Any
    ) -> dict[str, Any]:
        """Call ``method`` and return its result.

        Raises:
            HungError: no answer arrived within ``timeout`` seconds.
            ChromiumError: the browser returned an error.
        """
        call_id = self.start(method, session, **parameters)
        deadline = time.monotonic() + timeout
        while True:
            message = self._receive(deadline)
            if message is None:
                raise HungError(f"the browser did not answer {method} within {timeout:g} s")
            if message.get("id") != call_id:
                if "method" in message:
                    self._events.append(message)
                continue
            if "error" in message:
                raise ChromiumError(f"{method}: {message['error'].get('message')}")
            result: dict[str, Any] = message["result"]
            return result

    def start(self, method: str, session: str | None = None, **parameters: Any) -> int:
        """Call ``method`` without waiting for its answer, and return the id of the call."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        try:
            _write_all(self.browser.writing, json.dumps(message).encode() + b"\0")
        except OSError:
            raise HungError(f"the browser exited before the command {method}") from None
        return self._last

    def forget(self) -> None:
        """Drop the queued events."""
        self._events.clear()

    def rest(self) -> list[Event]:
        """Return and remove the queued events."""
        events = list(self._events)
        self._events.clear()
        return events

    def event(self, deadline: float) -> Event | None:
        """Return the next event; None at ``deadline`` (time.monotonic). Raises HungError if the browser exited."""
        while True:
            if self._events:
                return self._events.popleft()
            message = self._receive(deadline)
            if message is None or "method" in message:
                return message

    def _receive(self, deadline: float) -> Event | None:
        while (end := self._bytes.find(b"\0")) < 0:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.browser.reading], [], [], left)[0]:
                return None
            chunk = os.read(self.browser.reading, 1 << 18)
            if not chunk:
                raise HungError("the browser exited")
            self._bytes += chunk
            if len(self._bytes) > MOST_BYTES:
                raise HungError("the browser sent an unterminated message")
        message: Event = json.loads(self._bytes[:end])
        del self._bytes[: end + 1]
        return message


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
