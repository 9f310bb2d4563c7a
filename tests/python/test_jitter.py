"""Slow start over a path whose delay varies: two values with Linux's HyStart, one with HyStart++ (docs/explanation/tcp.md)."""

from __future__ import annotations

from typing import Any

import bentpipe


def times(congestion: dict[str, Any]) -> list[float]:
    """Seconds that 5.3 MB take over KA-SAT (``studies/thomas-2019``), in twelve seeds, from the fastest on."""
    satellite = {
        "name": "satellite",
        "delay": "359.5 ms",
        "down": {"rate": "25 Mbit/s", "delay": "354.5 ms", "jitter": {"uniform": "10 ms", "reorder": False}},
        "up": {"rate": "5 Mbit/s", "delay": "346.25 ms", "jitter": {"uniform": "26.5 ms", "reorder": False}},
    }
    flow = {
        "name": "f",
        "transport": "tcp",
        "congestion": congestion,
        "direction": "down",
        "load": {"bytes": "5.3 MB"},
    }
    found = bentpipe.run(
        {"duration": "40 s", "seeds": 12, "path": {"segment": [satellite]}, "flow": [flow]}, jobs=1
    )
    return sorted(found.flow_summary.filter(side="client")["end_s"].to_list())


def test_waits_for_frames_end_linux_slow_start_for_good_in_some_runs() -> None:
    linux = times({"name": "cubic", "slow_start_exit": "classic", "avoidance": "linux"})
    assert linux[0] < 8
    assert linux[-1] > 13
    assert times({"name": "cubic", "slow_start_exit": "hystart++"})[-1] < 8
