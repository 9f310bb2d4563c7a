"""``bentpipe verify`` over queues of users: something is found in every kind of false run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

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


def test_two_users_at_once_are_found(tmp_path: Path) -> None:
    """A radio link that is said to need twice the air had two users on it at once."""
    from test_verify_radio import link_layer

    def radio(rate: int) -> dict[str, Any]:
        layer = link_layer(rate_bit_s=rate, attempts=1, window=None, feedback=None)
        own = spec(TURNS)
        queue = own["graph"]["links"][0]["up"][0]["queue"]
        stage = {"kind": "radio", "queue": queue, "channel": None, "link_layer": layer, "reordering": None}
        return with_stages(own, stage, DELAY)

    tables = made(radio(10_000_000))
    assert not judged(tmp_path, radio(10_000_000), tables)
    found = {finding.rule for finding in judged(tmp_path, radio(8_000_000), tables)}
    assert "one user at a time" in found
