"""``bentpipe verify`` over queues of users: something is found in every kind of false run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from test_trace_check_radio import BUFFER, INCREMENTAL, link_layer
from traced_runs import DELAY, QUIC, RATE_10, judged, made, scenario, segment, spec_of, with_stages

Tables = dict[str, pl.DataFrame]
LIMIT = {"packets": 20}


def spec(scheduler: dict[str, Any], limit: dict[str, int] | None = LIMIT) -> dict[str, Any]:
    """Three users over a wired link, who go by turns or have deadlines."""
    queue = {"kind": "per_user", "scheduler": scheduler, "limit": limit, "total": None, "csi_delay_ns": 0}
    stage = {"kind": "transmit", "queue": queue, "service": RATE_10}
    found = spec_of(scenario(segment(), flows=(QUIC, QUIC, QUIC)))
    for number, flow in enumerate(found["flows"]):
        flow["user"] = number
    return with_stages(found, stage, DELAY)


CODES = {
    "name": "codes", "average": {"quantity": "channel", "window_ns": 10**8}, "time_limit_ns": 20_000_000,
}  # fmt: skip
TURNS = {"name": "round_robin"}


def queues(tables: Tables, **columns: pl.Expr) -> Tables:
    return {**tables, "user_queues": tables["user_queues"].with_columns(**columns)}


def causes(tables: Tables, before: str, after: str) -> Tables:
    cause = pl.when(pl.col("dropped") == before).then(pl.lit(after)).otherwise("dropped").alias("dropped")
    return {**tables, "packet_steps": tables["packet_steps"].with_columns(cause)}


FALSE: dict[str, tuple[dict[str, Any], dict[str, Any], Callable[[Tables], Tables], str]] = {
    "a packet more": (
        TURNS, TURNS, lambda t: queues(t, arrived_packets=pl.col("arrived_packets") + 1), "counters",
    ),
    "one lost on the way": (
        TURNS, TURNS, lambda t: queues(t, sent_packets=pl.col("sent_packets") - 1), "byte conservation",
    ),
    "waited for too long": (
        TURNS, TURNS, lambda t: queues(t, queueing_max_s=pl.col("queueing_max_s") / 1e6), "counters",
    ),
    "no table": (TURNS, TURNS, lambda t: {k: v for k, v in t.items() if k != "user_queues"}, "counters"),
    "managed by nobody": (TURNS, TURNS, lambda t: causes(t, "overflow", "aqm"), "drop cause"),
    "for no reason": (TURNS, TURNS, lambda t: causes(t, "overflow", "retry_limit"), "drop cause"),
    "dropped too soon": (
        CODES, {**CODES, "time_limit_ns": 40_000_000}, lambda t: t, "early deadline drop",
    ),
    "served too late": (CODES, {**CODES, "time_limit_ns": 5_000_000}, lambda t: t, "service deadline"),
    "out of turn": (
        {"name": "deficit_round_robin", "quantum_bytes": 9_000, "weights": []}, TURNS, lambda t: t,
        "round robin",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_a_false_run_is_found(name: str, tmp_path: Path) -> None:
    ran, message, change, rule = FALSE[name]
    limit = None if ran["name"] == "codes" else LIMIT
    tables = made(spec(ran, limit))
    assert not judged(tmp_path, spec(ran, limit), tables)
    found = {finding.rule for finding in judged(tmp_path, spec(message, limit), change(tables))}
    assert rule in found


def test_another_limit_is_found(tmp_path: Path) -> None:
    tables = made(spec(TURNS))
    longer = judged(tmp_path, spec(TURNS, {"packets": 30}), tables)
    assert {finding.rule for finding in longer} == {"unnecessary drop"}
    shorter = judged(tmp_path, spec(TURNS, {"packets": 10}), tables)
    assert "queue limit" in {finding.rule for finding in shorter}


def over_the_air(rate: int, **other: Any) -> dict[str, Any]:
    """The three users over a radio link, with this rate in the specification."""
    layer = link_layer(rate_bit_s=rate, attempts=1, window=None, feedback=None) | other
    reordering = layer.pop("reordering", None)
    own = spec(TURNS)
    queue = own["graph"]["links"][0]["up"][0]["queue"]
    stage = {"kind": "radio", "queue": queue, "channel": None, "link_layer": layer, "reordering": reordering}
    return with_stages(own, stage, DELAY)


CHAPTER_6 = {
    "attempts": 3, "window": 100, "feedback": {"delay_ns": 20_000_000, "loss": 0.0}, **INCREMENTAL,
    "decoder": {"kind": "block_errors", "probabilities": [0.05]}, "reordering": BUFFER,
}  # fmt: skip
"""Its kind of link: the code is designed, not given, and a buffer restores the order."""


@pytest.mark.parametrize(
    ("other", "message"), [({}, 8_000_000), (CHAPTER_6, 7_500_000)], ids=["seen", "behind a buffer"]
)
def test_two_users_at_once_are_found(tmp_path: Path, other: dict[str, Any], message: int) -> None:
    """With a longer airtime in the specification, two users were on the radio link at once."""
    tables = made(over_the_air(10_000_000, **other))
    assert not judged(tmp_path, over_the_air(10_000_000, **other), tables)
    found = {finding.rule for finding in judged(tmp_path, over_the_air(message, **other), tables)}
    assert "one user at a time" in found


def test_one_packet_beside_another_is_found(tmp_path: Path) -> None:
    """With the departure of its predecessor, a packet was on the air together with it."""
    own = over_the_air(
        10_000_000, **CHAPTER_6 | {"decoder": {"kind": "block_errors", "probabilities": [0.0]}}
    )
    tables = made(own)
    assert not judged(tmp_path, own, tables)
    steps = tables["packet_steps"]
    left = steps.filter(link="s.up", stage=1, dropped="").sort("step")
    step, before = left["step"][left.height // 2], left["at_ns"][left.height // 2 - 1]
    moved = pl.when(pl.col("step") == step).then(before).otherwise("at_ns").alias("at_ns")
    found = judged(tmp_path, own, {**tables, "packet_steps": steps.with_columns(moved)})
    assert "one user at a time" in {finding.rule for finding in found}


def test_more_air_between_samples_than_time_is_found(tmp_path: Path) -> None:
    own = over_the_air(10_000_000)
    tables = made(own)
    users = tables["radio_users"]
    middle = users["time_s"].unique().sort()[users["time_s"].n_unique() // 2]
    later = pl.col("time_s") >= middle
    assert users.filter(pl.col("time_s") == middle, link="s.up")["airtime_s"].sum() > 0.3
    # as much more in one interval as it lasts; sums up to any instant are still below the time that has passed
    held = [
        pl.when(later).then(pl.col(name)).otherwise(0).alias(name) for name in ("airtime_s", "coded_bits")
    ]
    found = judged(tmp_path, own, {**tables, "radio_users": users.with_columns(held)})
    assert "one user at a time" in {finding.rule for finding in found}


def attempts(tables: Tables, which: pl.Expr, **columns: pl.Expr) -> Tables:
    """The attempts in order of time, with ``columns`` where ``which``."""
    rows = tables["radio_attempts"].sort("begin_ns")
    changed = {
        name: pl.when(which).then(value).otherwise(pl.col(name)).alias(name)
        for name, value in columns.items()
    }
    return {**tables, "radio_attempts": rows.with_columns(**changed)}


HALF = (pl.col("end_ns") - pl.col("begin_ns")) // 2
ONE = pl.int_range(pl.len()) == pl.len() // 2
"""The attempt in the middle."""

ATTEMPTS: dict[str, tuple[Callable[[Tables], Tables], str]] = {
    "two users at once": (
        lambda t: attempts(t, ONE, begin_ns=pl.col("begin_ns") - HALF, end_ns=pl.col("end_ns") - HALF), "one user at a time",
    ),
    "one on the air for longer than a moment": (lambda t: attempts(t, ONE, end_ns=pl.col("end_ns") + 1), "one user at a time"),
    "another's": (lambda t: attempts(t, ONE, user=(pl.col("user") + 1) % 3), "known link"),
    "before it came": (
        lambda t: attempts(t, ONE, begin_ns=pl.col("begin_ns") * 0, end_ns=HALF * 2), "attempts of present packets",
    ),
    "a packet that was not there": (
        lambda t: attempts(t, ONE, packet=t["packets"]["packet"].max()), "attempts of present packets",
    ),
    "no such packet": (lambda t: attempts(t, ONE, packet=10**6), "known link"),
    "shorter": (lambda t: attempts(t, ONE, end_ns=pl.col("end_ns") - HALF), "counters"),
    "left out": (lambda t: {**t, "radio_attempts": t["radio_attempts"].filter(~ONE)}, "counters"),
    "a copy": (lambda t: attempts(t, ONE, copy=1), "counters"),
    "counted twice": (lambda t: attempts(t, ONE, attempt=pl.col("attempt") + 1), "attempt order"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempts_that_cannot_be_are_found(name: str, tmp_path: Path) -> None:
    """On the link of chapter 6, of which the steps alone say little: without the table nothing is found."""
    falsify, rule = ATTEMPTS[name]
    own = over_the_air(10_000_000, **CHAPTER_6)
    tables = made(own)
    ordered = tables["radio_attempts"].sort("begin_ns")
    assert ordered["user"].n_unique() == 3
    assert ordered["attempt"].max() > 1  # type: ignore[operator]
    assert not judged(tmp_path, own, tables)
    false = falsify(tables)
    assert not judged(
        tmp_path, own, {name: table for name, table in false.items() if name != "radio_attempts"}
    )
    assert rule in {finding.rule for finding in judged(tmp_path, own, false)}


def test_a_given_code_says_how_long_attempts_are(tmp_path: Path) -> None:
    own, message = over_the_air(10_000_000), over_the_air(10_000_500)
    tables = made(own)
    assert not judged(tmp_path, own, tables)
    found = [one for one in judged(tmp_path, message, tables) if one.rule == "link rate"]
    assert len(found) == tables["radio_attempts"].height


def test_turns_on_the_air_are_seen(tmp_path: Path) -> None:
    """Service by bytes is not round robin by packets; attempts show the order of users."""
    ran, message = (over_the_air(10_000_000, **CHAPTER_6) for _ in range(2))
    deficit = {"name": "deficit_round_robin", "quantum_bytes": 9_000, "weights": []}
    for way in ("up", "down"):
        stage = ran["graph"]["links"][0][way][0]
        stage["queue"] = {**stage["queue"], "scheduler": deficit}
    tables = made(ran)
    assert not judged(tmp_path, ran, tables)
    assert "round robin" in {one.rule for one in judged(tmp_path, message, tables)}
    del tables["radio_attempts"]
    assert not judged(tmp_path, message, tables)
