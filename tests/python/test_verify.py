"""``bentpipe verify``: nothing to find in any kind of run, and something in every kind of false one."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from bentpipe.cli import app
from bentpipe.plan.document import open_document
from bentpipe.plan.runs import make
from bentpipe.runners import engine
from mutations import brings_controllers
from traced import (
    DELAY,
    QUIC,
    RATE_10,
    SLOTS,
    SPLIT,
    TCP,
    jitter,
    judged,
    loss,
    made,
    outage,
    points,
    scenario,
    segment,
    spec_of,
    transmit,
    with_stages,
)

CODEL = {"limit": None, "target_ns": 5_000_000, "interval_ns": 100_000_000, "ecn": False}
FQ = {
    "limit_packets": 30,
    "flows": 8,
    "quantum_bytes": 1514,
    "target_ns": 5_000_000,
    "interval_ns": 100_000_000,
}
CHANGES = [
    {"at_ns": 1_000_000_000, "rate_bit_s": 3_000_000},
    {"at_ns": 2_000_000_000, "rate_bit_s": 12_000_000},
]
LOSSES = [{"at_ns": 1_000_000_000, "probability": 0.05}]
DELAYS = [{"at_ns": 1_000_000_000, "delay_ns": 5_000_000}, {"at_ns": 2_000_000_000, "delay_ns": 60_000_000}]

TIMING = {"every_ns": 700_000_000, "phase_ns": 300_000_000, "jitter_ns": 0}
SLOT_DELAY = {
    "kind": "slot_delay", "slots": TIMING, "delay_ns": [10_000_000, 20_000_000, 60_000_000], "jitter_ns": [0, 4_000_000],
    "step_ns": 10_000_000, "correlation": 0.9,
}  # fmt: skip
SLOT_LOSS = loss(
    "slots", slots=TIMING, probability=[0.0, 0.004], burst_probability=0.5, burst_ns=[5_000_000, 40_000_000]
)

STAGES: dict[str, list[dict[str, Any]]] = {
    "rate that changes": [transmit(service={**RATE_10, "changes": CHANGES}), DELAY],
    "packets": [transmit({"kind": "drop_tail", "limit": {"packets": 20}}), DELAY],
    "drop-head": [transmit({"kind": "drop_head", "limit": {"packets": 20}}), DELAY],
    "drop-head by bytes": [transmit({"kind": "drop_head", "limit": {"bytes": 30_000}}), DELAY],
    "delay that changes": [transmit(), {**DELAY, "changes": DELAYS}],
    "codel": [transmit({"kind": "codel", **CODEL}), DELAY],
    "fq-codel": [transmit({"kind": "fq_codel", "ecn": True, **FQ}), DELAY],
    "opportunities": [transmit(service=SLOTS), DELAY],
    "netem": [{"kind": "netem", "rate_bit_s": 10_000_000, "delay_ns": 20_000_000, "limit_packets": 40}],
    "delay trace": [transmit(), points(reorder=False)],
    "delay trace that reorders": [transmit(), points(reorder=True, interpolation="step")],
    "jitter": [transmit(), jitter(False, "uniform", most_ns=3_000_000), DELAY],
    "jitter that reorders": [transmit(), jitter(True, "exponential", mean_ns=1_000_000), DELAY],
    "normal jitter": [transmit(), jitter(False, "normal", mean_ns=5_000_000, deviation_ns=3_000_000), DELAY],
    "slots": [
        transmit(service={"kind": "slots", "slots": TIMING, "rate_bit_s": [4_000_000, 20_000_000]}),
        SLOT_LOSS,
        SLOT_DELAY,
    ],
    "slots whose boundaries jitter": [
        transmit(),
        {**SLOT_DELAY, "slots": {**TIMING, "jitter_ns": 200_000_000}, "jitter_ns": [], "correlation": 0.0},
    ],
    "reordering": [transmit(), {"kind": "reorder", "probability": 0.01, "hold_ns": 4_000_000}, DELAY],
    "loss that changes": [transmit(), {**loss("bernoulli", probability=0.01), "changes": LOSSES}, DELAY],
    "two states": [
        transmit(),
        loss("gilbert_elliott", good_to_bad=0.01, bad_to_good=0.3, loss_good=0.0, loss_bad=0.8),
        DELAY,
    ],
    "bursts": [transmit(), loss("burst", period_ns=900_000_000, length_ns=50_000_000, offset_ns=1), DELAY],
    "listed losses": [transmit(), loss("trace", packets=[3, 50, 51, 52, 300]), DELAY],
    "outage": [outage(hold=False), transmit(), DELAY],
    "outage that holds": [transmit(), outage(hold=True), DELAY],
}

PATHS: dict[str, dict[str, Any]] = {
    "tcp": scenario(segment(queue="1 BDP"), flows=(TCP,)),
    "three hops": scenario(
        segment("a"), segment("b", queue="20 packets", rate="5 Mbit/s"), segment("c", loss="1 %")
    ),
    "split": scenario(segment("a", rate="50 Mbit/s"), segment("b"), flows=(TCP,), proxy=SPLIT),
    "both transports": scenario(segment(queue="1 BDP"), flows=(QUIC, TCP, {**TCP, "congestion": "bbr"})),
    "a page": scenario(
        segment(), flows=({**QUIC, "load": {"page": "almanac-2019-light", "http": "alt-svc"}},)
    ),
    "arrivals": scenario(
        segment(), flows=({**TCP, "load": {"poisson": {"every": "50 ms", "size": "20 kB"}}},)
    ),
    "without limits": scenario(segment(queue="none")),
}


@pytest.mark.parametrize("name", [*PATHS, *STAGES])
def test_nothing_is_found_in_a_sound_run(name: str, tmp_path: Path) -> None:
    spec = spec_of(PATHS.get(name) or scenario(segment()))
    if name in STAGES:
        spec = with_stages(spec, *STAGES[name])
    tables = made(spec)
    assert len(tables["stages"]) > 1000
    assert not judged(tmp_path, spec, tables)


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml")), ids=lambda file: file.stem
)
def test_nothing_is_found_in_the_scenarios(file: Path, tmp_path: Path) -> None:
    shorter = [("trace.stages", True), ("duration", "12 s"), ("seeds", 1)]
    runs = make(open_document(file, shorter), "test", catalogue=engine.catalogue(), orbits=engine.orbit).runs
    for run in (runs[0], runs[-1]):
        spec = json.loads(run.spec_json())
        assert not judged(tmp_path, spec, made(spec)), run.cell


Tables = dict[str, pl.DataFrame]

# --- hand-overs -------------------------------------------------------------------------------------------------------

AT = 1_200_000_000


def handed_over(fate: str, flow: dict[str, Any], *, first: dict[str, Any] | None = None) -> dict[str, Any]:
    """A client at two satellites: at ``AT`` from the far to the near one, and for 150 ms after 2 s at none; later the
    way through the far one is set by hand. ``first`` is what is before the delay of the client's links."""
    spec = spec_of(scenario(segment(), flows=(flow,)))
    hosts = {spec["flows"][0][side]: "host" for side in ("client", "server")}
    client, server = hosts
    kinds = {**hosts, "far": "router", "near": "router"}
    first = first or transmit()

    def link(name: str, start: str, end: str, *stages: dict[str, Any]) -> dict[str, Any]:
        both = {"up": [*stages], "down": [*stages]}
        return {"name": name, "client_side": start, "server_side": end, **both}

    def uses(**links: bool) -> list[dict[str, Any]]:
        return [{"link": link, "in_use": used} for link, used in links.items()]

    def stage(line: str, number: int, kind: str, **change: Any) -> dict[str, Any]:
        return {"line": line, "stage": number, "change": {"kind": kind, **change}}

    def way(node: str, to: str, way: Any) -> dict[str, Any]:
        return {"node": node, "to": to, "way": way}

    ways = ("one.up", "one.down")
    queues = ("one.up", "two.up") if first["kind"] == "transmit" else ()
    limit = {"packets": 15}
    changes = [
        {"at_ns": 0, "links": uses(two=False)},
        {
            "at_ns": AT,
            "links": uses(one=False, two=True),
            "stages": [
                *(stage(line, 1, "in_flight", fate=fate) for line in ways),
                *(stage(line, 1, "delay", delay_ns=8_000_000) for line in ways),
                *(stage(line, 0, "rate", rate_bit_s=6_000_000) for line in ("two.up", "two.down")),
                *(stage(line, 0, "limit", limit=limit) for line in queues),
                *(stage(line, 0, "in_flight", fate="lost") for line in queues if fate == "lost"),
            ],
        },
        {"at_ns": 2_000_000_000, "links": uses(two=False)},
        {
            "at_ns": 2_150_000_000,
            "links": uses(one=True, two=True),
            "ways": [way(client, server, {"link": "two"})],
        },
        {
            "at_ns": 2_500_000_000,
            "ways": [way(server, client, {"link": "three"}), way("near", server, "none")],
        },
        {
            "at_ns": 2_520_000_000,
            "ways": [way("near", server, "shortest"), way(client, server, {"link": "one"})],
        },
        {"at_ns": 2_700_000_000, "stages": [stage("one.up", 1, "in_flight", fate="in_order")]},
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
@pytest.mark.parametrize("fate", ["in_order", "overtaken", "lost"])
def test_nothing_is_found_in_a_hand_over(fate: str, flow: dict[str, Any], tmp_path: Path) -> None:
    spec = handed_over(fate, flow)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    drops = set(tables["packets"]["dropped"].unique())
    assert {"near: route", "one.up: outage"} & drops == ({"one.up: outage"} if fate == "lost" else set())
    assert any(drop.endswith(": route") for drop in drops)
    crossed = tables["stages"].group_by("link").len()
    assert dict(crossed.iter_rows())["four.up"] > 100


@pytest.mark.parametrize("name", ["drop-head", "codel", "fq-codel", "netem"])
def test_nothing_is_found_in_a_hand_over_of_other_queues(name: str, tmp_path: Path) -> None:
    spec = handed_over("lost", TCP, first=STAGES[name][0])
    assert not judged(tmp_path, spec, made(spec))


def test_a_hand_over_that_was_not_is_found(tmp_path: Path) -> None:
    spec = handed_over("lost", TCP)
    tables = made(spec)

    def found(change: Callable[[list[dict[str, Any]]], None]) -> set[str]:
        """What is found if something else had been asked for."""
        asked = json.loads(json.dumps(spec))
        change(asked["graph"]["changes"])
        return {finding.rule for finding in judged(tmp_path, asked, tables)}

    def later(changes: list[dict[str, Any]]) -> None:
        changes[1]["at_ns"] += 100_000_000

    def without(key: str) -> Callable[[list[dict[str, Any]]], None]:
        return lambda changes: changes[1].pop(key)

    def keeping(changes: list[dict[str, Any]]) -> None:
        kept = [one for one in changes[1]["stages"] if one["change"]["kind"] != "in_flight"]
        changes[1]["stages"] = kept

    def with_a_way(changes: list[dict[str, Any]]) -> None:
        changes[2]["links"] = []

    assert {"a way that holds", "a hand-over is one event"} <= found(later)
    assert "a way that holds" in found(without("links"))
    assert {"a cause for every drop", "no sooner than the delay"} <= found(without("stages"))
    assert "a cause for every drop" in found(keeping)
    assert "bytes are conserved" in found(with_a_way), "nothing was sent where a way led on"


# --- nodes that hold -------------------------------------------------------------------------------------------------


def holding(flow: dict[str, Any], **sizes: int) -> dict[str, Any]:
    """The hand-over, with nodes that hold so many bytes."""
    spec = handed_over("in_order", flow)
    for node in spec["graph"]["nodes"]:
        if node["name"] in sizes:
            node["hold_bytes"] = sizes[node["name"]]
    return spec


HELD = holding(TCP, client=8_000, far=12_000, near=30_000)


@pytest.mark.parametrize("flow", [QUIC, TCP], ids=["quic", "tcp"])
def test_nothing_is_found_where_nodes_hold(flow: dict[str, Any], tmp_path: Path) -> None:
    spec = holding(flow, client=8_000, far=12_000, near=30_000)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    rows = tables["holds"].filter(pl.col("time_s") == tables["holds"]["time_s"].max())
    by_node = {row["node"]: row for row in rows.iter_rows(named=True)}
    for row in by_node.values():
        gone = row["released_bytes"] + row["dropped_overflow_bytes"]
        assert row["held_bytes"] == row["arrived_bytes"] - gone
        assert row["released_packets"] > 0
    assert by_node["client"]["dropped_overflow_packets"] > 0
    assert not any(drop.endswith(": route") for drop in tables["packets"]["dropped"].unique())


def held_in(tables: Tables, node: str, **where: Any) -> pl.Expr:
    """The step of the first packet that went on from ``node``."""
    rows = tables["stages"].filter(pl.col("link") == node, pl.col("stage") == 1)
    is_it = (pl.col("link") == node) & (pl.col("packet") == int(rows["packet"][0]))
    for column, value in where.items():
        is_it &= pl.col(column) == value
    return is_it


def steps(tables: Tables, is_it: pl.Expr, **values: Any) -> Tables:
    """Other values of some steps."""
    changed = [
        pl.when(is_it).then(value).otherwise(pl.col(name)).alias(name) for name, value in values.items()
    ]
    return {**tables, "stages": tables["stages"].with_columns(changed)}


def swapped(tables: Tables, node: str) -> Tables:
    """Two that went on together, the other way round."""
    rows = tables["stages"].filter(pl.col("link") == node, pl.col("stage") == 1)
    rows = rows.join(tables["packets"].select("packet", "to_node"), on="packet")
    together = rows.group_by("at_ns", "to_node", maintain_order=True).agg("step")
    first, second = next(steps for steps in together["step"].to_list() if len(steps) > 1)[:2]
    step = pl.when(pl.col("step") == first).then(second).when(pl.col("step") == second).then(first)
    return {**tables, "stages": tables["stages"].with_columns(step=step.otherwise(pl.col("step")))}


def let_into(tables: Tables, node: str) -> Tables:
    """Who found no room waits for ever."""
    rows = tables["stages"]
    packet = int(rows.filter((rows["link"] == node) & (rows["dropped"] == "overflow"))["packet"][0])
    gone = (pl.col("packet") == packet) & (pl.col("dropped") == "overflow")
    return {**tables, "stages": rows.filter(~gone)}


FALSE_HOLDS: dict[str, tuple[Callable[[Tables], Tables], str]] = {
    "too early": (
        lambda t: steps(t, held_in(t, "near", stage=1), at_ns=pl.col("at_ns") - 1),
        "held until a way leads on",
    ),
    "another order": (
        lambda t: swapped(t, "near"),
        "the order is kept",
    ),
    "another cause": (
        lambda t: steps(
            t, pl.col("link").eq("client") & pl.col("dropped").eq("overflow"), dropped=pl.lit("aqm")
        ),
        "a cause for every drop",
    ),
    "more than it holds": (lambda t: let_into(t, "client"), "no queue longer than its limit"),
    "a node's counter": (
        lambda t: {**t, "holds": t["holds"].with_columns(pl.col("released_bytes") + 1)},
        "counters count",
    ),
}


@pytest.mark.parametrize("name", FALSE_HOLDS)
def test_a_false_hold_is_caught(name: str, tmp_path: Path) -> None:
    falsify, rule = FALSE_HOLDS[name]
    tables = made(HELD)
    assert not judged(tmp_path, HELD, tables)
    assert rule in {one.rule for one in judged(tmp_path, HELD, falsify(tables))}


def test_a_hold_that_was_not_is_found(tmp_path: Path) -> None:
    def found(ran: dict[str, Any], said: dict[str, Any]) -> set[str]:
        return {one.rule for one in judged(tmp_path, said, made(ran))}

    none = handed_over("in_order", TCP)
    assert {"held until a way leads on", "bytes are conserved"} <= found(none, HELD)
    assert "a place for everything" in found(HELD, none)
    assert "no drop while there is room" in found(HELD, holding(TCP, client=10**6, far=12_000, near=30_000))
    assert "a way that holds" in found(HELD, holding(TCP, client=8_000, near=30_000))


STUDIES = sorted(
    file
    for file in (Path(__file__).parents[2] / "studies").glob("*/*.toml")
    if "[[flow]]" in file.read_text()
    and not file.name.startswith("why")
    and not brings_controllers(file.read_text())
)


def shortened(value: object) -> object:
    """A value of an axis; of a tied one without its duration, which would hold here."""
    if not isinstance(value, dict):
        return value
    return {key: of for key, of in value.items() if key != "duration"}


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_nothing_is_found_in_the_studies(file: Path, tmp_path: Path) -> None:
    later = {
        "late-start": "7 s",
        "congested": "12 s",
        "tcp-split": "1 s",
    }  # the second flow comes; 250 Mbit/s
    shorter = [("trace.stages", True), ("duration", later.get(file.stem, "2 s")), ("seeds", 1)]
    data = tomllib.loads(file.read_text())
    data["sweep"] = {  # its last cell, without planning the thousands before it
        key: [shortened(values[-1])] if isinstance(values, list) else values
        for key, values in data.get("sweep", {}).items()
    }
    document = replace(open_document(data, shorter), folder=file.parent)
    run = make(document, "test", catalogue=engine.catalogue(), orbits=engine.orbit).runs[-1]
    spec = json.loads(run.spec_json())
    assert not judged(tmp_path, spec, made(spec)), run.cell


# --- false runs ---------------------------------------------------------------------------------------------------------

NARROW = transmit({"kind": "drop_tail", "limit": {"bytes": 10_000}})
FALSE = with_stages(
    spec_of(scenario(segment(), flows=(TCP,))), NARROW, loss("bernoulli", probability=0.003), DELAY
)


@pytest.fixture(scope="module")
def sound() -> Tables:
    return made(FALSE)


def some(tables: Tables) -> int:
    """A packet with data that waited, was served and arrived."""
    rows = tables["stages"].filter(pl.col("link") == "s.up", pl.col("packet") >= 700)
    served = (
        rows.filter(pl.col("stage") <= 1)
        .group_by("packet")
        .agg(pl.col("at_ns").max() - pl.col("at_ns").min())
    )
    arrived = rows.filter(pl.col("stage") == 3)["packet"].implode()
    return int(served.filter(pl.col("at_ns") > 2_000_000, pl.col("packet").is_in(arrived))["packet"].min())


def moved(tables: Tables, stage: int, by: int) -> Tables:
    """A step of a packet, at another time."""
    rows = tables["stages"]
    is_it = (rows["packet"] == some(tables)) & (rows["stage"] == stage)
    assert is_it.sum() == 1
    return {
        **tables,
        "stages": rows.with_columns(at_ns=pl.when(is_it).then(pl.col("at_ns") + by).otherwise("at_ns")),
    }


def changed(tables: Tables, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Tables:
    return {**tables, table: change(tables[table])}


def of_packet(tables: Tables, dropped: str) -> int:
    rows = tables["stages"]
    return int(rows.filter((rows["dropped"] == dropped) & (rows["link"] == "s.up"))["packet"][0])


def without_its_drop(tables: Tables) -> Tables:
    lost = of_packet(tables, "loss")
    return changed(tables, "stages", lambda t: t.filter((t["packet"] != lost) | (t["dropped"] == "")))


def with_another_cause(tables: Tables) -> Tables:
    lost = of_packet(tables, "loss")
    other = (
        pl.when(pl.col("packet") == lost, pl.col("dropped") == "loss")
        .then(pl.lit("outage"))
        .otherwise("dropped")
    )
    return changed(tables, "stages", lambda t: t.with_columns(dropped=other))


def let_in(tables: Tables) -> Tables:
    """Who found no room waits for ever."""
    kept = of_packet(tables, "overflow")
    return changed(tables, "stages", lambda t: t.filter((t["packet"] != kept) | (t["dropped"] == "")))


def one_more(column: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda table: table.with_columns(pl.col(column) + 1)


def on_the_other_link(tables: Tables) -> Tables:
    other = pl.when(pl.col("packet") == some(tables)).then(pl.lit("s.down")).otherwise("link")
    return changed(tables, "stages", lambda t: t.with_columns(link=other))


def without(tables: Tables, *stages: int) -> Tables:
    gone = (pl.col("packet") == some(tables)) & pl.col("stage").is_in(stages)
    return changed(tables, "stages", lambda t: t.filter(~gone))


FALSEHOODS: dict[str, tuple[Callable[[Tables], Tables], str]] = {
    "faster than its rate": (lambda t: moved(moved(t, 1, -900_000), 2, -900_000), "no faster than the rate"),
    "slower than its rate": (
        lambda t: moved(moved(t, 1, 900_000), 2, 900_000),
        "a link works while somebody waits",
    ),
    "sooner than its delay": (lambda t: moved(t, 3, -1000), "no sooner than the delay"),
    "later than its delay": (lambda t: moved(t, 3, 1000), "no sooner than the delay"),
    "back in time": (lambda t: moved(t, 3, -30_000_000), "time passes"),
    "a packet vanishes": (without_its_drop, "bytes are conserved"),
    "a drop without a cause": (with_another_cause, "a cause for every drop"),
    "a longer queue": (let_in, "no queue longer than its limit"),
    "a stage is left out": (lambda t: without(t, 2), "one stage after the other"),
    "another link": (on_the_other_link, "one link after the other"),
    "never seen": (lambda t: without(t, 0, 1, 2, 3), "bytes are conserved"),
    "a link's counter": (lambda t: changed(t, "links", one_more("delivered_bytes")), "counters count"),
    "a link's drops": (
        lambda t: changed(t, "link_summary", one_more("dropped_loss_packets")),
        "counters count",
    ),
    "an end's counter": (lambda t: changed(t, "summary", one_more("sent_bytes")), "counters count"),
    "bytes from nowhere": (
        lambda t: changed(
            t, "summary", lambda s: s.with_columns(received_in_order_bytes=pl.col("sent_bytes") + 10**9)
        ),
        "bytes are conserved",
    ),
    "another arrival": (
        lambda t: changed(t, "packets", lambda s: s.with_columns(received_s=pl.col("received_s") + 1e-6)),
        "bytes are conserved",
    ),
}


@pytest.mark.parametrize("name", FALSEHOODS)
def test_a_false_run_is_caught(name: str, sound: Tables, tmp_path: Path) -> None:
    falsify, rule = FALSEHOODS[name]
    assert not judged(tmp_path, FALSE, sound)
    assert rule in {one.rule for one in judged(tmp_path, FALSE, falsify(sound))}


WRONG_PATHS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = {
    "down": (
        [outage(hold=False), transmit(), DELAY],
        [{**outage(hold=False), "windows": [(100_000_000, 300_000_000)]}, transmit(), DELAY],
        "nothing crosses a link that is down",
    ),
    "down and held": (
        [transmit(), outage(hold=True), DELAY],
        [transmit(), {**outage(hold=True), "windows": [(200_000_000, 400_000_000)]}, DELAY],
        "nothing crosses a link that is down",
    ),
    "more loss": (
        [transmit(), loss("bernoulli", probability=0.05), DELAY],
        [transmit(), loss("bernoulli", probability=0.01), DELAY],
        "losses are the model's",
    ),
    "another list": (
        [transmit(), loss("trace", packets=[10]), DELAY],
        [transmit(), loss("trace", packets=[11]), DELAY],
        "losses are the model's",
    ),
    "room": (
        [transmit(), DELAY],
        [transmit({"kind": "drop_tail", "limit": {"bytes": 80_000}}), DELAY],
        "no drop while there is room",
    ),
    "the front": (
        [transmit({"kind": "drop_tail", "limit": {"packets": 20}}), DELAY],
        STAGES["drop-head"],
        "a full queue drops from the front",
    ),
    "the end": (
        STAGES["drop-head"],
        [transmit({"kind": "drop_tail", "limit": {"packets": 20}}), DELAY],
        "a full queue drops who comes",
    ),
    "room at the front": (
        STAGES["drop-head"],
        [transmit({"kind": "drop_head", "limit": {"packets": 21}}), DELAY],
        "a full queue drops from the front",
    ),
    "another slot": (
        [transmit(), SLOT_DELAY],
        [transmit(), {**SLOT_DELAY, "slots": {**TIMING, "phase_ns": 0}, "jitter_ns": []}],
        "a slot has one delay",
    ),
    "slots that are later": (
        [transmit(), SLOT_DELAY],
        [transmit(), {**SLOT_DELAY, "delay_ns": [90_000_000, 95_000_000]}],
        "no sooner than the delay",
    ),
    "slots that are slower": (
        [transmit(service={"kind": "slots", "slots": TIMING, "rate_bit_s": [9_000_000, 20_000_000]}), DELAY],
        [transmit(service={"kind": "slots", "slots": TIMING, "rate_bit_s": [4_000_000, 8_000_000]}), DELAY],
        "no faster than the rate",
    ),
    "slots that are faster": (
        [transmit(service={"kind": "slots", "slots": TIMING, "rate_bit_s": [4_000_000, 8_000_000]}), DELAY],
        [transmit(service={"kind": "slots", "slots": TIMING, "rate_bit_s": [9_000_000, 20_000_000]}), DELAY],
        "a link works while somebody waits",
    ),
    "slots that lose more": (
        [transmit(), SLOT_LOSS, DELAY],
        [
            transmit(),
            loss("slots", slots=TIMING, probability=[0.05, 0.1], burst_probability=0.0, burst_ns=[]),
            DELAY,
        ],
        "losses are the model's",
    ),
    "codel": (
        [transmit({"kind": "codel", **CODEL}), DELAY],
        [transmit({"kind": "codel", **CODEL, "target_ns": 50_000_000}), DELAY],
        "active queue management by its law",
    ),
    "opportunities": (
        [transmit(service=SLOTS), DELAY],
        [transmit(service={**SLOTS, "slot_bytes": 1000}), DELAY],
        "no faster than the rate",
    ),
    "netem": (
        STAGES["netem"],
        [{**STAGES["netem"][0], "limit_packets": 39}],
        "no queue longer than its limit",
    ),
    "order": (
        [transmit(), jitter(True, "uniform", most_ns=5_000_000), DELAY],
        [transmit(), jitter(False, "uniform", most_ns=5_000_000), DELAY],
        "the order is kept",
    ),
    "an unknown stage": ([transmit(), DELAY], [transmit(), {"kind": "warp"}], "known stages"),
}


@pytest.mark.parametrize("name", WRONG_PATHS)
def test_a_run_of_another_path_is_caught(name: str, tmp_path: Path) -> None:
    ran, said, rule = WRONG_PATHS[name]
    spec = spec_of(scenario(segment()))
    found = judged(tmp_path, with_stages(spec, *said), made(with_stages(spec, *ran)))
    assert rule in {one.rule for one in found}


def test_the_command(tmp_path: Path) -> None:
    file, store = tmp_path / "s.toml", tmp_path / "store"
    file.write_text(
        'duration = "1 s"\n[[path.segment]]\nname = "s"\ndelay = "5 ms"\nboth = { rate = "5 Mbit/s" }\n'
        '[[flow]]\nname = "f"\ncongestion = "cubic"\n'
    )
    run = CliRunner()
    assert run.invoke(app, ["run", str(file), "--out", str(store)]).exit_code == 0
    with pytest.raises(Exception, match=r"--set trace\.stages=true"):
        run.invoke(app, ["verify", str(store)], catch_exceptions=False)
    traced = tmp_path / "traced"
    assert (
        run.invoke(app, ["run", str(file), "--set", "trace.stages=true", "--out", str(traced)]).exit_code == 0
    )
    good = run.invoke(app, ["verify", str(traced)])
    assert good.exit_code == 0
    assert "nothing found" in good.output
    said = json.loads(run.invoke(app, ["verify", str(traced), "--json"]).output)
    assert said[0]["findings"] == []
