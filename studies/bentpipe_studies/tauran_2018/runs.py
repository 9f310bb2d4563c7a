"""Results of each run in the terms of the thesis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.scenario.sweep_columns import column_name
from bentpipe_studies.tauran_2018.cells import SEGMENT

if TYPE_CHECKING:
    from bentpipe.store.reader import Store
    from bentpipe_studies.parts import Measurements

__all__ = ["LINK", "PAIR_WAITS_MS", "RunMeasures", "Runs"]

LINK = "mobile.down"
PAIR_WAITS_MS = (1, 5, 10, 20, 30, 40)
STARTED, SPAN_S = 200, (5.0, 15.0)
_ATTEMPTS = [f"decoded_after_{n}_packets" for n in range(4)]


class RunMeasures:
    """Measures of runs, a row each, by cell and seed; lookups are cached."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame
        self._values: dict[tuple[object, ...], tuple[float, ...]] = {}
        self._parts: dict[tuple[str, ...], dict[tuple[object, ...], pl.DataFrame]] = {}

    def values(self, cell: Mapping[str, str], measure: str) -> tuple[float, ...]:
        """Return a measure of a cell, one value for each seed; empty when it has not run."""
        asked = (measure, *cell.items())
        if asked not in self._values:
            there = self.frame.height and measure in self.frame.columns
            found = self._of(cell)[measure].drop_nulls().drop_nans().to_list() if there else ()
            self._values[asked] = tuple(found)
        return self._values[asked]

    def runs(self, cell: Mapping[str, str]) -> list[str]:
        """Return the runs of a cell, by seed."""
        return self._of(cell)["run"].to_list() if self.frame.height else []

    def _of(self, cell: Mapping[str, str]) -> pl.DataFrame:
        columns = set(self.frame.columns)
        wanted = {name: value for key, value in cell.items() if (name := _column(columns, key)) is not None}
        names = tuple(wanted)
        if names not in self._parts:
            rows = self.frame.sort("seed", maintain_order=True)
            self._parts[names] = rows.partition_by(names, as_dict=True) if names else {(): rows}
        return self._parts[names].get(tuple(wanted.values()), self.frame.clear())


class Runs(RunMeasures):
    """Runs of one part. Events and spurious retransmissions are % of packets sent."""

    def __init__(self, measurements: Measurements, part: str) -> None:
        super().__init__(_per_run(measurements, part))


def _column(columns: set[str], key: str) -> str | None:
    return next((name for name in (column_name(key), f"sweep.{key}", key) if name in columns), None)


def _per_run(measurements: Measurements, part: str) -> pl.DataFrame:
    store = measurements.store(part)
    if store is None:
        return pl.DataFrame()
    last = pl.col("time_s") == pl.col("time_s").max().over("run")
    users = store.rows("radio_users").filter(last & (pl.col("link") == LINK))
    users = users.group_by("run", "time_s", maintain_order=True).agg(
        pl.col(pl.Int64, pl.UInt64, pl.Float64).sum()
    )
    links = store.rows("links").filter(last & (pl.col("link") == LINK))
    summary = store.rows("flow_summary")
    server, client = (summary.filter(pl.col("side") == side) for side in ("server", "client"))
    decoded, coded = pl.sum_horizontal(_ATTEMPTS), pl.col("coded_bits")
    tried = decoded + pl.col("dropped_retry_limit_packets")
    link = users.select(
        "run",
        "time_s",
        success=100 * decoded / tried,
        bits=coded / tried,
        use_mbps=coded / pl.col("time_s") / 1e6,
        dropped=pl.col("dropped_retry_limit_packets"),
        **{f"decoded_{n}": 100 * pl.col(name) / tried for n, name in enumerate(_ATTEMPTS)},
    )
    data = pl.col("sent_packets") - pl.col("ack_packets")
    # Counters are summed over users.
    counters = [name for name, kind in summary.schema.items() if kind.is_numeric()]
    server, client = (
        one.group_by("run", maintain_order=True).agg(pl.col(counters).sum()) for one in (server, client)
    )
    sender = server.select(
        "run",
        "rtos",
        sent=data,
        rto=100 * pl.col("rtos") / data,
        dupack=100 * pl.col("congestion_events") / data,
        retransmissions=pl.col("retransmitted_bytes") / SEGMENT,
        rto_share=100 * SEGMENT * pl.col("rtos") / pl.col("retransmitted_bytes"),
    )
    receiver = client.select("run", "received_in_order_bytes")
    overflow = links.select("run", overflow=pl.col("dropped_overflow_packets"))
    frame = link.join(sender, on="run").join(receiver, on="run").join(overflow, on="run")
    frame = frame.with_columns(
        goodput_kbps=pl.col("received_in_order_bytes") * 8 / pl.col("time_s") / 1e3,
        packets=pl.col("received_in_order_bytes") / SEGMENT,
        bits_a_packet=pl.col("use_mbps") * pl.col("time_s") * 1e6 / pl.col("sent"),
    )
    frame = frame.join(_peaks(store), on="run").join(_windows(store), on="run")
    tcp = _tcp(store)
    if tcp.height:
        frame = frame.join(tcp, on="run").with_columns(spurious=100 * pl.col("duplicates") / pl.col("sent"))
    return store.shown(store.index.join(frame, on="run", how="inner", maintain_order="left"))


def _peaks(store: Store) -> pl.DataFrame:
    """Return the maximum coded rate of the link between two samples."""
    rows = store.rows("radio_users").filter(pl.col("link") == LINK).sort("run", "time_s")
    steps = pl.col("coded_bits").diff() / pl.col("time_s").diff() / 1e6
    return rows.group_by("run").agg(peak_mbps=steps.max())


def _windows(store: Store) -> pl.DataFrame:
    """Return when the window first reaches ``STARTED`` packets, and its growth ``SPAN_S`` after its first fall."""
    rows = store.rows("flows", ["time_s", "flow", "side", "cwnd_bytes"]).filter(pl.col("side") == "server")
    found = []
    for (run,), frame in rows.sort("run", "time_s").group_by("run", maintain_order=True):
        times, windows = frame["time_s"], frame["cwnd_bytes"] / SEGMENT
        reached = times.filter(windows >= STARTED)
        fallen = times.filter(windows < 0.9 * windows.cum_max())
        growth = None
        if fallen.len() and fallen[0] + SPAN_S[1] <= times[-1]:
            low, high = (windows.filter(times >= fallen[0] + span)[0] for span in SPAN_S)
            growth = float(high - low)
        found.append({"run": run, "slow_start_s": reached[0] if reached.len() else None, "growth": growth})
    return pl.DataFrame(found, schema={"run": pl.String, "slow_start_s": pl.Float64, "growth": pl.Float64})


def _tcp(store: Store) -> pl.DataFrame:
    """Return the measures that only TCP counts, if the run recorded them."""
    rows = store.rows("tcp_counters")
    if not rows.height:
        return rows
    rows = rows.filter(pl.col("time_s") == pl.col("time_s").max().over("run"))
    server, client = (rows.filter(pl.col("side") == side) for side in ("server", "client"))
    samples = pl.col("rtt_samples") / 1e3
    sender = server.select(
        "run",
        rto_ms=pl.col("rto_s") / samples,
        srtt_ms=pl.col("smoothed_rtt_s") / samples,
        rttvar_ms=pl.col("rtt_variance_s") / samples,
    )
    waits = [
        (pl.col(name) / pl.col("ack_pairs")).alias(name)
        for name in client.columns
        if name.startswith("pairs_within")
    ]
    receiver = client.select(
        "run", *waits, duplicates="duplicate_segments",
        pair_wait_ms=1e3 * pl.col("pair_wait_s") / pl.col("ack_pairs"),
    )  # fmt: skip
    return sender.join(receiver, on="run")
