"""The trial of kills of bundle nodes judges broken guarantees, never the speed of the machine."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from typing import Any

import pytest

import dtn_kills
import realtime

STILL_S = 3.0
"""More than the load takes."""


@pytest.mark.nightly
@pytest.mark.live
@pytest.mark.parametrize("layer", ["tcpcl", "ltp", "mtcp"])
def test_bundles_lost_by_a_relay_are_found(monkeypatch: pytest.MonkeyPatch, layer: str) -> None:
    """The third node stands still until the second has more than sockets hold, is killed, and its store is gone."""
    kill = dtn_kills.Kill(layer, "2", (0.0,), 200_000, 200_000_000)
    begin, end = dtn_kills.Node.begin, dtn_kills.Node.end
    last: list[int] = []

    def begins(node: dtn_kills.Node, **how: Any) -> None:
        if node.store.name == "store-2" and node.found:
            shutil.rmtree(node.store)
        begin(node, **how)
        if node.store.name == "store-3" and not last:
            os.kill(node.pid, signal.SIGSTOP)
            last.append(node.pid)
        elif node.store.name == "store-2" and len(node.found) == 2:
            os.kill(last[0], signal.SIGCONT)

    def ends(node: dtn_kills.Node, number: int = signal.SIGTERM) -> int | None:
        if node.store.name == "store-2" and len(node.found) == 1:
            until = time.monotonic() + dtn_kills.PATIENCE_S
            while len(node.ids("received")) < kill.count and time.monotonic() < until:
                time.sleep(0.05)
        return end(node, number)

    monkeypatch.setattr(dtn_kills.Node, "begin", begins)
    monkeypatch.setattr(dtn_kills.Node, "end", ends)
    wrong = dtn_kills.trial(realtime.program(), kill)
    assert f" of {kill.count} are delivered, and 0 may be lost; " in wrong
    assert " lost, such as ('ipn:1.3000', " in wrong


@pytest.mark.nightly
@pytest.mark.live
@pytest.mark.parametrize("node", ["2", "3"])
def test_a_source_that_stands_still_is_waited_for(monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    begin = dtn_kills.Node.begin

    def begins(one: dtn_kills.Node, **how: Any) -> None:
        begin(one, **how)
        if one.store.name == "store-1" and len(one.found) == 1:
            os.kill(one.pid, signal.SIGSTOP)
            threading.Timer(STILL_S, os.kill, (one.pid, signal.SIGCONT)).start()

    monkeypatch.setattr(dtn_kills.Node, "begin", begins)
    kill = dtn_kills.Kill("tcpcl", node, (0.1,), 20_000, 20_000_000)
    assert dtn_kills.trial(realtime.program(), kill) == ""
