"""Access to one full queue depends on fractions of a packet's transmission time, as long as nothing varies.

Source: Floyd and Jacobson, On Traffic Phase Effects in Packet-Switched Gateways (Internetworking: Research and
Experience 3(3), 1992). Behind drop-tail, flows that are clocked by their acknowledgements keep their phase. A small
difference of round trips then decides which flow loses packets. Random delays of a packet's time and more undo it.
"""

from __future__ import annotations

import statistics
from typing import Any

import pytest

import bentpipe
from bentpipe.lab.background_traffic import flows

SECONDS = 20


def share(later: tuple[str, str], jitter: str | None) -> float:
    """Goodput in Mbit/s of a QUIC download beside twenty by TCP, with servers at these additional distances (QUIC; TCP)."""
    varied = {"jitter": {"uniform": jitter, "reorder": True}} if jitter else {}
    satellite: dict[str, Any] = {
        "name": "s", "client_side": "c", "server_side": "r", "delay": "25 ms",
        "up": {"rate": "5 Mbit/s", "queue": "31250 B", **varied}, "down": {"rate": "20 Mbit/s", "queue": "125 kB"},
    }  # fmt: skip
    graph = {
        "node": [{"name": "c"}, {"name": "r", "kind": "router"}, {"name": "own"}, {"name": "theirs"}],
        "link": [
            satellite,
            {"name": "a", "client_side": "r", "server_side": "own", "delay": later[0]},
            {"name": "b", "client_side": "r", "server_side": "theirs", "delay": later[1]},
        ],
    }
    shell = {
        "name": "shell", "transport": "quic", "congestion": "cubic", "direction": "down", "start": "5 s",
        "load": {"time": f"{SECONDS} s"}, "client": "c", "server": "own",
    }  # fmt: skip
    users = [{**flow, "client": "c", "server": "theirs"} for flow in flows(20, "tcp")]
    run = {"title": "21", "duration": f"{5 + SECONDS} s", "seeds": 4, "graph": graph, "flow": [shell, *users]}
    had = bentpipe.run(run, jobs=2).flow_summary.filter(flow="shell", side="client")[
        "received_in_order_bytes"
    ]
    return 8e-6 * statistics.mean(had) / SECONDS


CELLS = [("0 s", "0 s"), ("0 s", "200 us"), ("200 us", "0 s")]
"""A packet takes 600 us."""


@pytest.mark.parametrize(("jitter", "between"), [(None, (2.5, 10.0)), ("5 ms", (1.0, 1.5))])
def test_a_fraction_of_a_packet_decides_unless_acknowledgements_vary(
    jitter: str | None, between: tuple[float, float]
) -> None:
    shares = [share(cell, jitter) for cell in CELLS]
    least, most = between
    assert least <= max(shares) / min(shares) <= most, shares
