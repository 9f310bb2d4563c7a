"""``bentpipe verify`` over 5G links: nothing to find in sound runs, and something in every kind of false one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from traced_runs import DELAY, DROP_TAIL, QUIC, TCP, judged, made, scenario, segment, spec_of, with_stages

MS = 1_000_000
RLC = {
    "kind": "acknowledged", "poll_pdus": 16, "poll_bytes": None, "poll_retransmit_ns": 150 * MS, "reassembly_ns": 70 * MS,
    "status_prohibit_ns": 30 * MS, "max_retransmissions": 32,
}  # fmt: skip
UM = {"kind": "unacknowledged"}
IN_ORDER = {"time_limit_ns": None}


def nr(**other: Any) -> dict[str, Any]:
    """Blocks of 1,000 bytes in slots of 0.5 ms, a tenth in error, answered after 20 ms."""
    return {
        "kind": "nr", "queue": DROP_TAIL, "channel": None, "slot_ns": MS // 2, "block_bytes": 1000, "coded_bits": 16_000,
        "decoder": {"kind": "block_errors", "probabilities": [0.1, 0.3]}, "combining": "incremental", "processes": 16,
        "feedback_disabled_processes": 0, "repetitions": 1, "attempts": 3, "offset_slots": 0,
        "feedback": {"delay_ns": 20 * MS, "loss": 0.0}, "rlc": RLC, "reordering": IN_ORDER,
    } | other  # fmt: skip


STAGES: dict[str, dict[str, Any]] = {
    "acknowledged": nr(),
    "lost answers": nr(feedback={"delay_ns": 20 * MS, "loss": 0.2}),
    "rlc alone": nr(feedback_disabled_processes=16, attempts=1, rlc=RLC | {"reassembly_ns": 0}),
    "half of them": nr(feedback_disabled_processes=8),
    "unacknowledged": nr(rlc=UM, reordering=None),
    "unacknowledged, in order": nr(rlc=UM, reordering={"time_limit_ns": 30 * MS}),
    "late ones are lost": nr(reordering={"time_limit_ns": 10 * MS}),
    "repetitions": nr(repetitions=4, offset_slots=7),
    "given up": nr(attempts=1, rlc=RLC | {"max_retransmissions": 1, "reassembly_ns": 0}),
    "a channel": nr(
        channel={"kind": "fixed", "snr_db": -1.0}, decoder={"kind": "information", "margin": 1.05}, combining="chase",
    ),
}  # fmt: skip


def run_of(stage: dict[str, Any], flow: dict[str, Any]) -> dict[str, Any]:
    return with_stages(spec_of(scenario(segment(), flows=(flow,))), stage, DELAY)


@pytest.mark.parametrize("flow", [QUIC, TCP], ids=["quic", "tcp"])
@pytest.mark.parametrize("name", STAGES)
def test_nothing_is_found_in_a_sound_run(name: str, flow: dict[str, Any], tmp_path: Path) -> None:
    spec = run_of(STAGES[name], flow)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    last = tables["radio_users"].filter(pl.col("time_s") == pl.col("time_s").max(), pl.col("link") == "s.up")
    assert last["attempts"].sum() > 100
    if name == "lost answers":
        assert last["duplicate_attempts"].sum() > 20
    if name in ("given up", "unacknowledged", "late ones are lost"):
        assert last["dropped_retry_limit_packets"].sum() > 0


Tables = dict[str, pl.DataFrame]


def users(tables: Tables, **columns: pl.Expr) -> Tables:
    return {**tables, "radio_users": tables["radio_users"].with_columns(**columns)}


def steps(tables: Tables, which: pl.Expr, **columns: pl.Expr) -> Tables:
    """The steps with ``columns`` where ``which``."""
    changed = {
        name: pl.when(which).then(value).otherwise(pl.col(name)).alias(name)
        for name, value in columns.items()
    }
    return {**tables, "packet_steps": tables["packet_steps"].with_columns(**changed)}


GIVEN_UP = pl.col("dropped").eq("retry_limit")

FALSE: dict[str, tuple[Callable[[Tables], Tables], str]] = {
    "more air than time": (lambda t: users(t, airtime_s=pl.col("airtime_s") * 50), "airtime"),
    "half a block": (lambda t: users(t, attempts=pl.col("attempts") - 1), "airtime"),
    "bits without air": (lambda t: users(t, coded_bits=pl.col("coded_bits") + 10_000), "airtime"),
    "bits without blocks": (lambda t: users(t, useful_bits=pl.col("useful_bits") * 3), "airtime"),
    "one packet more": (lambda t: users(t, decoded_after_0_packets=pl.col("decoded_after_0_packets") + 500), "counters"),
    "one packet less given up": (
        lambda t: users(t, dropped_retry_limit_packets=(pl.col("dropped_retry_limit_packets") - 1).clip(0)), "counters",
    ),
    "no table": (lambda t: {name: table for name, table in t.items() if name != "radio_users"}, "counters"),
    "given up too soon": (lambda t: steps(t, GIVEN_UP, at_ns=pl.col("at_ns") - 80 * MS), "drop cause"),
    "another cause": (lambda t: steps(t, GIVEN_UP, dropped=pl.lit("aqm")), "drop cause"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_a_false_run_is_caught(name: str, tmp_path: Path) -> None:
    falsify, rule = FALSE[name]
    spec = run_of(STAGES["unacknowledged"], TCP)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    assert rule in {one.rule for one in judged(tmp_path, spec, falsify(tables))}


NO_ERRORS = {"kind": "block_errors", "probabilities": [0.0]}

WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "the slot": (nr(), nr(slot_ns=5 * MS), "link rate"),
    "the block": (nr(feedback_disabled_processes=16), nr(feedback_disabled_processes=16, block_bytes=100), "link rate"),
    "the processes": (nr(), nr(processes=1), "link rate"),
    "the offset": (nr(), nr(offset_slots=100), "link rate"),
    "the order": (nr(rlc=UM, reordering=None), nr(), "packet order"),
    "no errors": (nr(rlc=UM, reordering=None), nr(rlc=UM, reordering=None, decoder=NO_ERRORS), "drop cause"),
    "more attempts": (nr(rlc=UM, reordering=None), nr(rlc=UM, reordering=None, attempts=9), "drop cause"),
    "within a slot": (nr(rlc=UM, reordering=None), nr(rlc=UM, reordering=None, slot_ns=300_000), "slot boundaries"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_run_of_another_link_is_caught(name: str, tmp_path: Path) -> None:
    ran, message, rule = WRONG[name]
    found = judged(tmp_path, run_of(message, TCP), made(run_of(ran, TCP)))
    assert rule in {one.rule for one in found}
