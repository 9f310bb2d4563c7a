"""Runs with packet traces, and the findings of ``verify``: helpers of its tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.store.codec import decode
from bentpipe.trace_check import Finding, findings
from bentpipe.trace_check.trace import load_trace

RATE = "10 Mbit/s"
QUIC: dict[str, Any] = {"name": "f", "congestion": "cubic", "load": {"time": "3 s"}}
TCP: dict[str, Any] = {**QUIC, "transport": "tcp"}
SPLIT = [{"name": "gateway", "between": ["a", "b"], "handshake": "early"}]


def segment(name: str = "s", **both: Any) -> dict[str, Any]:
    return {"name": name, "delay": "20 ms", "both": {"rate": RATE, **both}}


def scenario(
    *segments: dict[str, Any], flows: tuple[dict[str, Any], ...] = (QUIC,), **path: Any
) -> dict[str, Any]:
    return {
        "duration": "3 s",
        "trace": {"packet_steps": True},
        "path": {"segment": list(segments), **path},
        "flow": [{**flow, "name": f"f{n}"} for n, flow in enumerate(flows)],
    }


def spec_of(data: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(build_plan(load_scenario(data), "test").runs[0].spec_json())
    return spec


def with_stages(spec: dict[str, Any], *stages: dict[str, Any]) -> dict[str, Any]:
    """The first link, of ``stages`` in both directions."""
    link = spec["graph"]["links"][0]
    return {**spec, "graph": {**spec["graph"], "links": [{**link, "up": [*stages], "down": [*stages]}]}}


DROP_TAIL = {"kind": "drop_tail", "limit": {"bytes": 50_000}}
RATE_10 = {"kind": "rate", "rate_bit_s": 10_000_000}
DELAY = {"kind": "delay", "delay_ns": 20_000_000}
SLOTS = {
    "kind": "trace",
    "opportunities_ns": [2_000_000, 2_000_000, 5_000_000],
    "opportunity_bytes": 1504,
    "repeat_ns": 6_000_000,
}


def transmit(queue: dict[str, Any] = DROP_TAIL, service: dict[str, Any] = RATE_10) -> dict[str, Any]:
    return {"kind": "transmit", "queue": queue, "service": service}


def loss(kind: str, **model: Any) -> dict[str, Any]:
    return {"kind": "loss", "model": {"kind": kind, **model}}


def points(reorder: bool, interpolation: str = "linear") -> dict[str, Any]:
    at = [(0, 30_000_000), (700_000_000, 10_000_000), (900_000_000, 40_000_000)]
    return {
        "kind": "delay_trace",
        "points": at,
        "interpolation": interpolation,
        "repeat_ns": 1_100_000_000,
        "reorder": reorder,
    }


def jitter(reorder: bool, kind: str, **model: Any) -> dict[str, Any]:
    return {"kind": "jitter", "model": {"kind": kind, **model}, "reorder": reorder}


def outage(buffer_packets: bool) -> dict[str, Any]:
    windows = [(200_000_000, 260_000_000), (260_000_000, 300_000_000)]
    return {"kind": "outage", "windows": windows, "repeat_ns": 700_000_000, "buffer_packets": buffer_packets}


def made(spec: dict[str, Any]) -> dict[str, pl.DataFrame]:
    return dict(decode(engine.run(json.dumps(spec))).tables)


def judged(folder: Path, spec: dict[str, Any], tables: dict[str, pl.DataFrame]) -> list[Finding]:
    (folder / "spec.json").write_text(json.dumps(spec))
    return list(findings(load_trace(json.loads((folder / "spec.json").read_text()), tables)))
