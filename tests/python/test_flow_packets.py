"""Figures of traced flows: sequence numbers, flight, queueing delay and losses of each packet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import bentpipe
from bentpipe.figures.flow_packets import data_packets, flight
from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.report.store_page import write_report
from bentpipe.store.reader import open_store

if TYPE_CHECKING:
    from pathlib import Path

KEYS = ("flow-time-sequence", "flow-flight", "flow-queueing")
RATE, QUEUE, DELAY_S = 8e6, 40, 0.025

SEGMENT = {
    "name": "sky",
    "delay": "25 ms",
    "both": {"rate": "8 Mbit/s", "queue": "40 packets"},
}
FLOW = {"name": "bulk", "congestion": "cubic", "direction": "down", "transport": "tcp"}
SCENARIO: dict[str, Any] = {
    "title": "traced",
    "duration": "4 s",
    "trace": {"packets": True},
    "path": {"segment": [SEGMENT]},
    "flow": [FLOW],
}


def _run(place: Path, **changes: Any) -> FigureContext:
    bentpipe.run({**SCENARIO, **changes}, jobs=1, out=place)
    return FigureContext(open_store(place))


@pytest.fixture(scope="module")
def tcp(tmp_path_factory: pytest.TempPathFactory) -> FigureContext:
    return _run(tmp_path_factory.mktemp("tcp") / "store")


def test_packets_are_those_of_the_store(tcp: FigureContext) -> None:
    """Bytes and losses are conserved, and the delay above the smallest is that of a full queue at most."""
    packets = data_packets(tcp)
    table = tcp.store.rows("packets").filter(
        (pl.col("payload_bytes") > 0) & (pl.col("from_node") == "server")
    )
    assert packets.height == table.height > 1000
    assert packets["payload_bytes"].sum() == table["payload_bytes"].sum()
    [links] = tcp.store.rows("link_summary").filter(pl.col("link") == "sky.down").to_dicts()
    lost = packets.filter(pl.col("dropped") != "")
    assert set(lost["dropped"]) == {"sky.down: overflow"}
    assert lost.height == links["dropped_overflow_packets"] > 0
    fresh = packets.filter(pl.col("retransmission") == 0)["bytes"]
    assert fresh.is_sorted()
    assert set(packets.filter(pl.col("retransmission") == 1)["bytes"]) <= set(fresh)
    longest_ms = 1e3 * (QUEUE + 2) * 1500 * 8 / RATE
    waits = packets["wait_ms"].drop_nulls()
    assert waits.min() == 0
    assert 0.8 * longest_ms < waits.max() <= longest_ms  # type: ignore[operator]


def test_the_flight_ends_empty_and_fits_path_and_queue(tcp: FigureContext) -> None:
    packets = data_packets(tcp)
    rows = flight(packets)
    arrived = packets.filter(pl.col("received_s").is_not_null())
    assert rows.height == 2 * arrived.height
    assert abs(rows["y"].to_list()[-1]) < 1
    assert rows["y"].min() >= 0  # type: ignore[operator]
    room = RATE / 8 * DELAY_S + (QUEUE + 2) * 1500
    assert 0.7 * room < rows["y"].max() <= room  # type: ignore[operator]


@pytest.mark.parametrize("key", KEYS)
def test_each_figure_marks_every_loss(tcp: FigureContext, key: str) -> None:
    figure = FIGURES[key](tcp)
    assert figure is not None
    lost = data_packets(tcp).filter(pl.col("dropped") != "").height
    assert f"Lost: {lost} of " in figure.caption
    assert f"{lost} (sky.down: overflow)" in figure.caption
    data = json.dumps(figure.whole())
    assert data.count(",lost,") == lost
    assert figure.rows <= 2000


def test_a_time_range_and_a_quic_flow(tmp_path: Path) -> None:
    swept = {"flow.bulk.congestion": ["cubic", "newreno"]}
    context = _run(tmp_path / "quic", flow=[{**FLOW, "transport": "quic"}], sweep=swept)
    packets = data_packets(context)
    assert packets["run"].n_unique() == 2
    assert packets.group_by("run").agg(pl.col("bytes").max() == pl.col("payload_bytes").sum())["bytes"].all()
    figure = FIGURES["flow-time-sequence"](context)
    assert figure is not None
    assert figure.caption.startswith("Payload sent so far of each data packet")
    part = FigureContext(context.store, (1.0, 2.0))
    drawn = FIGURES["flow-queueing"](part)
    assert drawn is not None
    assert 0 < drawn.rows < figure.rows


def test_split_and_several_flows(tmp_path: Path) -> None:
    far = {"name": "far", "delay": "5 ms"}
    path = {"segment": [SEGMENT, far], "proxy": [{"name": "pep", "between": ["sky", "far"]}]}
    context = _run(
        tmp_path / "split",
        path=path,
        flow=[FLOW, {"name": "call", "transport": "udp", "load": {"call": "g711"}}],
    )
    packets = data_packets(context)
    by_flow = {flow: rows for (flow,), rows in packets.group_by("flow")}
    assert set(by_flow) == {"bulk", "call"}
    assert set(by_flow["bulk"].select("from_node", "to_node").unique().row(0)) == {"pep", "client"}
    assert set(by_flow["call"]["direction"]) == {"up", "down"}
    figure = FIGURES["flow-flight"](context)
    assert figure is not None
    assert "The figure shows bulk from pep to client." in figure.caption


def test_only_traced_flows_without_pages(tmp_path: Path) -> None:
    page = {"name": "page", "congestion": "cubic", "load": {"page": "almanac-2019-light"}}
    context = _run(tmp_path / "page", flow=[page])
    assert [FIGURES[key](context) for key in KEYS] == [None] * 3
    plain = _run(tmp_path / "plain", trace={})
    assert [FIGURES[key](plain) for key in KEYS] == [None] * 3


def test_the_report_has_them(tcp: FigureContext, tmp_path: Path) -> None:
    page = write_report(tcp.store, tmp_path / "page.html").read_text()
    for title in ("Time-sequence graph of flows", "Bytes in flight", "Queueing delay of packets"):
        assert title in page
