"""``bentpipe verify`` where the graph changes and where nodes hold: nothing in sound runs, something in false ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from every_stage import STAGES
from traced_runs import QUIC, TCP, judged, made, scenario, segment, spec_of, transmit

Tables = dict[str, pl.DataFrame]

AT = 1_200_000_000


def handed_over(policy: str, flow: dict[str, Any], *, first: dict[str, Any] | None = None) -> dict[str, Any]:
    """A client at two satellites: it changes from the far to the near one at ``AT``, and has none for 150 ms after 2 s.
    Later the route over the far one is set by hand. ``first`` is what is before the delay of the client's links."""
    spec = spec_of(scenario(segment(), flows=(flow,)))
    hosts = {spec["flows"][0][side]: "host" for side in ("client", "server")}
    client, server = hosts
    kinds = {**hosts, "far": "router", "near": "router"}
    first = first or transmit()

    def link(name: str, start: str, end: str, *stages: dict[str, Any]) -> dict[str, Any]:
        both = {"up": [*stages], "down": [*stages]}
        return {"name": name, "client_side": start, "server_side": end, **both}

    def uses(**links: bool) -> list[dict[str, Any]]:
        return [{"link": link, "enabled": used} for link, used in links.items()]

    def stage(line: str, number: int, kind: str, **change: Any) -> dict[str, Any]:
        return {"simplex_link": line, "stage": number, "update": {"kind": kind, **change}}

    def way(node: str, to: str, way: Any) -> dict[str, Any]:
        return {"node": node, "to": to, "route": way}

    ways = ("one.up", "one.down")
    queues = ("one.up", "two.up") if first["kind"] == "transmit" else ()
    limit = {"packets": 15}
    changes = [
        {"at_ns": 0, "links": uses(two=False)},
        {
            "at_ns": AT,
            "links": uses(one=False, two=True),
            "stages": [
                *(stage(line, 1, "in_flight", policy=policy) for line in ways),
                *(stage(line, 1, "delay", delay_ns=8_000_000) for line in ways),
                *(stage(line, 0, "rate", rate_bit_s=6_000_000) for line in ("two.up", "two.down")),
                *(stage(line, 0, "limit", limit=limit) for line in queues),
                *(stage(line, 0, "in_flight", policy="drop") for line in queues if policy == "drop"),
            ],
        },
        {"at_ns": 2_000_000_000, "links": uses(two=False)},
        {
            "at_ns": 2_150_000_000,
            "links": uses(one=True, two=True),
            "routes": [way(client, server, {"link": "two"})],
        },
        {
            "at_ns": 2_500_000_000,
            "routes": [way(server, client, {"link": "three"}), way("near", server, "no_route")],
        },
        {
            "at_ns": 2_520_000_000,
            "routes": [way("near", server, "shortest"), way(client, server, {"link": "one"})],
        },
        {"at_ns": 2_700_000_000, "stages": [stage("one.up", 1, "in_flight", policy="in_order")]},
    ]
    access = (first, {"kind": "delay", "delay_ns": 30_000_000})
    links = [
        link("one", client, "far", *access),
        link("two", client, "near", first, {"kind": "delay", "delay_ns": 10_000_000}),
        link("three", "far", server, {"kind": "delay", "delay_ns": 5_000_000}),
        link("four", "near", server, {"kind": "delay", "delay_ns": 5_000_000}),
    ]
    nodes = [{"name": name, "kind": kind} for name, kind in kinds.items()]
    return {**spec, "graph": {"nodes": nodes, "links": links, "changes": changes}}


@pytest.mark.parametrize("flow", [QUIC, TCP], ids=["quic", "tcp"])
@pytest.mark.parametrize("policy", ["in_order", "reorder", "drop"])
def test_nothing_is_found_in_a_hand_over(policy: str, flow: dict[str, Any], tmp_path: Path) -> None:
    spec = handed_over(policy, flow)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    drops = set(tables["packets"]["dropped"].unique())
    assert {"near: no_route", "one.up: outage"} & drops == ({"one.up: outage"} if policy == "drop" else set())
    assert any(drop.endswith(": no_route") for drop in drops)
    crossed = tables["packet_steps"].group_by("link").len()
    assert dict(crossed.iter_rows())["four.up"] > 100


@pytest.mark.parametrize("name", ["drop-head", "codel", "fq-codel", "netem"])
def test_nothing_is_found_in_a_hand_over_of_other_queues(name: str, tmp_path: Path) -> None:
    spec = handed_over("drop", TCP, first=STAGES[name][0])
    assert not judged(tmp_path, spec, made(spec))


def test_a_hand_over_that_was_not_is_found(tmp_path: Path) -> None:
    spec = handed_over("drop", TCP)
    tables = made(spec)

    def found(change: Callable[[list[dict[str, Any]]], None]) -> set[str]:
        """Return the findings with another specification."""
        asked = json.loads(json.dumps(spec))
        change(asked["graph"]["changes"])
        return {finding.rule for finding in judged(tmp_path, asked, tables)}

    def later(changes: list[dict[str, Any]]) -> None:
        changes[1]["at_ns"] += 100_000_000

    def without(key: str) -> Callable[[list[dict[str, Any]]], None]:
        return lambda changes: changes[1].pop(key)

    def keeping(changes: list[dict[str, Any]]) -> None:
        saved = [one for one in changes[1]["stages"] if one["update"]["kind"] != "in_flight"]
        changes[1]["stages"] = saved

    def with_a_way(changes: list[dict[str, Any]]) -> None:
        changes[2]["links"] = []

    assert {"valid route", "handover"} <= found(later)
    assert "valid route" in found(without("links"))
    assert {"drop cause", "minimum delay"} <= found(without("stages"))
    assert "drop cause" in found(keeping)
    assert "byte conservation" in found(with_a_way), "nothing was sent where a way led on"


# --- nodes that hold -------------------------------------------------------------------------------------------------


def holding(flow: dict[str, Any], **sizes: int) -> dict[str, Any]:
    """The handover, with nodes that buffer so many bytes."""
    spec = handed_over("in_order", flow)
    for node in spec["graph"]["nodes"]:
        if node["name"] in sizes:
            node["store_and_forward_bytes"] = sizes[node["name"]]
    return spec


HELD = holding(TCP, client=8_000, far=12_000, near=30_000)


@pytest.mark.parametrize("flow", [QUIC, TCP], ids=["quic", "tcp"])
def test_nothing_is_found_where_nodes_hold(flow: dict[str, Any], tmp_path: Path) -> None:
    spec = holding(flow, client=8_000, far=12_000, near=30_000)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    rows = tables["node_buffers"].filter(pl.col("time_s") == tables["node_buffers"]["time_s"].max())
    by_node = {row["node"]: row for row in rows.iter_rows(named=True)}
    for row in by_node.values():
        gone = row["released_bytes"] + row["dropped_overflow_bytes"]
        assert row["buffered_bytes"] == row["arrived_bytes"] - gone
        assert row["released_packets"] > 0
    assert by_node["client"]["dropped_overflow_packets"] > 0
    assert not any(drop.endswith(": no_route") for drop in tables["packets"]["dropped"].unique())


def held_in(tables: Tables, node: str, **where: Any) -> pl.Expr:
    """Return the step of the first packet that left ``node``."""
    rows = tables["packet_steps"].filter(pl.col("link") == node, pl.col("stage") == 1)
    is_it = (pl.col("link") == node) & (pl.col("packet") == int(rows["packet"][0]))
    for column, value in where.items():
        is_it &= pl.col(column) == value
    return is_it


def steps(tables: Tables, is_it: pl.Expr, **values: Any) -> Tables:
    """Other values of some steps."""
    changed = [
        pl.when(is_it).then(value).otherwise(pl.col(name)).alias(name) for name, value in values.items()
    ]
    return {**tables, "packet_steps": tables["packet_steps"].with_columns(changed)}


def swapped(tables: Tables, node: str) -> Tables:
    """Two packets that left together, in reverse order."""
    rows = tables["packet_steps"].filter(pl.col("link") == node, pl.col("stage") == 1)
    rows = rows.join(tables["packets"].select("packet", "to_node"), on="packet")
    together = rows.group_by("at_ns", "to_node", maintain_order=True).agg("step")
    first, second = next(steps for steps in together["step"].to_list() if len(steps) > 1)[:2]
    step = pl.when(pl.col("step") == first).then(second).when(pl.col("step") == second).then(first)
    return {
        **tables,
        "packet_steps": tables["packet_steps"].with_columns(step=step.otherwise(pl.col("step"))),
    }


def let_into(tables: Tables, node: str) -> Tables:
    """A packet dropped at a full queue waits for ever."""
    rows = tables["packet_steps"]
    packet = int(rows.filter((rows["link"] == node) & (rows["dropped"] == "overflow"))["packet"][0])
    gone = (pl.col("packet") == packet) & (pl.col("dropped") == "overflow")
    return {**tables, "packet_steps": rows.filter(~gone)}


FALSE_HOLDS: dict[str, tuple[Callable[[Tables], Tables], str]] = {
    "too early": (
        lambda t: steps(t, held_in(t, "near", stage=1), at_ns=pl.col("at_ns") - 1),
        "store and forward",
    ),
    "another order": (
        lambda t: swapped(t, "near"),
        "packet order",
    ),
    "another cause": (
        lambda t: steps(
            t, pl.col("link").eq("client") & pl.col("dropped").eq("overflow"), dropped=pl.lit("aqm")
        ),
        "drop cause",
    ),
    "more than it holds": (lambda t: let_into(t, "client"), "queue limit"),
    "a node's counter": (
        lambda t: {**t, "node_buffers": t["node_buffers"].with_columns(pl.col("released_bytes") + 1)},
        "counters",
    ),
}


@pytest.mark.parametrize("name", FALSE_HOLDS)
def test_a_false_hold_is_caught(name: str, tmp_path: Path) -> None:
    falsify, rule = FALSE_HOLDS[name]
    tables = made(HELD)
    assert not judged(tmp_path, HELD, tables)
    assert rule in {one.rule for one in judged(tmp_path, HELD, falsify(tables))}


def test_a_hold_that_was_not_is_found(tmp_path: Path) -> None:
    def found(ran: dict[str, Any], message: dict[str, Any]) -> set[str]:
        return {one.rule for one in judged(tmp_path, message, made(ran))}

    none = handed_over("in_order", TCP)
    assert {"store and forward", "byte conservation"} <= found(none, HELD)
    assert "known link" in found(HELD, none)
    assert "unnecessary drop" in found(HELD, holding(TCP, client=10**6, far=12_000, near=30_000))
    assert "valid route" in found(HELD, holding(TCP, client=8_000, near=30_000))
