"""``bentpipe verify`` over queues of users: something is found in every kind of false run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from test_verify_radio import BUFFER, INCREMENTAL, link_layer
from traced import DELAY, QUIC, RATE_10, judged, made, scenario, segment, spec_of, with_stages

Tables = dict[str, pl.DataFrame]
LIMIT = {"packets": 20}


def spec(scheduler: dict[str, Any], limit: dict[str, int] | None = LIMIT) -> dict[str, Any]:
    """Three users over a wired link, who go by turns or have deadlines."""
    queue = {"kind": "per_user", "scheduler": scheduler, "limit": limit, "total": None, "channel_delay_ns": 0}
    stage = {"kind": "transmit", "queue": queue, "service": RATE_10}
    found = spec_of(scenario(segment(), flows=(QUIC, QUIC, QUIC)))
    for number, flow in enumerate(found["flows"]):
        flow["user"] = number
    return with_stages(found, stage, DELAY)


CODES = {
    "name": "codes", "average": {"of": "channel", "window_ns": 10**8}, "time_limit_ns": 20_000_000,
}  # fmt: skip
TURNS = {"name": "round_robin"}


def queues(tables: Tables, **columns: pl.Expr) -> Tables:
    return {**tables, "user_queues": tables["user_queues"].with_columns(**columns)}


def causes(tables: Tables, before: str, after: str) -> Tables:
    cause = pl.when(pl.col("dropped") == before).then(pl.lit(after)).otherwise("dropped").alias("dropped")
    return {**tables, "stages": tables["stages"].with_columns(cause)}


FALSE: dict[str, tuple[dict[str, Any], dict[str, Any], Callable[[Tables], Tables], str]] = {
    "a packet more": (
        TURNS, TURNS, lambda t: queues(t, arrived_packets=pl.col("arrived_packets") + 1), "counters count",
    ),
    "one lost on the way": (
        TURNS, TURNS, lambda t: queues(t, sent_packets=pl.col("sent_packets") - 1), "bytes are conserved",
    ),
    "waited for too long": (
        TURNS, TURNS, lambda t: queues(t, longest_wait_s=pl.col("longest_wait_s") / 1e6), "counters count",
    ),
    "no table": (TURNS, TURNS, lambda t: {k: v for k, v in t.items() if k != "user_queues"}, "counters count"),
    "managed by nobody": (TURNS, TURNS, lambda t: causes(t, "overflow", "aqm"), "a cause for every drop"),
    "for no reason": (TURNS, TURNS, lambda t: causes(t, "overflow", "link"), "a cause for every drop"),
    "dropped too soon": (
        CODES, {**CODES, "time_limit_ns": 40_000_000}, lambda t: t, "nobody is dropped in time",
    ),
    "served too late": (CODES, {**CODES, "time_limit_ns": 5_000_000}, lambda t: t, "nobody is served late"),
    "out of turn": (
        {"name": "deficit_round_robin", "quantum_bytes": 9_000, "weights": []}, TURNS, lambda t: t,
        "round robin takes turns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_a_false_run_is_found(name: str, tmp_path: Path) -> None:
    ran, said, change, rule = FALSE[name]
    limit = None if ran["name"] == "codes" else LIMIT
    tables = made(spec(ran, limit))
    assert not judged(tmp_path, spec(ran, limit), tables)
    found = {finding.rule for finding in judged(tmp_path, spec(said, limit), change(tables))}
    assert rule in found


def test_another_limit_is_found(tmp_path: Path) -> None:
    tables = made(spec(TURNS))
    longer = judged(tmp_path, spec(TURNS, {"packets": 30}), tables)
    assert {finding.rule for finding in longer} == {"no drop while there is room"}
    shorter = judged(tmp_path, spec(TURNS, {"packets": 10}), tables)
    assert "no queue longer than its limit" in {finding.rule for finding in shorter}


def over_the_air(rate: int, **other: Any) -> dict[str, Any]:
    """The three users over a radio link, whose layer is said to have this rate."""
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
    ("other", "said"), [({}, 8_000_000), (CHAPTER_6, 7_500_000)], ids=["seen", "behind a buffer"]
)
def test_two_users_at_once_are_found(tmp_path: Path, other: dict[str, Any], said: int) -> None:
    """A radio link that is said to need more air had two users on it at once."""
    tables = made(over_the_air(10_000_000, **other))
    assert not judged(tmp_path, over_the_air(10_000_000, **other), tables)
    found = {finding.rule for finding in judged(tmp_path, over_the_air(said, **other), tables)}
    assert "one user at a time" in found


def test_one_packet_beside_another_is_found(tmp_path: Path) -> None:
    """A packet is said to have left the air as the one before it did, so that both were on it at once."""
    own = over_the_air(
        10_000_000, **CHAPTER_6 | {"decoder": {"kind": "block_errors", "probabilities": [0.0]}}
    )
    tables = made(own)
    assert not judged(tmp_path, own, tables)
    steps = tables["stages"]
    left = steps.filter(link="s.up", stage=1, dropped="").sort("step")
    step, before = left["step"][left.height // 2], left["at_ns"][left.height // 2 - 1]
    moved = pl.when(pl.col("step") == step).then(before).otherwise("at_ns").alias("at_ns")
    found = judged(tmp_path, own, {**tables, "stages": steps.with_columns(moved)})
    assert "one user at a time" in {finding.rule for finding in found}


def test_more_air_between_samples_than_time_is_found(tmp_path: Path) -> None:
    own = over_the_air(10_000_000)
    tables = made(own)
    users = tables["users"]
    middle = users["time_s"].unique().sort()[users["time_s"].n_unique() // 2]
    later = pl.col("time_s") >= middle
    assert users.filter(pl.col("time_s") == middle, link="s.up")["air_s"].sum() > 0.3
    # as much more in one interval as it lasts; sums up to any instant are still below the time that has passed
    held = [pl.when(later).then(pl.col(name)).otherwise(0).alias(name) for name in ("air_s", "coded_bits")]
    found = judged(tmp_path, own, {**tables, "users": users.with_columns(held)})
    assert "one user at a time" in {finding.rule for finding in found}
