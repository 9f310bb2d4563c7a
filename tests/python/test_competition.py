"""Competition of flows: which flows share a link at the same time, and Jain's index only of those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import bentpipe
from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.metrics.competition import links_of_flows
from bentpipe.metrics.compute import run_metrics
from bentpipe.report.findings import findings
from bentpipe.store.reader import open_store

if TYPE_CHECKING:
    from pathlib import Path

RATE = [{"kind": "transmit"}]
DELAY = [{"kind": "delay"}]


def _link(name: str, client: str, server: str, stages: list[dict[str, str]] = RATE) -> dict[str, Any]:
    return {"name": name, "client_side": client, "server_side": server, "up": stages, "down": DELAY}


def _links(links: list[dict[str, Any]], *flows: tuple[str, str, str]) -> dict[str, dict[str, list[str]]]:
    described = [{"name": name, "client": client, "server": server} for name, client, server in flows]
    return links_of_flows({"graph": {"links": links}, "flows": described})  # type: ignore[typeddict-item]


def test_routes_have_the_links_of_limited_rate() -> None:
    dumbbell = [
        _link("a", "c1", "left"), _link("b", "c2", "left", DELAY), _link("middle", "left", "right"),
        _link("c", "s1", "right"), _link("d", "right", "s2"),
    ]  # fmt: skip
    found = _links(dumbbell, ("one", "c1", "s2"), ("two", "c2", "s1"), ("near", "c1", "left"))
    assert found["one"] == {"up": ["a.up", "middle.up", "d.up"], "down": []}
    assert found["two"] == {"up": ["middle.up"], "down": ["c.up"]}, "the server is at the client side of c"
    assert found["near"] == {"up": ["a.up"], "down": []}


def test_routes_of_a_graph_with_a_cycle_are_unknown() -> None:
    ring = [_link("a", "x", "y"), _link("b", "y", "z"), _link("c", "z", "x")]
    assert _links(ring, ("one", "x", "y")) == {}
    assert _links(ring[:2], ("one", "x", "y")) == {"one": {"up": ["a.up"], "down": []}}


SCENARIO = """
title = "Two flows"
duration = "12 s"

[[graph.node]]
name = "c1"
[[graph.node]]
name = "c2"
[[graph.node]]
name = "r"
kind = "router"
[[graph.node]]
name = "q"
kind = "router"
[[graph.node]]
name = "s1"
[[graph.node]]
name = "s2"

[[graph.link]]
name = "near"
client_side = "c1"
server_side = "r"
delay = "5 ms"
both = {{ rate = "4 Mbit/s", queue = "50 packets" }}
[[graph.link]]
name = "far"
client_side = "r"
server_side = "s1"
delay = "5 ms"
both = {{ rate = "4 Mbit/s", queue = "50 packets" }}
[[graph.link]]
name = "apart"
client_side = "c2"
server_side = "q"
delay = "5 ms"
both = {{ rate = "4 Mbit/s", queue = "50 packets" }}
[[graph.link]]
name = "end"
client_side = "q"
server_side = "s2"
delay = "5 ms"
both = {{ rate = "4 Mbit/s", queue = "50 packets" }}
[[graph.link]]
name = "bridge"
client_side = "r"
server_side = "q"
delay = "5 ms"
both = {{ rate = "4 Mbit/s", queue = "50 packets" }}

[[flow]]
name = "one"
transport = "quic"
congestion = "cubic"
client = "c1"
server = "s1"
direction = "up"
load = {{ time = "{length}" }}
[[flow]]
name = "two"
transport = "quic"
congestion = "cubic"
client = "{client}"
server = "{server}"
direction = "up"
start = "{start}"
load = {{ time = "4 s" }}
"""


@pytest.mark.parametrize(
    ("client", "server", "length", "start", "competing"),
    [
        ("c1", "s1", "10 s", "1 s", True),
        ("c2", "s2", "10 s", "1 s", False),
        ("c1", "s1", "3 s", "7 s", False),
    ],
    ids=["one link", "two links", "one after the other"],
)
def test_only_flows_that_compete_have_an_index(
    tmp_path: Path, client: str, server: str, length: str, start: str, competing: bool
) -> None:
    text = SCENARIO.format(client=client, server=server, length=length, start=start)
    (tmp_path / "s.toml").write_text(text)
    store = open_store(bentpipe.run(tmp_path / "s.toml", out=tmp_path / "out").path)
    metrics = run_metrics(store).filter(pl.col("direction") == "up")
    assert metrics.height == 2
    assert metrics["jain"].is_not_null().to_list() == [competing] * 2
    assert metrics["convergence_reason"].is_not_null().any() or not competing
    context = FigureContext(store)
    assert (FIGURES["fairness"](context) is not None) == competing
    shares = FIGURES["goodput-shares"](context)
    assert shares is not None
    assert ("Jain" in shares.caption) == competing
    assert ("Jain" in findings(context)) == competing


CALL = """
duration = "20 s"
[[path.segment]]
name = "link"
delay = "50 ms"
both = {{ rate = "4 Mbit/s", queue = "{queue}" }}
[[flow]]
name = "call"
transport = "udp"
load = {{ call = "g711" }}
{downloads}
[sweep]
"flow.load.congestion" = ["cubic", "bbr"]
"""

DOWNLOAD = """
[[flow]]
name = "{name}"
congestion = "cubic"
direction = "{direction}"
load = {{ time = "20 s" }}
"""


@pytest.mark.parametrize(
    ("names", "direction"), [(("load",), "down"), (("load",), "up"), (("load", "other"), "down")]
)
def test_a_call_beside_downloads_is_no_competitor(
    tmp_path: Path, names: tuple[str, ...], direction: str
) -> None:
    """Jain's index is that of the downloads; the first sentence rates the call in the direction that they load."""
    downloads = "".join(DOWNLOAD.format(name=name, direction=direction) for name in names)
    (tmp_path / "s.toml").write_text(CALL.format(queue="200 packets", downloads=downloads))
    store = open_store(bentpipe.run(tmp_path / "s.toml", out=tmp_path / "out").path)
    metrics = run_metrics(store)
    assert metrics.filter(pl.col("direction") != direction)["jain"].null_count() == 2
    loaded = metrics.filter(pl.col("direction") == direction)
    if len(names) == 1:
        assert loaded["jain"].null_count() == loaded.height
        assert metrics["convergence_s"].null_count() == metrics.height
        assert metrics["convergence_reason"].null_count() == metrics.height
    else:
        for _, run in loaded.group_by("run"):
            rates = run.filter(pl.col("flow") != "call")["goodput_bit_s"].to_list()
            expected = sum(rates) ** 2 / (2 * sum(rate**2 for rate in rates))
            assert run["jain"].to_list() == pytest.approx([expected] * 3)
    text = findings(FigureContext(store))
    assert f"call's {direction}link mean opinion score" in text
