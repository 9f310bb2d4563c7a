"""Stores in the documented layout without an engine: simple shapes with known answers, and sawtooths for figures."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import polars as pl

from bentpipe.plan.spec.run_id import SCHEMA
from bentpipe.store import plan_file
from bentpipe.store.files import checksum
from store_edit import put

PACKET = 1200
HEADERS = 28 + 20


@dataclass
class Flow:
    """One flow that sends ``up``: a share of the link, and when it begins."""

    name: str
    congestion: str = "cubic"
    rate_bit_s: float = 5e6
    start_s: float = 0.0
    ripple: float = 0.0


def run_id(cell: Mapping[str, Any], seed: int) -> str:
    return hashlib.sha256(json.dumps([dict(cell), seed], sort_keys=True).encode()).hexdigest()[:12]


def write_run(
    folder: Path,
    flows: Sequence[Flow],
    seed: int,
    duration_s: float = 30.0,
    interval_s: float = 0.1,
    link_bit_s: float = 10e6,
    one_way_ms: float = 250.0,
    sizes: Sequence[int] = (),
) -> None:
    """Write one run: every flow delivers ``rate_bit_s`` from its start on, with a sawtooth of ``ripple``."""
    folder.mkdir(parents=True)
    random = numpy.random.Generator(numpy.random.PCG64([seed, *map(ord, "".join(f.name for f in flows))]))
    time = numpy.round(numpy.arange(0, duration_s + interval_s / 2, interval_s), 9)
    parts, summaries, events, streams, internals = [], [], [], [], []
    total = numpy.zeros_like(time)
    for flow in flows:
        on = time >= flow.start_s
        period = 6.0 + 4.0 * random.random()
        tooth = ((time / period + random.random()) % 1.0 - 0.5) * 2 * flow.ripple
        noise = random.normal(0, 0.25 * flow.ripple, len(time)) if flow.ripple else 0.0
        speed = numpy.where(on, flow.rate_bit_s * (1 + tooth + noise), 0.0)
        since = numpy.clip(time - flow.start_s, 0, None)
        bytes_ = numpy.where(on, flow.rate_bit_s * since / 8, 0.0)
        if flow.ripple:
            bytes_ = numpy.cumsum(numpy.clip(speed, 0, None)) * interval_s / 8
            bytes_ = numpy.where(on, bytes_ - bytes_[0], 0.0)
        delivered = numpy.floor(bytes_ + 1e-6).astype(numpy.int64)
        total += speed
        srtt = 2 * one_way_ms * (1.1 + 0.1 * tooth)
        cwnd = numpy.maximum(2400, flow.rate_bit_s / 8 * srtt / 1000 * (1 + tooth))
        packets = delivered // PACKET
        lost = packets // 1000
        for side in ("client", "server"):
            client = side == "client"
            count = len(time)
            zero = numpy.zeros(count, dtype=numpy.int64)
            parts.append(
                pl.DataFrame(
                    {
                        "time_s": time,
                        "flow": [flow.name] * count,
                        "side": [side] * count,
                        "cwnd_bytes": cwnd.astype(numpy.int64) if client else zero + 12000,
                        "ssthresh_bytes": pl.Series([None] * count, dtype=pl.Int64),
                        "in_flight_bytes": (cwnd * 0.95).astype(numpy.int64) if client else zero,
                        "smoothed_rtt_ms": srtt,
                        "latest_rtt_ms": srtt + (random.normal(0, 1, count) if flow.ripple else 0.0),
                        "min_rtt_ms": numpy.full(count, 2 * one_way_ms),
                        "pacing_rate_bit_s": 1.25 * cwnd * 8 / (srtt / 1000),
                        "sent_packets": packets + lost if client else packets // 2,
                        "sent_bytes": (packets + lost) * (PACKET + HEADERS) if client else packets // 2 * 70,
                        "ack_packets": zero if client else packets // 2,
                        "ack_bytes": zero if client else packets // 2 * 70,
                        "lost_packets": lost if client else zero,
                        "lost_bytes": lost * PACKET if client else zero,
                        "congestion_events": lost // 2 if client else zero,
                        "ptos": zero,
                        "written_bytes": delivered if client else zero,
                        "received_bytes": zero if client else delivered,
                        "received_in_order_bytes": zero if client else delivered,
                    }
                )
            )
            last = parts[-1].row(-1, named=True)
            counters = {
                k: v
                for k, v in last.items()
                if k not in ("time_s", "flow", "side", "cwnd_bytes", "ssthresh_bytes", "in_flight_bytes")
                and not k.endswith(("_ms", "_bit_s"))
            }
            summaries.append(
                {
                    "flow": flow.name, "side": side, "congestion": flow.congestion, "start_s": flow.start_s,
                    "connected_s": flow.start_s + 2 * one_way_ms / 1000, "first_byte_s": flow.start_s,
                    "end_s": duration_s, "connections": 1, "completed_connections": 1, **counters,
                    "cwnd_max_bytes": int(cwnd.max()) if client else 12000,
                    "retransmitted_bytes": last["lost_bytes"],
                    "data_start_s": flow.start_s if client else None,
                    "data_end_s": duration_s if client else None,
                }
            )  # fmt: skip
        internals.append(
            pl.DataFrame({"time_s": time[::10], "flow": flow.name, "side": "client", "name": "rho",
                          "value": srtt[::10] / 25})
        )  # fmt: skip
        events.append({"time_s": flow.start_s, "flow": flow.name, "side": "client", "connection": 0,
                       "kind": "start", "value": None})  # fmt: skip
        if sizes:
            for index, size in enumerate(sizes):
                opened = flow.start_s + index
                took = 0.5 + size * 8 / flow.rate_bit_s * (1 + 0.2 * random.random())
                done = opened + took
                up, down = (size, size, opened + 0.5, done, done), (0, 0, None, None, done)
                streams.append((flow.name, 0, 4 * index, "data", opened, *up, *down))
        else:
            sent = int(delivered[-1])
            up, down = (sent, sent, flow.start_s, duration_s, None), (0, 0, None, None, None)
            streams.append((flow.name, 0, 0, "time", flow.start_s, *up, *down))
    link_rows = []
    for name in ("satellite.up", "satellite.down"):
        up = name.endswith("up")
        share = numpy.clip(total / link_bit_s, 0, 1) if up else numpy.zeros_like(time) + 0.02
        sent = (numpy.cumsum(share) * interval_s * link_bit_s / 8).astype(numpy.int64)
        queue = (share**2 * 100 * (1 + (random.random(len(time)) if up else 0))).astype(numpy.int64)
        arrived = sent // (PACKET + HEADERS)
        link_rows.append(
            pl.DataFrame(
                {
                    "time_s": time, "link": [name] * len(time),
                    "queued_packets": queue, "queued_bytes": queue * (PACKET + HEADERS), "sent_bytes": sent,
                    "arrived_packets": arrived, "arrived_bytes": sent, "delivered_packets": arrived,
                    "delivered_bytes": sent, "dropped_loss_packets": arrived // 1000,
                    **{f"dropped_{c}_packets": arrived * 0 for c in ("overflow", "aqm", "outage", "retry_limit", "no_route")},
                    "marked_packets": arrived * 0,
                }
            )
        )  # fmt: skip
    link_summary = []
    for frame in link_rows:
        last = frame.row(-1, named=True)
        p50 = float(frame["queued_bytes"].median() or 0) * 8e3 / link_bit_s
        del last["time_s"]
        link_summary.append(
            {"link": last["link"], "rate_bit_s": link_bit_s, "propagation_ms": one_way_ms, **last,
             "queueing_p50_ms": p50, "queueing_p95_ms": 1.6 * p50, "queueing_p99_ms": 1.8 * p50,
             "queueing_max_ms": 2.0 * p50}
        )  # fmt: skip
    merged = pl.concat(parts).sort("time_s", maintain_order=True)
    tables = {
        "flows": merged.with_columns(pl.col("flow", "side").cast(pl.Categorical)),
        "controller_state": pl.concat(internals),
        "links": pl.concat(link_rows).sort("time_s", maintain_order=True),
        "events": pl.DataFrame(events, schema_overrides={"value": pl.Float64}),
        "streams": pl.DataFrame(
            streams,
            schema={"flow": pl.String, "connection": pl.Int64, "stream_id": pl.Int64, "mode": pl.String,
                    "start_s": pl.Float64,
                    **{f"{way}_{name}": kind for way in ("up", "down")
                       for name, kind in (("written_bytes", pl.Int64), ("bytes", pl.Int64),
                                          ("first_byte_s", pl.Float64), ("last_byte_s", pl.Float64),
                                          ("fin_s", pl.Float64))}},
            orient="row",
        ),
        "flow_summary": pl.DataFrame(summaries),
        "link_summary": pl.DataFrame(link_summary),
    }  # fmt: skip
    for name, frame in tables.items():
        frame.pipe(put, folder / f"{name}.parquet")


def write_store(
    path: Path,
    runs: Sequence[tuple[Mapping[str, Any], int, Sequence[Flow], Mapping[str, Any]]],
    title: str = "A synthetic store",
) -> Path:
    """Write a store of (cell, seed, flows, keywords of :func:`write_run`)."""
    path.mkdir(parents=True)
    planned = []
    for cell, seed, flows, options in runs:
        name = run_id(cell, seed)
        planned.append({"id": name, "seed": seed, "cell": dict(cell)})
        write_run(path / "runs" / name, flows, seed, **options)
    scenario = f'title = "{title}"\nduration = "30 s"\nseeds = 3\n\n[[flow]]\nname = "a<b"\n'
    head = {
        "title": title,
        "engine": "1.2.3",
        "schema": SCHEMA,
        "overrides": [],
        "scenario": checksum(scenario.encode()),
    }
    (path / "plan.json").write_text(plan_file.written(head, planned))
    (path / "scenario.toml").write_text(scenario)
    return path


def pair_store(
    path: Path, shares: Sequence[tuple[float, float]], cell: Mapping[str, Any] | None = None
) -> Path:
    """Two flows that deliver exactly the given rates (Mbit/s), one seed per pair of rates."""
    return write_store(
        path,
        [
            (cell or {}, seed, [Flow("first", "hybla", a * 1e6), Flow("second", "newreno", b * 1e6)],
             {})
            for seed, (a, b) in enumerate(shares, start=1)
        ],
        "Two flows share a link",
    )  # fmt: skip


STRENGTH = {"newreno": 0.15, "cubic": 0.45, "bbr": 0.95, "hybla": 0.8}


def matrix_store(
    path: Path,
    seeds: int = 3,
    rates: Sequence[int] = (10, 25, 50, 100),
    duration_s: float = 300.0,
    interval_s: float = 0.1,
) -> Path:
    """The shape of a single-flow matrix: RTT x rate x loss x controller x seeds."""
    runs = []
    for (delay, losses), rate, congestion in itertools.product(
        (("15 ms", ("0.01 %", "0.1 %", "1 %", "10 %")), ("250 ms", ("0.01 %", "0.1 %", "1 %"))),
        rates,
        STRENGTH,
    ):
        for loss, seed in itertools.product(losses, range(1, seeds + 1)):
            cell = {
                "path.satellite.delay": delay,
                "path.satellite.down.rate": f"{rate} Mbit/s",
                "path.satellite.up.rate": f"{rate} Mbit/s",
                "path.satellite.up.loss": loss,
                "flow.main.congestion": congestion,
            }
            p = float(loss.split()[0]) / 100
            pain = min(
                1.0, 0.97 / (1 + (1 - STRENGTH[congestion]) * p**0.5 * rate * float(delay.split()[0]) / 20)
            )
            jitter = 1 + 0.03 * (((seed * 7919) % 13) / 13 - 0.5)
            flow = Flow("main", congestion, rate * 1e6 * 0.95 * pain * jitter, 0.02, 0.15)
            runs.append(
                (cell, seed, [flow],
                 {"link_bit_s": rate * 1e6, "one_way_ms": float(delay.split()[0]), "duration_s": duration_s,
                  "interval_s": interval_s})
            )  # fmt: skip
    return write_store(path, runs, "NewReno, CUBIC, BBR and Hybla alone on LEO and GEO links")


def rivals_store(path: Path, seeds: int = 3, duration_s: float = 60.0) -> Path:
    """The shape of a friendliness grid: RTT x loss x rival's controller x seeds, with the rival 5 s late."""
    runs = []
    for delay, loss, rival, seed in itertools.product(
        ("15 ms", "250 ms"), ("0.01 %", "1 %"), ("newreno", "cubic", "bbr", "hybla"), range(1, seeds + 1)
    ):
        strong = 0.5 + (0.45 if delay == "250 ms" else 0.15) * (STRENGTH["hybla"] - STRENGTH[rival])
        share = strong * (1 + 0.02 * (seed - 2))
        cell = {"path.satellite.delay": delay, "path.satellite.up.loss": loss, "flow.rival.congestion": rival}
        flows = [
            Flow("hybla", "hybla", 9.3e6 * share, 0.0, 0.1),
            Flow("rival", rival, 9.3e6 * (1 - share), 5.0, 0.1),
        ]
        runs.append((cell, seed, flows, {"one_way_ms": float(delay.split()[0]), "duration_s": duration_s}))
    return write_store(path, runs, "Hybla against each rival")


def sizes_store(path: Path, seeds: int = 3) -> Path:
    """Streams of given sizes: completion times."""
    runs = []
    for congestion, seed in itertools.product(("cubic", "bbr"), range(1, seeds + 1)):
        flow = Flow("pages", congestion, 8e6 if congestion == "bbr" else 4e6, 0.0, 0.1)
        runs.append(
            (
                {"flow.pages.congestion": congestion},
                seed,
                [flow],
                {"sizes": [50_000 * (1 + i % 7) for i in range(20)]},
            )
        )
    return write_store(path, runs, "Objects over a GEO link")
