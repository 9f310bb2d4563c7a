"""The first probe timeout of QUIC is three initial RTTs (RFC 9002 sections 6.2.1 and 6.2.2): 3 x 333 ms = 999 ms."""

from __future__ import annotations

import polars as pl
import pytest

import bentpipe


@pytest.mark.parametrize(
    ("one_way_ms", "initial_rtt", "probes"),
    [(300, None, 0), (495, None, 0), (510, None, 1), (510, "400 ms", 0)],
)
def test_a_geo_path_needs_no_larger_initial_rtt(
    one_way_ms: int, initial_rtt: str | None, probes: int
) -> None:
    data = {
        "duration": "10 s",
        "path": {"segment": [{"name": "s", "delay": f"{one_way_ms} ms", "both": {"rate": "100 Mbit/s"}}]},
        "flow": [{"name": "f", "congestion": "cubic", "direction": "up", "load": {"bytes": "100 B"}}],
    }
    if initial_rtt is not None:
        data["quic"] = {"initial_rtt": initial_rtt}
    summary = bentpipe.run(data).flow_summary
    client = summary.row(by_predicate=pl.col("side") == "client", named=True)
    assert client["ptos"] == probes
