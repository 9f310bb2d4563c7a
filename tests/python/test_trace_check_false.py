"""Tests of ``bentpipe verify`` with forged runs, or with another specification."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from every_stage import CODEL, SLOT_DELAY, SLOT_LOSS, STAGES, TIMING
from traced_runs import (
    DELAY,
    SLOTS,
    TCP,
    jitter,
    judged,
    loss,
    made,
    outage,
    scenario,
    segment,
    spec_of,
    transmit,
    with_stages,
)

Tables = dict[str, pl.DataFrame]

NARROW = transmit({"kind": "drop_tail", "limit": {"bytes": 10_000}})
FALSE = with_stages(
    spec_of(scenario(segment(), flows=(TCP,))), NARROW, loss("bernoulli", probability=0.003), DELAY
)


@pytest.fixture(scope="module")
def sound() -> Tables:
    return made(FALSE)


def some(tables: Tables) -> int:
    """A packet with data that waited, was served and arrived."""
    rows = tables["packet_steps"].filter(pl.col("link") == "s.up", pl.col("packet") >= 700)
    served = (
        rows.filter(pl.col("stage") <= 1)
        .group_by("packet")
        .agg(pl.col("at_ns").max() - pl.col("at_ns").min())
    )
    arrived = rows.filter(pl.col("stage") == 3)["packet"].implode()
    return int(served.filter(pl.col("at_ns") > 2_000_000, pl.col("packet").is_in(arrived))["packet"].min())


def moved(tables: Tables, stage: int, by: int) -> Tables:
    """A step of a packet, at another time."""
    rows = tables["packet_steps"]
    is_it = (rows["packet"] == some(tables)) & (rows["stage"] == stage)
    assert is_it.sum() == 1
    return {
        **tables,
        "packet_steps": rows.with_columns(at_ns=pl.when(is_it).then(pl.col("at_ns") + by).otherwise("at_ns")),
    }


def changed(tables: Tables, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Tables:
    return {**tables, table: change(tables[table])}


def of_packet(tables: Tables, dropped: str) -> int:
    rows = tables["packet_steps"]
    return int(rows.filter((rows["dropped"] == dropped) & (rows["link"] == "s.up"))["packet"][0])


def without_its_drop(tables: Tables) -> Tables:
    lost = of_packet(tables, "loss")
    return changed(tables, "packet_steps", lambda t: t.filter((t["packet"] != lost) | (t["dropped"] == "")))


def with_another_cause(tables: Tables) -> Tables:
    lost = of_packet(tables, "loss")
    other = (
        pl.when(pl.col("packet") == lost, pl.col("dropped") == "loss")
        .then(pl.lit("outage"))
        .otherwise("dropped")
    )
    return changed(tables, "packet_steps", lambda t: t.with_columns(dropped=other))


def let_in(tables: Tables) -> Tables:
    """A packet dropped at a full queue waits for ever."""
    saved = of_packet(tables, "overflow")
    return changed(tables, "packet_steps", lambda t: t.filter((t["packet"] != saved) | (t["dropped"] == "")))


def one_more(column: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda table: table.with_columns(pl.col(column) + 1)


def on_the_other_link(tables: Tables) -> Tables:
    other = pl.when(pl.col("packet") == some(tables)).then(pl.lit("s.down")).otherwise("link")
    return changed(tables, "packet_steps", lambda t: t.with_columns(link=other))


def without(tables: Tables, *stages: int) -> Tables:
    gone = (pl.col("packet") == some(tables)) & pl.col("stage").is_in(stages)
    return changed(tables, "packet_steps", lambda t: t.filter(~gone))


FALSEHOODS: dict[str, tuple[Callable[[Tables], Tables], str]] = {
    "faster than its rate": (lambda t: moved(moved(t, 1, -900_000), 2, -900_000), "link rate"),
    "slower than its rate": (
        lambda t: moved(moved(t, 1, 900_000), 2, 900_000),
        "work conservation",
    ),
    "sooner than its delay": (lambda t: moved(t, 3, -1000), "minimum delay"),
    "later than its delay": (lambda t: moved(t, 3, 1000), "minimum delay"),
    "back in time": (lambda t: moved(t, 3, -30_000_000), "time order"),
    "a packet vanishes": (without_its_drop, "byte conservation"),
    "a drop without a cause": (with_another_cause, "drop cause"),
    "a longer queue": (let_in, "queue limit"),
    "a stage is left out": (lambda t: without(t, 2), "stage order"),
    "another link": (on_the_other_link, "link order"),
    "never seen": (lambda t: without(t, 0, 1, 2, 3), "byte conservation"),
    "a link's counter": (lambda t: changed(t, "links", one_more("delivered_bytes")), "counters"),
    "a link's drops": (
        lambda t: changed(t, "link_summary", one_more("dropped_loss_packets")),
        "counters",
    ),
    "an end's counter": (lambda t: changed(t, "flow_summary", one_more("sent_bytes")), "counters"),
    "bytes from nowhere": (
        lambda t: changed(
            t, "flow_summary", lambda s: s.with_columns(received_in_order_bytes=pl.col("sent_bytes") + 10**9)
        ),
        "byte conservation",
    ),
    "another arrival": (
        lambda t: changed(t, "packets", lambda s: s.with_columns(received_s=pl.col("received_s") + 1e-6)),
        "byte conservation",
    ),
}


@pytest.mark.parametrize("name", FALSEHOODS)
def test_a_false_run_is_caught(name: str, sound: Tables, tmp_path: Path) -> None:
    falsify, rule = FALSEHOODS[name]
    assert not judged(tmp_path, FALSE, sound)
    assert rule in {one.rule for one in judged(tmp_path, FALSE, falsify(sound))}


WRONG_PATHS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = {
    "down": (
        [outage(buffer_packets=False), transmit(), DELAY],
        [{**outage(buffer_packets=False), "windows": [(100_000_000, 300_000_000)]}, transmit(), DELAY],
        "link outage",
    ),
    "down and held": (
        [transmit(), outage(buffer_packets=True), DELAY],
        [transmit(), {**outage(buffer_packets=True), "windows": [(200_000_000, 400_000_000)]}, DELAY],
        "link outage",
    ),
    "more loss": (
        [transmit(), loss("bernoulli", probability=0.05), DELAY],
        [transmit(), loss("bernoulli", probability=0.01), DELAY],
        "loss model",
    ),
    "another list": (
        [transmit(), loss("trace", packets=[10]), DELAY],
        [transmit(), loss("trace", packets=[11]), DELAY],
        "loss model",
    ),
    "room": (
        [transmit(), DELAY],
        [transmit({"kind": "drop_tail", "limit": {"bytes": 80_000}}), DELAY],
        "unnecessary drop",
    ),
    "the front": (
        [transmit({"kind": "drop_tail", "limit": {"packets": 20}}), DELAY],
        STAGES["drop-head"],
        "a full queue drops from the front",
    ),
    "the end": (
        STAGES["drop-head"],
        [transmit({"kind": "drop_tail", "limit": {"packets": 20}}), DELAY],
        "tail drop",
    ),
    "room at the front": (
        STAGES["drop-head"],
        [transmit({"kind": "drop_head", "limit": {"packets": 21}}), DELAY],
        "a full queue drops from the front",
    ),
    "another slot": (
        [transmit(), SLOT_DELAY],
        [transmit(), {**SLOT_DELAY, "reconfiguration": {**TIMING, "phase_ns": 0}, "jitter_ns": []}],
        "a slot has one delay",
    ),
    "slots that are later": (
        [transmit(), SLOT_DELAY],
        [transmit(), {**SLOT_DELAY, "delay_ns": [90_000_000, 95_000_000]}],
        "minimum delay",
    ),
    "slots that are slower": (
        [
            transmit(
                service={
                    "kind": "reconfiguration",
                    "reconfiguration": TIMING,
                    "rate_bit_s": [9_000_000, 20_000_000],
                }
            ),
            DELAY,
        ],
        [
            transmit(
                service={
                    "kind": "reconfiguration",
                    "reconfiguration": TIMING,
                    "rate_bit_s": [4_000_000, 8_000_000],
                }
            ),
            DELAY,
        ],
        "link rate",
    ),
    "slots that are faster": (
        [
            transmit(
                service={
                    "kind": "reconfiguration",
                    "reconfiguration": TIMING,
                    "rate_bit_s": [4_000_000, 8_000_000],
                }
            ),
            DELAY,
        ],
        [
            transmit(
                service={
                    "kind": "reconfiguration",
                    "reconfiguration": TIMING,
                    "rate_bit_s": [9_000_000, 20_000_000],
                }
            ),
            DELAY,
        ],
        "work conservation",
    ),
    "slots that lose more": (
        [transmit(), SLOT_LOSS, DELAY],
        [
            transmit(),
            loss(
                "reconfiguration",
                reconfiguration=TIMING,
                probability=[0.05, 0.1],
                burst_probability=0.0,
                burst_ns=[],
            ),
            DELAY,
        ],
        "loss model",
    ),
    "codel": (
        [transmit({"kind": "codel", **CODEL}), DELAY],
        [transmit({"kind": "codel", **CODEL, "target_ns": 50_000_000}), DELAY],
        "AQM law",
    ),
    "opportunities": (
        [transmit(service=SLOTS), DELAY],
        [transmit(service={**SLOTS, "opportunity_bytes": 1000}), DELAY],
        "link rate",
    ),
    "netem": (
        STAGES["netem"],
        [{**STAGES["netem"][0], "limit_packets": 39}],
        "queue limit",
    ),
    "order": (
        [transmit(), jitter(True, "uniform", max_ns=5_000_000), DELAY],
        [transmit(), jitter(False, "uniform", max_ns=5_000_000), DELAY],
        "packet order",
    ),
    "an unknown stage": ([transmit(), DELAY], [transmit(), {"kind": "warp"}], "known stages"),
}


@pytest.mark.parametrize("name", WRONG_PATHS)
def test_a_run_of_another_path_is_caught(name: str, tmp_path: Path) -> None:
    ran, message, rule = WRONG_PATHS[name]
    spec = spec_of(scenario(segment()))
    found = judged(tmp_path, with_stages(spec, *message), made(with_stages(spec, *ran)))
    assert rule in {one.rule for one in found}
