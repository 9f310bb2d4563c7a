"""``bentpipe verify`` of bundles: nothing to find in any run of bundle nodes, and something in every kind of false one."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from bentpipe.store.files import StoreError
from bentpipe.store.reader import Store
from bentpipe.trace_check import bundle_findings, verify
from commands import bentpipe
from traced_runs import made, spec_of

if TYPE_CHECKING:
    from pathlib import Path

Tables = dict[str, pl.DataFrame]
Spec = dict[str, Any]


def links(layer: str, words: str) -> str:
    """Nodes 1, 3 and 6 at the corners; the direct hop is dark from 3 to 6 s by the plan."""
    transport = "tcp" if layer in ("tcpcl", "mtcp") else "quic"
    text = 'duration = "9 s"\n[graph]\nnode = ["one", "relay", "six"]\n'
    for name, ends in (("direct", "one six"), ("first", "one relay"), ("second", "relay six")):
        client, server = ends.split()
        dark = ', outages = [{ at = "3 s", duration = "3 s" }]' if name == "direct" else ""
        text += f'[[graph.link]]\nname = "{name}"\nclient_side = "{client}"\nserver_side = "{server}"\n'
        text += f'delay = "20 ms"\nboth = {{ rate = "8 Mbit/s"{dark} }}\n'
        both = [(client, server), (server, client)] if layer == "mtcp" else [(client, server)]
        for there, back in both:
            way = f'layer = "{layer}"' + (', connections = "each"' if layer == "mtcp" else "")
            own = f', dtnperf = "{words}"' if (there, back) == ("one", "six") else ""
            text += f'[[flow]]\nname = "{there}-{back}"\nclient = "{there}"\nserver = "{back}"\n'
            text += (
                f'transport = "{transport}"\ncongestion = "cubic"\nload = {{ bundles = {{ {way}{own} }} }}\n'
            )
    return text


PLAN = """
[dtn]
contact = [
  { from = "one", to = "six", stop = "3 s", rate = "8 Mbit/s", owlt = "20 ms", both = true },
  { from = "one", to = "six", start = "6 s", stop = "60 s", rate = "8 Mbit/s", owlt = "20 ms", both = true },
  { from = "one", to = "relay", stop = "60 s", rate = "8 Mbit/s", owlt = "20 ms", both = true },
  { from = "relay", to = "six", stop = "60 s", rate = "8 Mbit/s", owlt = "20 ms", both = true },
]
"""
SIGNED = """node = [
  { name = "one", integrity = { sign = "k" } },
  { name = "six", integrity = { sign = "l", check = { one = "k" }, others = "delete" } },
  { name = "relay", integrity = { check = { one = "k" }, at = "every-hop" } },
]
"""
STORES = 'node = [{ name = "one", store = "2 MB" }, { name = "relay", store = "500 kB" }]\n'
STOPS = """node = [
  { name = "one", outages = [{ at = "2 s", duration = "300 ms" }] },
  { name = "relay", store_delay = "20 ms", outages = [{ at = "4.5 s", duration = "1 s", store = "lost" }] },
]
"""
REPORTS = "-C -f -r --del"

RUNS = {
    "a window": links("quiccl", f"-W 8 -P 100k {REPORTS}") + PLAN,
    "a rate": links("quiccl-each", f"-R 6M -P 150k -T 6 {REPORTS}") + PLAN,
    "stops": links("quiccl", "-R 6M -P 150k -T 7") + PLAN + STOPS,
    "fragments": links("qubicle", f"-W 3 -P 1M {REPORTS}") + PLAN,
    "short lives": links("tcpcl", f"-W 20 -P 300k -l 2 {REPORTS}") + PLAN,
    "small stores": links("quiccl", f"-W 30 -P 90k -l 4 {REPORTS}") + PLAN + STORES,
    "signed": links("quiccl", f"-W 8 -P 100k {REPORTS}") + PLAN + SIGNED,
    "a wrong key": links("quiccl", f"-W 8 -P 100k -l 2 {REPORTS}") + PLAN + SIGNED.replace('sign = "k"', 'sign = "m"'),
    "all ways": links("qubicle", f"-W 6 -P 100k --critical {REPORTS}") + PLAN + STORES,
    "so much": links("mtcp", "-W 4 -P 300k -D 2M") + PLAN,
    "no plan": links("quiccl", "-W 4 -P 100k -N"),
    "lossy": links("quiccl", "-W 8 -P 100k").replace('rate = "8 Mbit/s"', 'rate = "8 Mbit/s", loss = "2 %"') + PLAN,
}  # fmt: skip


def spec(text: str) -> Spec:
    return spec_of(tomllib.loads(text))


def rules(spec: Spec, tables: Tables) -> set[str]:
    return {one.rule for one in bundle_findings(spec, tables)}


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_found_in_a_sound_run(name: str) -> None:
    asked = spec(RUNS[name])
    tables = made(asked)
    assert list(bundle_findings(asked, tables)) == []
    events = set(tables["bundles"]["event"].unique())
    assert ("failed security operation" in tables["bundles"]["reason"]) == (name == "a wrong key")
    if name == "a wrong key":
        return
    assert {"delivered", "forwarded", "sent" if name in ("a rate", "stops") else "acknowledged"} <= events
    reasons = set(tables["bundles"]["reason"].unique())
    assert ("lifetime expired" in reasons) >= (name == "short lives")
    assert ("depleted storage" in reasons) >= (name == "small stores")
    assert ({"fragmented", "fragment_merged"} <= events) >= (name == "fragments")


# --- false runs -------------------------------------------------------------------------------------------------------

BASES = ("a wrong key", "a window", "a rate", "stops", "fragments", "short lives", "small stores")


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[Spec, Tables]]:
    asked = {name: spec(RUNS[name]) for name in BASES}
    return {name: (one, made(one)) for name, one in asked.items()}


def nth(tables: Tables, number: int = 5, *, table: str = "bundles", **where: Any) -> pl.Expr:
    """The row of that number among those that have these values."""
    rows = tables[table].with_row_index("__row")
    for column, value in where.items():
        rows = rows.filter(pl.col(column) == value)
    return pl.int_range(pl.len()) == int(rows["__row"][number])


def without(tables: Tables, *, table: str = "bundles", number: int = 5, **where: Any) -> Tables:
    is_it = nth(tables, number, table=table, **where)
    return {**tables, table: tables[table].filter(~is_it)}


def twice(tables: Tables, **where: Any) -> Tables:
    """An event happens again, a nanosecond before the run ends."""
    again = tables["bundles"].filter(nth(tables, **where)).with_columns(time_s=pl.lit(8.999999999))
    return {**tables, "bundles": pl.concat([tables["bundles"], again]).sort("time_s", maintain_order=True)}


def with_(
    tables: Tables, values: dict[str, Any], *, table: str = "bundles", number: int = 5, **where: Any
) -> Tables:
    is_it = nth(tables, number, table=table, **where)
    columns = [
        pl.when(is_it).then(value).otherwise(pl.col(name)).alias(name) for name, value in values.items()
    ]
    rows = tables[table].with_columns(columns)
    return {**tables, table: rows.sort("time_s", maintain_order=True) if "time_s" in values else rows}


DATA = {"kind": "data"}
FROM_ONE = {"node": "one", **DATA}

FALSE: dict[str, tuple[str, Callable[[Tables], Tables], str]] = {
    "a bundle vanishes": (
        "a window", lambda t: without(t, event="delivered", **DATA), "bundle conservation"),
    "a bundle vanishes at the relay": (
        "a window", lambda t: without(t, event="forwarded", node="relay"), "bundle conservation"),
    "it is stored no more": (
        "small stores", lambda t: without(t, table="bundle_store", number=0, node="one"), "bundle conservation"),
    "what is stored never came": (
        "small stores",
        lambda t: with_(t, {"sequence": 99_999}, table="bundle_store", number=0, node="one"),
        "bundle conservation"),
    "it came at another time": (
        "small stores", lambda t: with_(t, {"received_s": 1.5}, table="bundle_store", number=0, node="one"), "bundle conservation"),
    "it is deleted without a reason": (
        "short lives", lambda t: with_(t, {"reason": pl.lit("")}, event="deleted"), "deletion reason"),
    "it is lost by a stop that is none": (
        "stops",
        lambda t: with_(t, {"time_s": pl.col("time_s") + 0.1}, number=0, reason="the node stopped"),
        "node outage"),
    "a node works while it is stopped": (
        "stops",
        lambda t: with_(t, {"time_s": pl.lit(4.7)}, event="received", node="relay", number=3),
        "node outage"),
    "a destination delivers twice": (
        "a window", lambda t: twice(t, event="delivered", **DATA), "single delivery"),
    "another node delivers": (
        "a window", lambda t: with_(t, {"node": pl.lit("relay")}, event="delivered", **DATA), "single delivery"),
    "a copy is forwarded twice": (
        "a window", lambda t: twice(t, event="forwarded", **FROM_ONE), "forwarding order"),
    "what is gone is sent": (
        "a window", lambda t: twice(t, event="sent", **FROM_ONE), "one copy per node"),
    "it moves before it was generated": (
        "a window", lambda t: with_(t, {"time_s": pl.col("time_s") + 2}, number=20, event="generated", **DATA),
        "bundle origin"),
    "it was never generated": (
        "a window", lambda t: without(t, event="generated", **DATA), "bundle origin"),
    "it comes sooner than light": (
        "a window", lambda t: with_(t, {"time_s": pl.col("time_s") - 0.9}, number=60, event="received", **DATA),
        "transfer time"),
    "it comes unsent": (
        "a window", lambda t: without(t, event="sent", number=20, **FROM_ONE), "transfer time"),
    "who is said to have it has it not": (
        "a window", lambda t: without(t, event="received", node="six", **DATA), "forwarded bundles"),
    "it is sent without a decision": (
        "a window", lambda t: without(t, table="bundle_routes", number=20, node="one"), "routing decisions"),
    "it is sent to another": (
        "a window", lambda t: with_(t, {"next": pl.lit("nobody")}, table="bundle_routes", node="one"), "planned routes"),
    "a route by no contact": (
        "a window", lambda t: with_(t, {"contacts": pl.lit("contact[9]")}, table="bundle_routes"), "planned routes"),
    "a route quicker than light": (
        "a window", lambda t: with_(t, {"arrival_s": pl.col("time_s") + 0.001}, table="bundle_routes"),
        "planned routes"),
    "a fragment loses a byte": (
        "fragments", lambda t: with_(t, {"payload_bytes": pl.col("payload_bytes") - 1}, number=0, event="fragment_created"),
        "fragmentation"),
    "a fragment lies elsewhere": (
        "fragments", lambda t: with_(t, {"offset_bytes": pl.col("offset_bytes") + 1}, number=0, event="fragment_merged"),
        "fragmentation"),
    "a part is missing": ("fragments", lambda t: without(t, number=1, event="fragment_merged"), "fragmentation"),
    "a bundle grows": (
        "a window", lambda t: with_(t, {"payload_bytes": pl.col("payload_bytes") + 1}, event="delivered", **DATA),
        "fragmentation"),
    "an acknowledgement is forgotten": (
        "a window", lambda t: without(t, event="acknowledged"), "acknowledgements"),
    "more bytes are acknowledged": (
        "a window", lambda t: with_(t, {"payload_bytes": pl.col("payload_bytes") + 1}, event="acknowledged"),
        "acknowledgements"),
    "it is acknowledged before it came": (
        "a window", lambda t: with_(t, {"time_s": pl.col("time_s") - 0.05}, event="acknowledged"),
        "acknowledgements"),
    "a report of another time": (
        "a window", lambda t: with_(t, {"delivered_ms": pl.col("delivered_ms") + 5}, table="bundle_status_reports", number=-1),
        "status reports"),
    "a report of another reason": (
        "short lives", lambda t: {**t, "bundle_status_reports": t["bundle_status_reports"].with_columns(reason=pl.lit(6))}, "status reports"),
    "a wrong signature is delivered": (
        "a wrong key", lambda t: with_(t, {"event": pl.lit("delivered"), "reason": pl.lit("")}, reason="failed security operation"),
        "bundle integrity"),
    "it is deleted for another reason": (
        "a wrong key", lambda t: with_(t, {"reason": pl.lit("missing security operation")}, reason="failed security operation"),
        "bundle integrity"),
    "a right signature is refused": (
        "a window", lambda t: with_(t, {"event": pl.lit("deleted"), "reason": pl.lit("failed security operation")},
                                  event="delivered", node="six"),
        "bundle integrity"),
    "an event that nobody knows": (
        "a window", lambda t: with_(t, {"event": pl.lit("beamed")}, event="sent"), "known events"),
    "time runs backwards": (
        "a window", lambda t: {**t, "bundles": t["bundles"].reverse()}, "time order"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_a_false_run_is_caught(name: str, runs: dict[str, tuple[Spec, Tables]]) -> None:
    base, falsify, rule = FALSE[name]
    asked, tables = runs[base]
    false = falsify(tables)
    assert any(not false[table].equals(tables[table]) for table in tables)
    assert rule in rules(asked, false)


def changed(asked: Spec, **perf: Any) -> Spec:
    found = copy.deepcopy(asked)
    found["dtn"]["perf"][0].update(perf)
    return found


def closing(asked: Spec, at: int) -> Spec:
    """The same, with contacts that end at ``at``."""
    found = copy.deepcopy(asked)
    for one in found["dtn"]["plan"]["contacts"]:
        one["stop_ns"] = min(one["stop_ns"], at)
    found["dtn"]["plan"]["contacts"] = [
        one for one in found["dtn"]["plan"]["contacts"] if one["start_ns"] < one["stop_ns"]
    ]
    return found


def storing(asked: Spec, bytes_: int) -> Spec:
    found = copy.deepcopy(asked)
    for node in found["dtn"]["nodes"]:
        node["store_bytes"] = bytes_
    return found


def slower(asked: Spec, **stages: int) -> Spec:
    found = copy.deepcopy(asked)
    for link in found["graph"]["links"]:
        for stage in (*link["up"], *link["down"]):
            if stage["kind"] == "delay" and "delay_ns" in stages:
                stage["delay_ns"] = stages["delay_ns"]
            elif stage["kind"] == "transmit" and "rate_bit_s" in stages:
                stage["service"]["rate_bit_s"] = stages["rate_bit_s"]
    return found


ASKED: dict[str, tuple[str, Callable[[Spec], Spec], str]] = {
    "contacts that end": ("a window", lambda s: closing(s, 2 * 10**9), "contacts"),
    "longer links": ("a window", lambda s: slower(s, delay_ns=80_000_000), "transfer time"),
    "slower links": ("a window", lambda s: slower(s, rate_bit_s=4_000_000), "transfer time"),
    "a smaller store": ("small stores", lambda s: storing(s, 300_000), "storage limit"),
    "a larger store": ("small stores", lambda s: storing(s, 30_000_000), "unnecessary refusal"),
    "a longer life": ("short lives", lambda s: changed(s, lifetime_ns=9 * 10**9), "bundle lifetime"),
    "a shorter life": ("short lives", lambda s: changed(s, lifetime_ns=10**9), "bundle lifetime"),
    "a smaller window": (
        "a window", lambda s: changed(s, pace={"kind": "window", "bundles": 7}), "client window"),
    "another rate": (
        "a rate", lambda s: changed(s, pace={"kind": "rate", "bit_s": 5_900_000}), "client rate"),
    "so much": (
        "a window", lambda s: changed(s, amount={"kind": "data", "bytes": 10**6}), "client load"),
    "so long": (
        "a rate", lambda s: changed(s, amount={"kind": "time", "duration_ns": 10**9}),
        "client load"),
    "no reports": (
        "a window", lambda s: changed(s, reports=dict.fromkeys(s["dtn"]["perf"][0]["reports"], False)),
        "status reports"),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_run_of_something_else_is_caught(name: str, runs: dict[str, tuple[Spec, Tables]]) -> None:
    base, change, rule = ASKED[name]
    asked, tables = runs[base]
    assert rule in rules(change(asked), tables)


def test_the_command_follows_bundles_without_steps(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(RUNS["so much"])
    assert bentpipe(tmp_path, "run", "s.toml", "--out", "out").returncode == 0
    done = bentpipe(tmp_path, "verify", "out")
    assert (done.returncode, "events of bundles: nothing found" in done.stdout) == (0, True), done.stdout
    [message] = json.loads(bentpipe(tmp_path, "verify", "out", "--json").stdout)
    assert message["findings"] == []
    assert message["bundle_events"] > 50
    real = Store(tmp_path / "out")
    real.engine += "-emu"
    with pytest.raises(StoreError, match="bundle nodes in emulation"):
        list(verify(real))
