"""``bentpipe verify`` over radio links: nothing to find in sound runs, and something in every kind of false one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from traced_runs import (
    DELAY,
    DROP_TAIL,
    QUIC,
    TCP,
    judged,
    made,
    scenario,
    segment,
    spec_of,
    transmit,
    with_stages,
)

CODEL = {"kind": "codel", "limit": None, "target_ns": 5_000_000, "interval_ns": 100_000_000, "ecn": False}


def link_layer(**other: Any) -> dict[str, Any]:
    """Frames of 1,500 bytes at a code rate of 3/4 and 20 Mbit/s, a tenth in error, answered after 20 ms."""
    return {
        "rate_bit_s": 20_000_000, "frame_bytes": 1_500, "overhead_bits": 100,
        "code": {"kind": "given", "coded_bits": [16_000]},
        "decoder": {"kind": "block_errors", "probabilities": [0.1, 0.3]},
        "combining": "none", "repeat": "selective", "attempts": 3, "window": 100,
        "feedback": {"delay_ns": 20_000_000, "loss": 0.0}, "timeout_ns": None,
    } | other  # fmt: skip


def radio(
    queue: dict[str, Any] = DROP_TAIL, reordering: Any = None, channel: Any = None, **layer: Any
) -> dict[str, Any]:
    found = link_layer(**layer)
    return {
        "kind": "radio",
        "queue": queue,
        "channel": channel,
        "link_layer": found,
        "reordering": reordering,
    }


LOSSY = {"feedback": {"delay_ns": 20_000_000, "loss": 0.2}, "timeout_ns": 25_000_000}
BUFFER = {"packets": 100, "time_limit_ns": None, "numbering": "link"}
PATIENT = {**BUFFER, "packets": 10**9}
INCREMENTAL = {
    "decoder": {"kind": "information", "margin": 1.05}, "combining": "incremental",
    "code": {"kind": "adaptive", "mother_rate": 0.25, "target_decoded_ratio": [0.5, 0.8]},
}  # fmt: skip

AVERAGE = {"quantity": "channel", "window_ns": 300_000_000}
RAYLEIGH = {
    "kind": "rayleigh", "reference": {"snr_db": 8.0, "error_db": 0.0},
    "motion": {"seed": None, "step_ns": 500_000, "carrier_hz": 2_000_000_000, "speed_m_s": 15.0},
}  # fmt: skip


def per_user(scheduler: dict[str, Any], limit: Any = DROP_TAIL["limit"]) -> dict[str, Any]:
    return {"kind": "per_user", "scheduler": scheduler, "limit": limit, "total": None, "csi_delay_ns": 0}


STAGES: dict[str, dict[str, Any]] = {
    "selective repeat": radio(),
    "until it is decoded": radio(attempts=None),
    "the packet itself at first": radio(first_overhead_bits=12_000),
    "one attempt": radio(attempts=1, window=None, feedback=None),
    "stop-and-wait": radio(window=1, feedback={"delay_ns": 2_000_000, "loss": 0.0}),
    "go-back-n": radio(repeat="go_back_n", attempts=None),
    "go-back-n that gives up": radio(repeat="go_back_n", **LOSSY),
    "lost answers": radio(**LOSSY),
    "a buffer": radio(reordering=BUFFER),
    "a patient buffer": radio(reordering=PATIENT, attempts=None),
    "a buffer with a limit": radio(reordering={**BUFFER, "time_limit_ns": 15_000_000}),
    "a buffer by TCP's numbers": radio(reordering={**BUFFER, "numbering": "tcp"}),
    "codel": radio(CODEL),
    "round robin": radio(per_user({"name": "round_robin"})),
    "proportional fair": radio(
        per_user({"name": "proportional_fair", "average": AVERAGE}), channel=RAYLEIGH, **INCREMENTAL
    ),
    "codes": radio(
        per_user({"name": "codes", "average": AVERAGE, "time_limit_ns": 5_000_000}, None),
        rate_bit_s=4_000_000,
    ),
    "information": radio(channel={"kind": "fixed", "snr_db": 2.0}, **INCREMENTAL),
    "small frames": radio(frame_bytes=400, code={"kind": "given", "coded_bits": [4_000]}),
}


def run_of(stage: dict[str, Any], flow: dict[str, Any]) -> dict[str, Any]:
    shared = stage["queue"]["kind"] == "per_user"
    spec = spec_of(scenario(segment(), flows=(flow, flow, flow) if shared else (flow,)))
    for number, one in enumerate(spec["flows"]):
        one["user"] = 2 * number
    return with_stages(spec, stage, DELAY)


@pytest.mark.parametrize("flow", [QUIC, TCP], ids=["quic", "tcp"])
@pytest.mark.parametrize("name", STAGES)
def test_nothing_is_found_in_a_sound_run(name: str, flow: dict[str, Any], tmp_path: Path) -> None:
    spec = run_of(STAGES[name], flow)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    last = tables["radio_users"].filter(pl.col("time_s") == pl.col("time_s").max(), pl.col("link") == "s.up")
    # TCP waits for its timer where a buffer by its own numbers waits for it.
    assert last["attempts"].sum() > (15 if "numbers" in name else 100)
    if name == "lost answers":
        assert last["duplicate_attempts"].sum() > 20


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
    "more air than time": (lambda t: users(t, airtime_s=pl.col("airtime_s") * 3, coded_bits=pl.col("coded_bits") * 3), "airtime"),
    "bits without air": (lambda t: users(t, coded_bits=pl.col("coded_bits") + 10_000), "airtime"),
    "fewer attempts than packets": (lambda t: users(t, attempts=pl.col("attempts") // 2), "airtime"),
    "one packet more": (lambda t: users(t, decoded_after_0_packets=pl.col("decoded_after_0_packets") + 1), "counters"),
    "one packet less given up": (
        lambda t: users(t, dropped_retry_limit_packets=(pl.col("dropped_retry_limit_packets") - 1).clip(0)), "counters",
    ),
    "no table": (lambda t: {name: table for name, table in t.items() if name != "radio_users"}, "counters"),
    "given up too soon": (
        lambda t: steps(t, GIVEN_UP, at_ns=pl.col("at_ns") - 30_000_000), "drop cause",
    ),
    "another cause": (lambda t: steps(t, GIVEN_UP, dropped=pl.lit("aqm")), "drop cause"),
    "nothing was lost": (lambda t: steps(t, GIVEN_UP, dropped=pl.lit("outage")), "drop cause"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_a_false_run_is_caught(name: str, tmp_path: Path) -> None:
    falsify, rule = FALSE[name]
    spec = run_of(STAGES["selective repeat"], TCP)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    assert rule in {one.rule for one in judged(tmp_path, spec, falsify(tables))}


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "the rate": (STAGES["selective repeat"], radio(rate_bit_s=5_000_000), "link rate"),
    "the code": (STAGES["selective repeat"], radio(code={"kind": "given", "coded_bits": [64_000]}), "link rate"),
    "the answer": (
        STAGES["selective repeat"], radio(feedback={"delay_ns": 40_000_000, "loss": 0.0}), "drop cause",
    ),
    "more attempts": (STAGES["selective repeat"], radio(attempts=4), "drop cause"),
    "who never gives up": (STAGES["selective repeat"], radio(attempts=None), "drop cause"),
    "go-back-n": (STAGES["until it is decoded"], radio(attempts=None, repeat="go_back_n"), "packet order"),
    "a patient buffer": (STAGES["until it is decoded"], radio(attempts=None, reordering=PATIENT), "packet order"),
    "room": (
        radio({"kind": "drop_tail", "limit": {"packets": 3}}), radio({"kind": "drop_tail", "limit": {"packets": 1_000}}),
        "unnecessary drop",
    ),
    "room at the front": (
        radio({"kind": "drop_head", "limit": {"packets": 3}}), radio({"kind": "drop_head", "limit": {"packets": 1_000}}),
        "unnecessary drop",
    ),
    "a wire": (STAGES["selective repeat"], transmit(), "drop cause"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_run_of_another_link_is_caught(name: str, tmp_path: Path) -> None:
    ran, message, rule = WRONG[name]
    found = judged(tmp_path, run_of(message, TCP), made(run_of(ran, TCP)))
    assert rule in {one.rule for one in found}
