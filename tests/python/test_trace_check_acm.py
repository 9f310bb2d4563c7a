"""``bentpipe verify`` over adaptive coding and modulation: nothing to find in sound runs, and something in false ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from test_trace_check_radio import CODEL, run_of, steps
from traced_runs import DROP_TAIL, QUIC, TCP, judged, made

FADE = {
    "kind": "measured",
    "reference": {"snr_db": 8.0, "error_db": 0.0},
    "points": [[0, 0.0], [1_000_000_000, 6.0], [1_500_000_000, 0.0]],
    "interpolation": "step",
    "repeat_ns": None,
}
FIXED = {"kind": "fixed", "snr_db": 3.0}


def acm(
    channel: dict[str, Any], queue: dict[str, Any] = DROP_TAIL, symbols: int = 10_000_000
) -> dict[str, Any]:
    modes = [
        {"es_n0_db": need, "data_bits": bits, "coded_bits": 64_800, "symbols": 32_490}
        for need, bits in ((-2.35, 15_928), (1.0, 32_128), (6.42, 58_112))
    ]
    return {
        "kind": "acm", "queue": queue, "channel": channel, "symbols_s": symbols, "modes": modes, "margin_db": 0.5,
        "hysteresis_db": 0.5, "report_interval_ns": 50_000_000, "report_delay_ns": 100_000_000,
    }  # fmt: skip


@pytest.mark.parametrize("flow", [QUIC, TCP], ids=["quic", "tcp"])
@pytest.mark.parametrize("stage", [acm(FADE), acm(FIXED), acm(FADE, CODEL)], ids=["fade", "fixed", "codel"])
def test_nothing_is_found_in_a_sound_run(stage: dict[str, Any], flow: dict[str, Any], tmp_path: Path) -> None:
    spec = run_of(stage, flow)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    lost = tables["packet_steps"].filter(pl.col("dropped") == "retry_limit").height
    assert (lost > 0) == (stage["channel"] is FADE)


def test_a_false_run_is_caught(tmp_path: Path) -> None:
    spec = run_of(acm(FADE), TCP)
    tables = made(spec)

    def found(wrong: dict[str, Any], seen: dict[str, pl.DataFrame]) -> set[str]:
        return {one.rule for one in judged(tmp_path, wrong, seen)}

    assert "link rate" in found(run_of(acm(FADE, symbols=2_000_000), TCP), tables)
    assert "drop cause" in found(run_of(acm(FIXED), TCP), tables)
    aqm = steps(tables, pl.col("dropped").eq("retry_limit"), dropped=pl.lit("aqm"))
    assert "drop cause" in found(spec, aqm)
